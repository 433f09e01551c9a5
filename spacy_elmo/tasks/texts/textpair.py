"""Component `elmo_textpair`: labels two texts, for example as entailment."""

from collections.abc import Callable, Iterable
from typing import Any, Optional

import numpy as np
from spacy.pipeline.textcat import TextCategorizer, textcat_score
from spacy.tokens import Doc
from spacy.training import Example
from thinc.types import Floats2d

from ...layers.finite import check_loss
from ...registry import registry
from ..shared.spans import name_of
from ..shared.torch_module import check_initialized


class TextPairCategorizer(TextCategorizer):
    """Component that assigns one label to each Doc of two texts.

    The labels can be about entailment, paraphrases, or whether a word has the same sense. The
    component is spaCy's `textcat` with a model that distinguishes the two texts. Training skips
    examples whose reference has no `doc.cats`.
    """

    def predict(self, docs: Iterable[Doc]) -> Floats2d:
        """Compute the probabilities of the labels, also for empty Docs (unlike spaCy's `textcat`).

        RETURNS (Floats2d): *Shape:* `(n_docs, n_labels)`
        RAISES (ValueError): The pipe is not initialized, or a Doc does not have two texts.
        """
        check_initialized(self.model, self.name)
        return self.model.predict(list(docs))

    def update(self, examples: Iterable[Example], **settings: Any) -> dict[str, float]:
        """Learn from a batch, like spaCy's `textcat`.

        settings (Any): `drop`, `sgd` and `losses`, as in `textcat`.
        RAISES (ValueError): The pipe is not initialized, or an example has an unknown label.
        """
        check_initialized(self.model, self.name)
        return super().update(examples, **settings)

    def get_loss(self, examples: Iterable[Example], scores: Floats2d) -> tuple[float, Floats2d]:
        """Compute the loss and its gradient, like spaCy's `textcat`.

        RAISES (ValueError): A label is unknown, or the loss is not finite.
        """
        loss, d_scores = super().get_loss(examples, scores)
        check_loss(loss, self.name)
        return loss, d_scores

    def _examples_to_truth(self, examples: Iterable[Example]) -> tuple[np.ndarray, np.ndarray]:
        """Convert the gold labels to an array, and mark which of them are annotated.

        RETURNS (Tuple[numpy.ndarray, numpy.ndarray]): The values in `doc.cats`; and 1 where a label
            is annotated, else 0. *Shape:* `(n_docs, n_labels)` each
        RAISES (ValueError): A label is unknown.
        """
        examples = list(examples)
        for example in examples:
            unknown = [label for label in example.reference.cats if label not in self.labels]
            if unknown:
                raise ValueError(
                    f"the Doc {name_of(example.reference)} has the label {unknown[0]!r} in "
                    f"doc.cats, but the labels of '{self.name}' are {', '.join(self.labels)}"
                )
        truths, not_missing = super()._examples_to_truth(examples)
        # spaCy would take a Doc without labels as one for which every label is wrong.
        not_missing[[not any(one.reference.cats.values()) for one in examples]] = 0.0
        return truths, not_missing


@registry.scorers("spacy-elmo.textpair_scorer.v1")
def make_textpair_scorer() -> Callable:
    """Return the scorer of `elmo_textpair`, the function `score_textpair`."""
    return score_textpair


def score_textpair(
    examples: Iterable[Example], *, labels: Iterable[str], **kwargs: Any
) -> dict[str, Any]:
    """Compute the scores of spaCy's `textcat`, and the accuracy.

    The accuracy is the share of Docs whose most probable label is the gold label. Docs without a
    gold label are skipped, and labels of other components are ignored.

    RETURNS (Dict[str, Any]): `cats_score`, `cats_macro_f` and so on, and the accuracy `cats_acc`,
        which is None if there is nothing to count.
    """
    labels = list(labels)
    examples = [one for one in examples if any(one.reference.cats.get(key) for key in labels)]
    right = [_best(one.predicted, labels) == _best(one.reference, labels) for one in examples]
    accuracy = sum(right) / len(right) if right else None
    return {**textcat_score(examples, labels=labels, **kwargs), "cats_acc": accuracy}


def _best(doc: Doc, labels: list[str]) -> Optional[str]:
    found = (label for label in labels if label in doc.cats)
    return max(found, key=doc.cats.__getitem__, default=None)
