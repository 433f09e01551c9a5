"""Check of tensors for NaN and infinity."""

import math

from torch import Tensor


def is_finite(tensor: Tensor) -> bool:
    """Return whether a tensor has neither NaN nor infinity."""
    # The sum needs one pass and no memory, but it may overflow if the numbers are large.
    return math.isfinite(float(tensor.detach().sum())) or bool(tensor.isfinite().all())
