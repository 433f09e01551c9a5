"""Linear layer with matrix products in a lower precision."""

from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable


def linear(inputs: Tensor, layer: torch.nn.Linear, product_dtype: Optional[torch.dtype]) -> Tensor:
    """Apply a linear layer.

    inputs (Tensor): *Shape:* `(n, n_inputs)`
    layer (torch.nn.Linear): Weight and bias.
    product_dtype (Optional[torch.dtype]): Type of the matrix products in the forward and backward
        pass. Default: the type of the weights. The result always has the type of the weights.
    RETURNS (Tensor): *Shape:* `(n, n_outputs)`
    """
    if product_dtype is None or product_dtype == layer.weight.dtype:
        return F.linear(inputs, layer.weight, layer.bias)
    return _Linear.apply(inputs, layer.weight, layer.bias, product_dtype)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor, dtype: torch.dtype
    ) -> Tensor:
        low, low_weight = inputs.to(dtype), weight.to(dtype)
        ctx.save_for_backward(low, low_weight)
        return torch.mm(low, low_weight.t()).to(weight.dtype).add_(bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Optional[Tensor], ...]:  # type: ignore[override]
        inputs, weight = ctx.saved_tensors
        low = grad.to(inputs.dtype)
        d_inputs = torch.mm(low, weight).to(grad.dtype)
        return d_inputs, torch.mm(low.t(), inputs).to(grad.dtype), grad.sum(dim=0), None
