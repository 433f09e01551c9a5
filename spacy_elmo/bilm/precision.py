"""Matrix products in a lower precision: number format of a device, and linear layer."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from ..compat import cpu_has_bfloat16


def resolve_module_precision(precision: str, device: torch.device) -> str:
    """Return the number format in which PyTorch multiplies, for a setting and a device.

    On a CPU, it is float32. On a GPU, all settings except "float32" mean a 16-bit format:
    "bfloat16", or "float16" if the GPU has no bfloat16.
    """
    if precision == "float32" or device.type == "cpu":
        return "float32"
    return "bfloat16" if has_bfloat16(device) else "float16"


def has_bfloat16(device: torch.device) -> bool:
    """Return whether the processor or GPU has instructions for bfloat16."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return cpu_has_bfloat16()


@contextmanager
def without_tf32() -> Iterator[None]:
    """Context manager: cuDNN's LSTM computes float32 products in float32.

    By default it uses TF32, which has 10 bits of precision. PyTorch's other products use float32 by
    default. The setting belongs to the whole process, so the block restores it.
    """
    cudnn: Any = torch.backends.cudnn
    # PyTorch 2.9 has a setting for LSTMs only. It refuses to read the old one if both differ.
    setting: tuple[Any, str, Any] = (cudnn, "allow_tf32", False)
    if hasattr(cudnn, "rnn"):
        setting = (cudnn.rnn, "fp32_precision", "ieee")
    place, name, exact = setting
    before = getattr(place, name)
    setattr(place, name, exact)
    try:
        yield
    finally:
        setattr(place, name, before)


def linear(inputs: Tensor, layer: torch.nn.Linear, product_dtype: Optional[torch.dtype]) -> Tensor:
    """Apply a linear layer: from `(n, n_inputs)` to `(n, n_outputs)`.

    product_dtype (Optional[torch.dtype]): Type of matrix products, forward and backward; None: the
        weights' type, which the result always has.
    """
    if product_dtype is None or product_dtype == layer.weight.dtype:
        return F.linear(inputs, layer.weight, layer.bias)
    low = F.linear(inputs.to(product_dtype), layer.weight.to(product_dtype))
    return low.to(layer.weight.dtype).add_(layer.bias)
