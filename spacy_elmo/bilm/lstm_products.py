"""Matrix products of an LSTM over whole sequences, and of its gradients.

Gates are stored in the order i, j, f, o. Here their order is o, i, f, j, so that the three sigmoid
gates are adjacent. The candidate j is doubled, because tanh(x) = 2 sigmoid(2x) - 1. One sigmoid
over all gates is several times as fast as PyTorch's tanh.
"""

from typing import Optional

import torch
from torch import Tensor

# Stored gates in the order used here, and the way back.
_INSIDE = (3, 0, 2, 1)
_STORED = (1, 3, 2, 0)
# Gates of a chunk of steps, 4 MB in float32. They are still in the processor's cache when the
# single steps read them.
CHUNK_GATES = 2**20


class ForwardProducts:
    """Matrix products of a layer.

    *Shapes:* see `ProjectedLSTMSequence`.

    weights (Tuple[Tensor, Tensor, Tensor, Optional[Tensor]]): Input weight, state weight, bias and
        projection.
    dtype (Optional[torch.dtype]): Type of the products; None for the weights'.
    """

    def __init__(
        self, weights: tuple[Tensor, Tensor, Tensor, Optional[Tensor]], dtype: Optional[torch.dtype]
    ):
        input_weight, state_weight, bias, projection = weights
        self.dtype = dtype or input_weight.dtype
        self.is_lower = self.dtype != input_weight.dtype
        self.input_weight = self._transposed(doubled_candidate(input_weight))
        self.state_weight = self._transposed(doubled_candidate(state_weight))
        self.bias = doubled_candidate(bias)
        self.projection = None if projection is None else self._transposed(projection)

    def of_inputs(self, inputs: Tensor, gates: Tensor) -> None:
        """Write `W x + b` of several steps to `gates`."""
        if self.is_lower:
            gates.copy_(torch.mm(inputs.to(self.dtype), self.input_weight)).add_(self.bias)
        else:
            torch.addmm(self.bias, inputs, self.input_weight, out=gates)

    def add_state(self, hidden: Tensor, gates: Tensor) -> None:
        """Add the product of a step's previous hidden state to `gates`."""
        if self.is_lower:
            gates.add_(torch.mm(hidden.to(self.dtype), self.state_weight))
        else:
            gates.addmm_(hidden, self.state_weight)

    def _transposed(self, weight: Tensor) -> Tensor:
        """Transpose a weight; copy it in float32, which makes products with few rows faster."""
        return weight.to(self.dtype).t() if self.is_lower else weight.t().contiguous()


class BackwardProducts:
    """Matrix products of a layer's gradients.

    The gates' gradients of a chunk of steps stay in the processor's cache until all products with
    them are done. Products of a lower type have only one chunk, because a sum of chunks would be
    rounded once for each.

    weights (Tuple[Tensor, Tensor, Optional[Tensor]]): Input weight, state weight and projection.
    read (Tensor): Input and previous hidden state of every item. *Shape:* `(n, n_inputs + P)`
    n_rows (int): Largest number of rows of a step.
    dtype (Optional[torch.dtype]): Type of the products; None for the type of `read`.
    """

    def __init__(self, weights: tuple, read: Tensor, n_rows: int, dtype: Optional[torch.dtype]):
        input_weight, state_weight, projection = weights
        self.dtype = dtype or read.dtype
        self.is_lower = self.dtype != read.dtype
        self.input_weight = _reordered(input_weight, _INSIDE).to(self.dtype)
        self.state_weight = _reordered(state_weight, _INSIDE).to(self.dtype)
        self.projection = None if projection is None else projection.to(self.dtype)
        self.read = read.to(self.dtype)
        n_gates, n_inputs = input_weight.shape
        self.chunk_items = len(read) if self.is_lower else chunk_items(read, n_gates)
        n_items = min(len(read), max(self.chunk_items, n_rows))
        self.d_gates = read.new_empty(n_items, n_gates, dtype=self.dtype)
        # Gradients of one step before they are rounded.
        self.exact = read.new_empty(n_rows, n_gates) if self.is_lower else None
        self.d_inputs = read.new_empty(len(read), n_inputs)
        self.d_weights = read.new_zeros(n_gates, read.shape[1])
        self.d_bias = read.new_zeros(n_gates)

    def gates_of_step(self, first: int, size: int) -> Tensor:
        """Return memory for the gradients of a step's gates, from item `first` of the chunk on."""
        if self.exact is not None:
            return self.exact[:size]
        return self.d_gates[first : first + size]

    def add_through_state(self, first: int, d_gates: Tensor, d_hidden: Tensor) -> None:
        """Add to the gradient of the hidden state from which the step started."""
        self.d_bias += d_gates.sum(dim=0)
        if self.is_lower:
            rounded = self.d_gates[first : first + len(d_gates)].copy_(d_gates)
            d_hidden.add_(torch.mm(rounded, self.state_weight))
        else:
            d_hidden.addmm_(d_gates, self.state_weight)

    def end_chunk(self, items: slice, *, inputs: bool, weights: bool) -> None:
        """Compute a chunk's gradients of inputs and weights.

        items (slice): Packed items of the chunk.
        inputs (bool): Whether to compute the gradient of the inputs.
        weights (bool): Whether to compute the gradients of the weights.
        """
        d_gates = self.d_gates[: items.stop - items.start]
        if inputs:
            write_product(d_gates, self.input_weight, self.d_inputs[items])
        if weights and self.is_lower:
            self.d_weights += torch.mm(d_gates.t(), self.read[items])
        elif weights:
            self.d_weights.addmm_(d_gates.t(), self.read[items])

    def of_weights(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients of input weight, state weight and bias, in the stored order."""
        sizes = [self.input_weight.shape[1], self.state_weight.shape[1]]
        weights = _reordered(self.d_weights, _STORED).split(sizes, dim=1)
        return weights[0], weights[1], _reordered(self.d_bias, _STORED)

    def of_projection(self, d_outputs: Tensor, gated: Tensor) -> Tensor:
        """Compute the gradient of the projection over all steps."""
        product = torch.mm(d_outputs.to(self.dtype).t(), gated.to(self.dtype))
        return product.to(gated.dtype)


def chunk_items(like: Tensor, n_gates: int) -> int:
    """Return how many packed items a chunk has. On a GPU, one chunk has all of them."""
    return max(1, CHUNK_GATES // n_gates) if like.is_cpu else max(1, len(like))


def write_product(left: Tensor, right: Tensor, out: Tensor) -> None:
    """Multiply in the type of `right`, and write the product to `out` in its type."""
    if right.dtype == out.dtype:
        torch.mm(left, right, out=out)
    else:
        out.copy_(torch.mm(left.to(right.dtype), right))


def doubled_candidate(weight: Tensor) -> Tensor:
    """Reorder the gates to o, i, f, j, and double j."""
    blocks = _reordered(weight, _INSIDE)
    blocks[-(len(weight) // 4) :] *= 2.0
    return blocks


def _reordered(weight: Tensor, order: tuple[int, ...]) -> Tensor:
    """Reorder the blocks of the four gates."""
    blocks = weight.chunk(4)
    return torch.cat([blocks[i] for i in order])
