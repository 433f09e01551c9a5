"""The component `elmo_textpair`: the label of two texts, as entailment."""

from collections.abc import Callable, Iterable
from typing import Any, Optional

import numpy as np
from spacy.language import Language
from spacy.pipeline.textcat import TextCategorizer, textcat_score
from spacy.tokens import Doc
from spacy.training import Example
from thinc.api import Model
from thinc.types import Floats2d

from ..registry import registry
from .naming import name_of

DEFAULTS = {
    "model": {
        "@architectures": "spacy-elmo.ESIM.v1",
        "tok2vec": {"@architectures": "spacy-elmo.ElmoListener.v1"},
        "output_tok2vec": None,
    },
    "scorer": {"@scorers": "spacy-elmo.textpair_scorer.v1"},
}
SCORE_WEIGHTS = {
    "cats_acc": 1.0,
    "cats_score": 0.0,
    "cats_score_desc": None,
    "cats_micro_p": None,
    "cats_micro_r": None,
    "cats_micro_f": None,
    "cats_macro_p": None,
    "cats_macro_r": None,
    "cats_macro_f": 0.0,
    "cats_macro_auc": None,
    "cats_f_per_type": None,
}


@Language.factory(
    "elmo_textpair",
    assigns=["doc.cats"],
    default_config=DEFAULTS,
    default_score_weights=SCORE_WEIGHTS,
)
def make_textpair(
    nlp: Language, name: str, model: Model[list[Doc], Floats2d], scorer: Optional[Callable]
) -> "TextPairCategorizer":
    """Make an `elmo_textpair` pipe.

    model (Model[List[Doc], Floats2d]): From Docs of two texts to the probabilities of labels.
    scorer (Optional[Callable]): The scorer.
    """
    return TextPairCategorizer(nlp.vocab, model, name, threshold=0.0, scorer=scorer)


class TextPairCategorizer(TextCategorizer):
    """Gives each Doc of two texts one label: entailment, paraphrase, or the same sense of a
    word. It is spaCy's `textcat` with a model that knows which text is which. Examples whose
    reference has no `doc.cats` teach nothing.
    """

    def _examples_to_truth(self, examples: Iterable[Example]) -> tuple[np.ndarray, np.ndarray]:
        """Find the labels, as spaCy's own does.

        RAISES (ValueError): A label is not known.
        """
        examples = list(examples)
        for example in examples:
            unknown = [label for label in example.reference.cats if label not in self.labels]
            if unknown:
                raise ValueError(
                    f"the Doc {name_of(example.reference)} has the label {unknown[0]!r} in "
                    f"doc.cats, but '{self.name}' knows {', '.join(self.labels)}"
                )
        truths, not_missing = super()._examples_to_truth(examples)
        not_missing[[not any(one.reference.cats.values()) for one in examples]] = 0.0
        return truths, not_missing


@registry.scorers("spacy-elmo.textpair_scorer.v1")
def make_textpair_scorer() -> Callable:
    """RETURNS (Callable[[Iterable[Example]], Dict[str, Any]]): `score_textpair`."""
    return score_textpair


def score_textpair(examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
    """The scores of spaCy's `textcat`, and the accuracy: the share of the Docs whose most
    probable label is the reference's. Those whose reference has none, or none
    above 0, do not count.

    examples (Iterable[Example]): The examples.
    RETURNS (Dict[str, Any]): `cats_score`, `cats_macro_f` and so on, and `cats_acc`, None
        where there is nothing to count.
    """
    examples = [example for example in examples if any(example.reference.cats.values())]
    right = [_best(example.predicted) == _best(example.reference) for example in examples]
    accuracy = sum(right) / len(right) if right else None
    return {**textcat_score(examples, **kwargs), "cats_acc": accuracy}


def _best(doc: Doc) -> Optional[str]:
    return max(doc.cats, key=doc.cats.__getitem__, default=None)
