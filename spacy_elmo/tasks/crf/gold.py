"""Gold spans for `elmo_crf` (entities, or a span group), and the scorer."""

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, Optional

import numpy as np
from spacy.pipeline.spancat import spancat_score
from spacy.scorer import get_ner_prf
from spacy.tokens import Doc, Span
from spacy.training import Example

from ...registry import registry
from ..shared.bio import LabeledSpan
from ..shared.spans import checked_spans, span_error
from ..shared.task_files import copy_tokens

Gold = tuple[list[LabeledSpan], np.ndarray]


def reference_spans(doc: Doc, spans_key: Optional[str]) -> list[Span]:
    """Return the spans of a group, or the entities if the key is None.

    RAISES (ValueError): A span of the group has no tokens, or no label.
    """
    return list(doc.ents if spans_key is None else checked_spans(doc, spans_key))


def gold_spans(example: Example, spans_key: Optional[str]) -> Optional[Gold]:
    """Return the gold spans of an example, as token positions in the predicted Doc.

    As in spaCy's `ner`, all tokens that a span touches count as not annotated in two cases: the
    span begins or ends inside a token of the predicted Doc, or contains a line break that only the
    predicted Doc has.

    spans_key (Optional[str]): The key of the span group; None for entities.
    RETURNS (Optional[Tuple[List[Tuple[int, int, str]], numpy.ndarray]]): First token, the token
        after the last one, and label of each span; and an array that is True at tokens without
        annotation, `(n_tokens,)`. None if the reference has no annotation.
    RAISES (ValueError): Two spans overlap, or a span has no tokens or no label.
    """
    if spans_key is not None and spans_key in example.reference.spans:
        group = sorted(checked_spans(example.reference, spans_key))
        for one, other in pairwise(group):
            if other.start < one.end:
                fault = (
                    f"overlaps {other.label_} ({other.start}, {other.end}), but elmo_crf assigns "
                    f"one label per token. Use spancat for spans that overlap"
                )
                raise span_error(one, spans_key, fault)
        # The function below reads entities. The reference must not change, so a copy gets them.
        example = Example(example.predicted, copy_tokens(example.reference))
        example.reference.set_ents(group)
    elif spans_key is not None or not example.reference.has_annotation("ENT_IOB"):
        return None
    entities, tags = example.get_aligned_ents_and_ner()
    spans = [(span.start, span.end, span.label_) for span in entities]
    return spans, np.array([tag is None for tag in tags], dtype=bool)


@registry.scorers("spacy-elmo.crf_scorer.v1")
def make_crf_scorer() -> Callable:
    """Return the scorer of `elmo_crf`, the function `score_crf`."""
    return score_crf


def score_crf(
    examples: Iterable[Example], *, spans_key: Optional[str] = None, **kwargs: Any
) -> dict[str, Any]:
    """Compute precision, recall and F-score of whole spans, like spaCy's `ner` and `spancat`.

    spans_key (Optional[str]): The key of the span group; None for entities.
    RETURNS (Dict[str, Any]): For entities `ents_p`, `ents_r`, `ents_f` and `ents_per_type`. For a
        span group `spans_KEY_p` and so on. They are None if there is nothing to count.
    """
    if spans_key is None:
        return get_ner_prf(examples)
    return spancat_score(examples, spans_key=spans_key, allow_overlap=False)
