"""Matrix products with weights that never change, laid out for them beforehand."""

from collections.abc import Callable
from functools import cache
from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor

# Unsigned, for that is what processors multiply fast with the signed weights.
_ZERO_POINT = 128
_LARGEST = 127.0
# Of oneDNN's integer product: no bias, no scale, float32, and no operation after it.
_PLAIN_OUTPUT: tuple = (None, 1.0, 0, torch.float32, "none", [], "")
# Matrices of so many weights are in the processor's caches, and a layout of oneDNN's gains
# less than the copies of its results cost.
MAX_PLAIN_WEIGHTS = 2**20


class Product:
    """`W x + b` for the rows of a float32 matrix."""

    def __call__(self, inputs: Tensor) -> Tensor:
        """
        inputs (Tensor): *Shape:* `(n, n_inputs)`
        RETURNS (Tensor): A new tensor. *Shape:* `(n, n_outputs)`
        """
        raise NotImplementedError

    def write_to(self, outputs: Tensor, inputs: Tensor) -> None:
        """Put the product where it is wanted.

        outputs (Tensor): Overwritten. *Shape:* `(n, n_outputs)`
        inputs (Tensor): *Shape:* `(n, n_inputs)`
        """
        outputs.copy_(self(inputs))

    def add_to(self, sums: Tensor, inputs: Tensor) -> None:
        """Add the product, without b, to what is there.

        sums (Tensor): Changed in place. *Shape:* `(n, n_outputs)`
        inputs (Tensor): *Shape:* `(n, n_inputs)`
        """
        raise NotImplementedError


def make_product(weight: Tensor, bias: Optional[Tensor], precision: str) -> Product:
    """Prepare a product.

    weight (Tensor): float32. *Shape:* `(n_outputs, n_inputs)`
    bias (Optional[Tensor]): *Shape:* `(n_outputs,)`
    precision (str): "float32", "bfloat16" or "int8".
    RETURNS (Product): The product; it shares no memory with the weight.
    """
    weight = weight.detach()
    bias = None if bias is None else bias.detach().clone()
    if precision == "int8":
        return _Int8Product(weight, bias)
    if precision == "float32" and weight.numel() <= MAX_PLAIN_WEIGHTS:
        return _PlainProduct(weight, bias)
    return _LinearProduct(weight, bias, getattr(torch, precision))


class _PlainProduct(Product):
    """PyTorch's own product: it writes where it is wanted."""

    def __init__(self, weight: Tensor, bias: Optional[Tensor]):
        self.weight = weight.t().contiguous()
        self.bias = bias

    def __call__(self, inputs: Tensor) -> Tensor:
        if self.bias is None:
            return torch.mm(inputs, self.weight)
        return torch.addmm(self.bias, inputs, self.weight)

    def write_to(self, outputs: Tensor, inputs: Tensor) -> None:
        torch.mm(inputs, self.weight, out=outputs)

    def add_to(self, sums: Tensor, inputs: Tensor) -> None:
        sums.addmm_(inputs, self.weight)


class _LinearProduct(Product):
    """Weights and inputs in one type, everything else in float32."""

    def __init__(self, weight: Tensor, bias: Optional[Tensor], dtype: torch.dtype):
        self.linear = _make_linear(weight.to(dtype))
        self.bias, self.dtype = bias, dtype

    def __call__(self, inputs: Tensor) -> Tensor:
        if self.dtype == torch.float32:
            return self.linear(inputs, self.bias)
        result = self.linear(inputs.to(self.dtype), None).to(torch.float32)
        return result if self.bias is None else result.add_(self.bias)

    def add_to(self, sums: Tensor, inputs: Tensor) -> None:
        sums.add_(self.linear(inputs.to(self.dtype), None))


