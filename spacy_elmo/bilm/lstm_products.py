"""Matrix products of an LSTM and of its gradients, over whole sequences.

Weights are stored with the gates in the order i, j, f, o. This module uses the order o, i, f, j,
so that the three sigmoid gates are adjacent. The weights of the candidate j are doubled, because
tanh(x) = 2 sigmoid(2x) - 1. So one sigmoid covers all gates. This is several times as fast as
PyTorch's tanh.
"""

from typing import Optional

import torch
from torch import Tensor

# Positions of the stored gates in the order of this module, and the inverse.
_INSIDE = (3, 0, 2, 1)
_STORED = (1, 3, 2, 0)
# Number of gate values in a chunk of steps: 4 MB in float32. They stay in the processor's cache
# until the steps read them.
CHUNK_GATES = 2**20


class ForwardProducts:
    """Matrix products of a layer's forward pass.

    *Shapes:* see `ProjectedLSTMSequence`.

    weights (Tuple[Tensor, ...]): Input weight, state weight, bias and projection or None.
    dtype (Optional[torch.dtype]): Type of the products. Default: the type of the weights.
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

    def project_inputs(self, inputs: Tensor, gates: Tensor) -> None:
        """Compute `W x + b` for the inputs x of several steps, and write it to `gates`."""
        if self.is_lower:
            gates.copy_(torch.mm(inputs.to(self.dtype), self.input_weight)).add_(self.bias)
        else:
            torch.addmm(self.bias, inputs, self.input_weight, out=gates)

    def add_state(self, hidden: Tensor, gates: Tensor) -> None:
        """Multiply the previous hidden state by the state weight. Add the product to `gates`."""
        if self.is_lower:
            gates.add_(torch.mm(hidden.to(self.dtype), self.state_weight))
        else:
            gates.addmm_(hidden, self.state_weight)

    def _transposed(self, weight: Tensor) -> Tensor:
        """Transpose a weight. Copy a float32 weight: this makes products with few rows faster."""
        return weight.to(self.dtype).t() if self.is_lower else weight.t().contiguous()


class BackwardProducts:
    """Matrix products of a layer's backward pass.

    The gradients of the gates in a chunk of steps stay in the processor's cache until all products
    have read them. In a lower precision, there is only one chunk, because a sum over several
    chunks would be rounded once per chunk.

    weights (Tuple[Tensor, ...]): Input weight, state weight, and projection or None.
    read (Tensor): Input and previous hidden state of every item. *Shape:* `(n, n_inputs + P)`
    n_rows (int): Number of sequences in the first step. Later steps have no more.
    dtype (Optional[torch.dtype]): Type of the products. Default: the type of `read`.
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
        # Gradients of a step's gates, before they are rounded to the lower precision.
        self.exact = read.new_empty(n_rows, n_gates) if self.is_lower else None
        self.d_inputs = read.new_empty(len(read), n_inputs)
        self.d_weights = read.new_zeros(n_gates, read.shape[1])
        self.d_bias = read.new_zeros(n_gates)

    def gates_of_step(self, first: int, size: int) -> Tensor:
        """Return memory `(size, 4D)`, to which the caller writes gradients of a step's gates.

        first (int): Index of the step's first item in the chunk.
        """
        if self.exact is not None:
            return self.exact[:size]
        return self.d_gates[first : first + size]

    def add_through_state(self, first: int, d_gates: Tensor, d_hidden: Tensor) -> None:
        """Add a step's part to the gradients of the previous hidden state and of the bias.

        first (int): Index of the step's first item in the chunk.
        d_gates (Tensor): *Shape:* `(size, 4D)`
        d_hidden (Tensor): Changed in place: gradient of the previous state. *Shape:* `(size, P)`
        """
        # Summed before rounding: in a lower precision, only products are rounded.
        self.d_bias += d_gates.sum(dim=0)
        if self.is_lower:
            rounded = self.d_gates[first : first + len(d_gates)].copy_(d_gates)
            d_hidden.add_(torch.mm(rounded, self.state_weight))
        else:
            d_hidden.addmm_(d_gates, self.state_weight)

    def end_chunk(self, items: slice, *, inputs: bool, weights: bool) -> None:
        """Compute the gradients of inputs and weights after all steps of a chunk have run.

        The results are in `d_inputs` and `d_weights`, if `inputs` and `weights` are True.

        items (slice): Packed items of the chunk.
        """
        d_gates = self.d_gates[: items.stop - items.start]
        if inputs:
            write_product(d_gates, self.input_weight, self.d_inputs[items])
        if weights and self.is_lower:
            self.d_weights += torch.mm(d_gates.t(), self.read[items])
        elif weights:
            self.d_weights.addmm_(d_gates.t(), self.read[items])

    def weight_gradients(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients of input weight, state weight and bias, in gate order i, j, f, o."""
        sizes = [self.input_weight.shape[1], self.state_weight.shape[1]]
        weights = _reordered(self.d_weights, _STORED).split(sizes, dim=1)
        return weights[0], weights[1], _reordered(self.d_bias, _STORED)

    def projection_gradient(self, d_outputs: Tensor, gated: Tensor) -> Tensor:
        """Compute the gradient `(P, D)` of the projection over all steps.

        `d_outputs` is the gradient of the outputs, `(n, P)`, and `gated` the input of the
        projection, `(n, D)`.
        """
        product = torch.mm(d_outputs.to(self.dtype).t(), gated.to(self.dtype))
        return product.to(gated.dtype)


def chunk_items(like: Tensor, n_gates: int) -> int:
    """Return the maximum number of packed items in a chunk. On a GPU, all items are one chunk.

    `like` has a row for each packed item, and `n_gates` is 4D.
    """
    return max(1, CHUNK_GATES // n_gates) if like.is_cpu else max(1, len(like))


def write_product(left: Tensor, right: Tensor, out: Tensor) -> None:
    """Multiply `left` by `right`, and write the product to `out`.

    The product is computed in the type of `right`, and stored in the type of `out`.
    """
    if right.dtype == out.dtype:
        torch.mm(left, right, out=out)
    else:
        out.copy_(torch.mm(left.to(right.dtype), right))


def doubled_candidate(weight: Tensor) -> Tensor:
    """Return a copy of a weight in the gate order o, i, f, j, with the gate j multiplied by 2.

    The weight itself has the gate order i, j, f, o.
    """
    blocks = _reordered(weight, _INSIDE)
    blocks[-(len(weight) // 4) :] *= 2.0
    return blocks


def _reordered(weight: Tensor, order: tuple[int, ...]) -> Tensor:
    """Copy a weight with the blocks of its four gates in another order."""
    blocks = weight.chunk(4)
    return torch.cat([blocks[i] for i in order])
