"""Convolution and maximum over positions, as one operation of autograd.

A batch has few different characters, but many windows (positions of a filter). So each character
is multiplied once with each tap (column of weights) of the filters, which gives a table. The value
of a window is a sum of rows from this table:

    value[n, p] = sum over taps t of table[t, index[n, p + t]] + bias
    table[t, c] = weight[t] characters[c]

The gradient of a maximum goes to the first position with this value, and from there to one row of
the table per tap. So the backward pass needs only these positions, not the values of all windows.
"""

from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable


class ConvolutionMaximum(torch.autograd.Function):
    """Autograd operation: the maximum of each filter over all positions of a token.

    *Shapes:* character embeddings `(C, E)`; `index`, the row of the embeddings for each of the T
    characters of a token, `(n, T)`; weight `(F, E, width)` as in PyTorch's `Conv1d`; bias `(F,)`.
    The result is `(n, F)`.
    """

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, characters: Tensor, index: Tensor, weight: Tensor, bias: Tensor
    ) -> Tensor:
        """Compute the maxima."""
        taps = weight.permute(2, 1, 0).contiguous()  # *Shape:* `(width, E, F)`
        values = _values(torch.matmul(characters, taps), index)
        best, positions = _maximum(values) if values.is_cpu else values.max(dim=1)
        ctx.save_for_backward(characters, index, taps, positions)
        return best.add_(bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Optional[Tensor], ...]:  # type: ignore[override]
        """Compute the gradients of the character embeddings, the weight and the bias."""
        characters, index, taps, positions = ctx.saved_tensors
        d_table = grad.new_zeros(len(taps), len(characters), grad.shape[1])
        columns = positions.long()
        for of_tap in d_table:
            of_tap.scatter_add_(0, index.gather(1, columns), grad)
            columns += 1
            columns.clamp_(
                max=index.shape[1] - 1
            )  # Do not move past the last tap: the index could be out of range.
        d_characters = d_weight = None
        if ctx.needs_input_grad[0]:
            d_characters = torch.matmul(d_table, taps.transpose(1, 2)).sum(dim=0)
        if ctx.needs_input_grad[2]:
            d_weight = torch.matmul(characters.t(), d_table).permute(2, 1, 0)
        return d_characters, None, d_weight, grad.sum(dim=0)


def _maximum(values: Tensor) -> tuple[Tensor, Tensor]:
    """Compute `values.max(dim=1)`, but faster on a CPU. The positions are returned as floats."""
    best = values[:, 0].clone()
    # Store positions as floats, because floats are several times as fast as integers here.
    positions, is_higher = torch.zeros_like(best), torch.empty_like(best)
    for position in range(1, values.shape[1]):
        here = values[:, position]
        torch.gt(here, best, out=is_higher)
        torch.maximum(positions, is_higher.mul_(position), out=positions)
        torch.maximum(best, here, out=best)
    return best, positions


def _values(table: Tensor, index: Tensor) -> Tensor:
    """Compute the value of each filter in each window, without bias: a sum of rows of the table.

    table (Tensor): Products of each character with the filters, per tap. *Shape:* `(width, C, F)`
    index (Tensor): Index of each character of each token. *Shape:* `(n, T)`
    RETURNS (Tensor): *Shape:* `(n, T - width + 1, F)`
    """
    width, n_characters, n_filters = table.shape
    windows = index.unfold(1, width, 1) + torch.arange(width, device=index.device) * n_characters
    sums = F.embedding_bag(windows.flatten(0, 1), table.flatten(0, 1), mode="sum")
    return sums.view(*windows.shape[:2], n_filters)
