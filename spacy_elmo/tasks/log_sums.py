"""Sums of probabilities in logarithms."""

import numpy as np
from thinc.api import get_array_module
from thinc.types import FloatsXd


def log_sum_exp(scores: FloatsXd, axis: int) -> FloatsXd:
    """Add up exponentials, whatever their size.

    scores (FloatsXd): Of these -inf counts as nothing.
    axis (int): The axis that is summed over.
    RETURNS (FloatsXd): `log sum exp`, the axis kept with the length 1; -inf of nothing.
    """
    xp = get_array_module(scores)
    highest = scores.max(axis=axis, keepdims=True)
    highest = xp.where(xp.isneginf(highest), 0.0, highest)
    with np.errstate(divide="ignore"):  # log(0) is minus infinity
        total: FloatsXd = highest + xp.log(xp.exp(scores - highest).sum(axis=axis, keepdims=True))
    return total
