"""Sums of probabilities in logarithms."""

from thinc.api import get_array_module
from thinc.types import Floats2d


def log_sum_exp(scores: Floats2d, axis: int) -> Floats2d:
    """Add up exponentials, whatever their size.

    scores (Floats2d): Of these -inf counts as nothing; at least one is finite.
    axis (int): The axis that is summed over.
    RETURNS (Floats2d): `log sum exp`, the axis kept with the length 1.
    """
    xp = get_array_module(scores)
    highest = scores.max(axis=axis, keepdims=True)
    total: Floats2d = highest + xp.log(xp.exp(scores - highest).sum(axis=axis, keepdims=True))
    return total
