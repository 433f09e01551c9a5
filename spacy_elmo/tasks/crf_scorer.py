"""The scores of `elmo_crf`, which are spaCy's own."""

from collections.abc import Callable, Iterable
from typing import Any, Optional

from spacy.scorer import Scorer, get_ner_prf
from spacy.training import Example

from ..registry import registry


@registry.scorers("spacy-elmo.crf_scorer.v1")
def make_crf_scorer() -> Callable:
    """RETURNS (Callable[[Iterable[Example]], Dict[str, Any]]): `score_crf`."""
    return score_crf


def score_crf(
    examples: Iterable[Example], *, spans_key: Optional[str] = None, **kwargs: Any
) -> dict[str, Any]:
    """Precision, recall and F-score of whole spans, as of spaCy's `ner` and `spancat`.

    examples (Iterable[Example]): The examples.
    spans_key (Optional[str]): The span group; None for entities.
    RETURNS (Dict[str, Any]): `ents_p`, `ents_r`, `ents_f`, `ents_per_type`; of a group
        `spans_KEY_p` and so on. They are None where there is nothing to count.
    """
    if spans_key is None:
        return get_ner_prf(examples)
    scores: dict[str, Any] = Scorer.score_spans(
        examples,
        f"spans_{spans_key}",
        getter=lambda doc, _: doc.spans.get(spans_key, ()),
        has_annotation=lambda doc: spans_key in doc.spans,
    )
    return scores
