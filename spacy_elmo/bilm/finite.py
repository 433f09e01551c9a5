"""Check of tensors for NaN and infinity."""

import math

from torch import Tensor


def is_finite(tensor: Tensor) -> bool:
    """Return whether a tensor has neither NaN nor infinity."""
    # Check the sum first, because it needs one pass and no memory. It may overflow, so check all
    # values if the sum is not finite.
    return math.isfinite(float(tensor.detach().sum())) or bool(tensor.isfinite().all())
