"""Check that stops training with an error if a loss is NaN or infinite."""

import math

from spacy.errors import Errors


def check_loss(loss: float, name: str) -> None:
    """Raise an error if a loss is not finite. Call this before the gradient changes any weight.

    spaCy's tagger has the same check; most other components have none.

    loss (float): The loss, or the sum of the squares of its gradient.
    RAISES (ValueError): The loss is NaN or infinite (spaCy's E910).
    """
    if not math.isfinite(loss):
        raise ValueError(
            f"{Errors.E910.format(name=name)} Lower the optimizer's learn_rate, or check the "
            f"vectors that the component reads."
        )
