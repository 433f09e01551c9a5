"""Convolution and maximum over positions, as one operation of autograd."""

from typing import Any, Optional

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class ConvolutionMaximum(torch.autograd.Function):
    """The largest value of each filter over all positions of a token: windows of
    the characters, one matrix product, a running maximum. The gradient goes to
    the first position that has it.

    *Shapes:* characters `(n, T, E)`, weight `(F, E, width)` as PyTorch's `Conv1d`
    has it, bias `(F,)`. The result is `(n, F)`.
    """

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, characters: Tensor, weight: Tensor, bias: Tensor
    ) -> Tensor:
        windows = _windows(characters, weight.shape[2])
        values = torch.mm(windows.flatten(0, 1), _as_matrix(weight).t())
        values = values.view(*windows.shape[:2], len(weight))
        best = values[:, 0].clone()
        # As floating point numbers: several times as fast as integers.
        positions, is_higher = torch.zeros_like(best), torch.empty_like(best)
        for position in range(1, values.shape[1]):
            here = values[:, position]
            torch.gt(here, best, out=is_higher)
            torch.maximum(positions, is_higher.mul_(position), out=positions)
            torch.maximum(best, here, out=best)
        ctx.n_positions = values.shape[1]
        ctx.save_for_backward(characters, weight, positions)
        return best.add_(bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Optional[Tensor], ...]:  # type: ignore[override]
        characters, weight, positions = ctx.saved_tensors
        n_filters, width = len(weight), weight.shape[2]
        d_values = grad.new_zeros(len(grad), ctx.n_positions, n_filters)
        d_values.scatter_(1, positions.long().unsqueeze(1), grad.unsqueeze(1))
        flat = d_values.flatten(0, 1)
        d_weight = d_characters = None
        if ctx.needs_input_grad[1]:
            product = torch.mm(flat.t(), _windows(characters, width).flatten(0, 1))
            d_weight = product.view(n_filters, width, -1).transpose(1, 2)
        if ctx.needs_input_grad[0]:
            d_windows = torch.mm(flat, _as_matrix(weight))
            d_windows = d_windows.view(len(grad), ctx.n_positions, width, -1)
            d_characters = torch.zeros_like(characters)
            for tap in range(width):
                d_characters[:, tap : tap + ctx.n_positions] += d_windows[:, :, tap]
        return d_characters, d_weight, grad.sum(dim=0)


def largest_of_windows(characters: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """`ConvolutionMaximum` where no gradient is asked for.

    *Shapes:* as there.
    """
    windows = _windows(characters, weight.shape[2])
    values = torch.mm(windows.flatten(0, 1), _as_matrix(weight).t())
    return values.view(*windows.shape[:2], len(weight)).amax(dim=1).add_(bias)


def _windows(characters: Tensor, width: int) -> Tensor:
    """Every window of a token's characters, its vectors one after another.

    RETURNS (Tensor): *Shape:* `(n, T - width + 1, width * E)`
    """
    n_tokens, n_characters, size = characters.shape
    shape = (n_tokens, n_characters - width + 1, width * size)
    strides = (n_characters * size, size, 1)
    return characters.contiguous().as_strided(shape, strides).contiguous()


def _as_matrix(weight: Tensor) -> Tensor:
    """RETURNS (Tensor): *Shape:* `(F, width * E)`"""
    return weight.transpose(1, 2).flatten(1)