class _Int8Product(Product):
    """Integers of 8 bits: a scale for every output of the weight, and one for
    every row of the inputs, found anew each time. So a row's result depends on no
    other row."""

    def __init__(self, weight: Tensor, bias: Optional[Tensor]):
        self.scales = weight.abs().amax(dim=1).clamp_(min=1e-30).div_(_LARGEST)
        integers = (weight / self.scales.unsqueeze(1)).round_().to(torch.int8)
        self.zero_points = torch.zeros(len(weight), dtype=torch.int32)
        self.packed = torch.ops.onednn.qlinear_prepack(integers, None)
        self.bias = bias

    def __call__(self, inputs: Tensor) -> Tensor:
        integers, scales = _quantize_rows(inputs)
        result = self._multiply(integers)
        if self.bias is None:
            return result.mul_(scales)
        return torch.addcmul(self.bias, result, scales, out=result)

    def add_to(self, sums: Tensor, inputs: Tensor) -> None:
        integers, scales = _quantize_rows(inputs)
        sums.addcmul_(self._multiply(integers), scales)

    def _multiply(self, integers: Tensor) -> Tensor:
        quantized, weight = (1.0, _ZERO_POINT), (self.packed, self.scales, self.zero_points)
        product: Tensor = torch.ops.onednn.qlinear_pointwise(
            pad_rows(integers), *quantized, *weight, *_PLAIN_OUTPUT
        )
        return product[: len(integers)]


def _quantize_rows(inputs: Tensor) -> tuple[Tensor, Tensor]:
    """RETURNS (Tuple[Tensor, Tensor]): Integers `(n, width)` and the scale of each
    row `(n, 1)`."""
    low, high = inputs.amin(dim=1, keepdim=True), inputs.amax(dim=1, keepdim=True)
    scales = torch.maximum(low.neg_(), high).clamp_(min=1e-30).div_(_LARGEST)
    signed = (inputs * scales.reciprocal()).round_().to(torch.int8)
    # 128 more, modulo 256. PyTorch's conversion to uint8 itself takes four times as long.
    return signed.view(torch.uint8).bitwise_xor_(_ZERO_POINT), scales


def pad_rows(inputs: Tensor) -> Tensor:
    """Add rows of zeros up to the next of a few numbers of rows. oneDNN compiles code
    for every number that it meets and keeps it, about half a MB each, and text has
    thousands of them. At most three rows are added, or one to every eight.

    inputs (Tensor): *Shape:* `(n, width)`
    RETURNS (Tensor): The same, where nothing is to add. *Shape:* `(n_padded, width)`
    """
    n_rows = len(inputs)
    next_power = 1 << max(0, n_rows - 1).bit_length()
    step = max(min(4, next_power), next_power // 16)
    n_added = -n_rows % step
    return F.pad(inputs, (0, 0, 0, n_added)) if n_added else inputs


class _PackedLinear:
    """oneDNN's product with its own layout of the weight."""

    def __init__(self, weight: Tensor):
        # The number of rows is a hint; any number may come.
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight, 32)

    def __call__(self, inputs: Tensor, bias: Optional[Tensor]) -> Tensor:
        result: Tensor = torch.ops.mkldnn._linear_pointwise(
            pad_rows(inputs), self.packed, bias, "none", [], ""
        )
        return result[: len(inputs)]


def _make_linear(weight: Tensor) -> Callable[[Tensor, Optional[Tensor]], Tensor]:
    if can_prepack(weight.dtype):
        return _PackedLinear(weight)
    copied = weight.clone()
    return lambda inputs, bias: F.linear(inputs, copied, bias)


@cache
def can_prepack(dtype: torch.dtype) -> bool:
    """Try PyTorch's private operations on prepacked weights.

    dtype (torch.dtype): float32 or bfloat16.
    RETURNS (bool): Whether they are there, and right.
    """
    # Halves and whole numbers: exact in either type.
    weight = (torch.arange(64 * 32) % 7 - 3.0).view(64, 32).to(dtype)
    inputs = (torch.arange(5 * 32) % 5 - 2.0).view(5, 32).to(dtype) / 2.0
    try:
        with torch.no_grad():
            result = _PackedLinear(weight)(inputs, None)
    except (AttributeError, RuntimeError, TypeError, ValueError):
        return False
    return torch.equal(result.float(), inputs.float() @ weight.float().t())


@cache
def can_multiply_int8() -> bool:
    """Try the integer products.

    RETURNS (bool): Whether they are there, right, and fast on this processor.
    """
    # Private. Without such instructions products may overflow, or take seconds.
    if not getattr(torch.cpu, "_is_vnni_supported", bool)():
        return False
    weight = torch.full((64, 64), 127.0)
    weight[1::2] = -127.0
    inputs = torch.full((3, 64), 127.0)
    inputs[1, ::2] = -127.0
    try:
        with torch.no_grad():
            result = _Int8Product(weight, None)(inputs)
    except (AttributeError, RuntimeError, TypeError, ValueError):
        return False
    return torch.allclose(result, inputs @ weight.t(), rtol=1e-6)
