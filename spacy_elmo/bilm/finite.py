"""Test of tensors for NaN and infinity."""

import math

from torch import Tensor


def is_finite(tensor: Tensor) -> bool:
    """RETURNS (bool): Whether a tensor holds neither NaN nor infinity."""
    # The sum needs one pass and no memory, but that of large numbers may overflow.
    return math.isfinite(float(tensor.detach().sum())) or bool(tensor.isfinite().all())
