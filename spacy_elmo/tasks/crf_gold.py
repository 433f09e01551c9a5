"""Gold spans for `elmo_crf`: the entities of a Doc, or the spans of a group."""

from itertools import pairwise
from typing import NamedTuple, Optional

import numpy as np
from spacy.tokens import Doc, Span
from spacy.training import Example

from .aligning import to_predicted
from .bio import LabeledSpan
from .naming import checked_spans, name_of


class Gold(NamedTuple):
    """Spans in tokens of the predicted Doc.

    spans (List[Tuple[int, int, str]]): The spans, which do not overlap.
    missing (numpy.ndarray): True at tokens of which nothing is known. *Shape:* `(n_tokens,)`
    """

    spans: list[LabeledSpan]
    missing: np.ndarray


def reference_spans(doc: Doc, spans_key: Optional[str]) -> list[Span]:
    """RETURNS (List[Span]): The spans of a reference: of a group, or its entities.
    RAISES (ValueError): A span of the group has no tokens, or no label."""
    return list(doc.ents if spans_key is None else checked_spans(doc, spans_key))


def gold_spans(example: Example, spans_key: Optional[str]) -> Optional[Gold]:
    """Find the gold spans of an example.

    example (Example): The example.
    spans_key (Optional[str]): The span group; None for entities.
    RETURNS (Optional[Gold]): The spans; None where the reference has no annotation. What is
        missing there, or fits no tokens of the predicted Doc, is missing.
    RAISES (ValueError): Two spans overlap, or one has no tokens or no label.
    """
    if spans_key is None:
        return _entities(example)
    return _group(example, spans_key) if spans_key in example.reference.spans else None


def _entities(example: Example) -> Optional[Gold]:
    """As spaCy's `ner` reads them."""
    if not example.reference.has_annotation("ENT_IOB"):
        return None
    entities, tags = example.get_aligned_ents_and_ner()
    missing = np.array([tag is None for tag in tags], dtype=bool)
    return Gold([_labeled(span) for span in entities], missing)


def _group(example: Example, spans_key: str) -> Gold:
    group = sorted(checked_spans(example.reference, spans_key))
    for one, other in pairwise(group):
        if other.start < one.end:
            raise ValueError(
                f"the spans {_show(one)} and {_show(other)} of doc.spans[{spans_key!r}] overlap in "
                f"the Doc {name_of(example.reference)}: elmo_crf gives a token one label; take "
                f"spancat for spans that overlap"
            )
    gold = Gold([], np.zeros(len(example.predicted), dtype=bool))
    aligner = to_predicted(example)
    for span in group:
        found = aligner.span(span.start, span.end)
        if found is None:
            gold.missing[aligner.tokens(span.start, span.end)] = True
        else:
            gold.spans.append((*found, span.label_))
    return gold


def _labeled(span: Span) -> LabeledSpan:
    return span.start, span.end, span.label_


def _show(span: Span) -> str:
    return f"{span.label_} ({span.start}, {span.end})"
