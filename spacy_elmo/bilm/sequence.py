"""The LSTM with projection over whole sequences, as one operation of autograd."""

from typing import Any, NamedTuple, Optional

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

# The stored order of the gates is i, j, f, o. Inside it is o, i, f, j: the three
# gates proper stand together.
_INSIDE = (3, 0, 2, 1)
_STORED = (1, 3, 2, 0)
_MINUS_ONE = torch.tensor(-1.0)


class SequenceOptions(NamedTuple):
    """What the operation needs besides tensors.

    batch_sizes (List[int]): Rows running at each step, never rising.
    cell_clip (Optional[float]): Bound of the cell state.
    proj_clip (Optional[float]): Bound of the projected output.
    product_dtype (Optional[torch.dtype]): In which matrix products are computed, if
        not in the weights' own type, which state, activations and sums keep.
    """

    batch_sizes: list[int]
    cell_clip: Optional[float]
    proj_clip: Optional[float]
    product_dtype: Optional[torch.dtype] = None


class ProjectedLSTMSequence(torch.autograd.Function):
    """`ProjectedLSTM` over all steps of packed sequences. The products of the
    inputs are one matrix product before the loop, the gradients of the weights
    one each after the loop backwards; the loops touch what is sequential, and
    autograd sees a single node.

    *Shapes:* inputs `(n, P)`, hidden `(rows, P)`, cell `(rows, D)`, input and
    state weight `(4D, P)`, bias `(4D,)`, the forget bias in it, projection
    `(P, D)` or None. The results are the outputs `(n, P)`, and hidden and cell
    state of each row after its last step.
    """

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any,
        inputs: Tensor,
        hidden: Tensor,
        cell: Tensor,
        input_weight: Tensor,
        state_weight: Tensor,
        bias: Tensor,
        projection: Optional[Tensor],
        options: SequenceOptions,
    ) -> tuple[Tensor, Tensor, Tensor]:
        products = _ForwardProducts(input_weight, state_weight, projection, options.product_dtype)
        gates = products.of_inputs(inputs, bias)
        cells = gates.new_empty(len(gates), cell.shape[1])
        squashed, gated = torch.empty_like(cells), torch.empty_like(cells)
        outputs = gated if projection is None else torch.empty_like(inputs)
        width, previous_hidden, previous_cell = cell.shape[1], hidden, cell
        buffers = (gates, cells, squashed, gated, outputs)
        for gate, new_cell, tanh, product, output in _steps(buffers, options):
            size = len(gate)
            products.add_state(gate, previous_hidden[:size])
            o, i, f, j = gate.sigmoid_().split(width, dim=1)
            tanh_of_sigmoid(j)
            torch.mul(f, previous_cell[:size], out=new_cell).addcmul_(i, j)
            if options.cell_clip is not None:
                new_cell.clamp_(-options.cell_clip, options.cell_clip)
            tanh_of_sigmoid(torch.mul(new_cell, 2.0, out=tanh).sigmoid_())
            torch.mul(o, tanh, out=product)
            if projection is not None:
                products.project(product, output)
                if options.proj_clip is not None:
                    output.clamp_(-options.proj_clip, options.proj_clip)
            previous_hidden, previous_cell = output, new_cell
        ctx.options = options
        ctx.set_materialize_grads(False)
        given = (inputs, hidden, cell, input_weight, state_weight, projection)
        ctx.save_for_backward(*given, gates, cells, squashed, gated, outputs)
        last = _last_items(options.batch_sizes)
        return outputs, outputs[last], cells[last]

    @staticmethod
    @once_differentiable
    def backward(  # type: ignore[override]
        ctx: Any,
        grad_outputs: Optional[Tensor],
        grad_hidden: Optional[Tensor],
        grad_cell: Optional[Tensor],
    ) -> tuple[Optional[Tensor], ...]:
        inputs, hidden, cell, input_weight, state_weight, projection = ctx.saved_tensors[:6]
        gates, cells, squashed, gated, outputs = ctx.saved_tensors[6:]
        options: SequenceOptions = ctx.options
        products = _BackwardProducts(input_weight, state_weight, projection, options)
        d_outputs = _copy_or_zeros(grad_outputs, outputs)
        d_hidden = _copy_or_zeros(grad_hidden, hidden)
        d_cell = _copy_or_zeros(grad_cell, cell)
        d_gates = products.gates_like(gates)
        scratch, d_gated = torch.empty_like(cell), torch.empty_like(cell)
        buffers = (gates, cells, squashed, gated, outputs, d_outputs, d_gates)
        steps = list(_steps(buffers, options))
        for step in range(len(steps) - 1, -1, -1):
            gate, new_cell, tanh, product, output, d_output, d_stored = steps[step]
            size, width = tanh.shape
            o, i, f, j = gate.split(width, dim=1)
            d_gate = products.buffer[:size]
            d_o, d_i, d_f, d_j = d_gate.split(width, dim=1)
            d_c, d_m, work = d_cell[:size], d_gated[:size], scratch[:size]
            d_output.add_(d_hidden[:size])
            if projection is None:
                d_m.copy_(d_output)
            else:
                _stop_where_clipped(d_output, output, options.proj_clip)
                products.through_projection(d_output, d_m)
            # product = o * tanh, so the factor is o * (1 - tanh^2)
            d_c.addcmul_(d_m, torch.addcmul(o, product, tanh, value=-1.0, out=work))
            _stop_where_clipped(d_c, new_cell, options.cell_clip)
            previous_cell = steps[step - 1][1][:size] if step else cell
            _sigmoid_backward(torch.mul(d_m, tanh, out=work), o, d_o)
            _sigmoid_backward(torch.mul(d_c, j, out=work), i, d_i)
            _sigmoid_backward(torch.mul(d_c, previous_cell, out=work), f, d_f)
            _tanh_backward(torch.mul(d_c, i, out=work), j, d_j)
            d_c.mul_(f)
            products.through_state(d_gate, d_stored, d_hidden[:size])
        before = _before_each_step(hidden, outputs, options.batch_sizes)
        needed = ctx.needs_input_grad
        return (
            products.of_inputs(d_gates) if needed[0] else None,
            d_hidden if needed[1] else None,
            d_cell if needed[2] else None,
            _reordered(products.of_weight(d_gates, inputs), _STORED) if needed[3] else None,
            _reordered(products.of_weight(d_gates, before), _STORED) if needed[4] else None,
            _reordered(products.of_bias, _STORED) if needed[5] else None,
            products.of_weight(d_outputs, gated) if needed[6] else None,
            None,
        )


class _ForwardProducts:
    """The matrix products of a layer, in their own type if one is asked for.
    What belongs to j is doubled: tanh(x) = 2 sigmoid(2x) - 1, and one sigmoid
    over all gates is several times as fast as PyTorch's tanh."""

    def __init__(
        self,
        input_weight: Tensor,
        state_weight: Tensor,
        projection: Optional[Tensor],
        dtype: Optional[torch.dtype],
    ):
        self.dtype = input_weight.dtype if dtype is None else dtype
        self.is_lower = self.dtype != input_weight.dtype
        self.input_weight = doubled_candidate(input_weight).to(self.dtype)
        self.state_weight = doubled_candidate(state_weight).to(self.dtype)
        self.projection = None if projection is None else projection.to(self.dtype)

    def of_inputs(self, inputs: Tensor, bias: Tensor) -> Tensor:
        bias = doubled_candidate(bias)
        if not self.is_lower:
            return torch.addmm(bias, inputs, self.input_weight.t())
        return torch.mm(inputs.to(self.dtype), self.input_weight.t()).to(bias.dtype).add_(bias)

    def add_state(self, gate: Tensor, hidden: Tensor) -> None:
        if self.is_lower:
            product = torch.mm(hidden.to(self.dtype), self.state_weight.t())
            gate.add_(product.to(gate.dtype))
        else:
            gate.addmm_(hidden, self.state_weight.t())

    def project(self, gated: Tensor, output: Tensor) -> None:
        assert self.projection is not None
        if self.is_lower:
            output.copy_(torch.mm(gated.to(self.dtype), self.projection.t()))
        else:
            torch.mm(gated, self.projection.t(), out=output)


class _BackwardProducts:
    """The matrix products of the gradients. Those of the gates are computed step
    by step in one small buffer that stays in the processor's cache, and kept in
    the type of the products."""

    def __init__(
        self,
        input_weight: Tensor,
        state_weight: Tensor,
        projection: Optional[Tensor],
        options: SequenceOptions,
    ):
        self.full = input_weight.dtype
        self.dtype = options.product_dtype or self.full
        self.is_lower = self.dtype != self.full
        self.input_weight = _reordered(input_weight, _INSIDE).to(self.dtype)
        self.state_weight = _reordered(state_weight, _INSIDE).to(self.dtype)
        self.projection = None if projection is None else projection.to(self.dtype)
        self.buffer = input_weight.new_empty(options.batch_sizes[0], len(input_weight))
        self.of_bias = input_weight.new_zeros(len(input_weight))

    def gates_like(self, gates: Tensor) -> Tensor:
        return torch.empty_like(gates, dtype=self.dtype)

    def through_projection(self, d_output: Tensor, d_gated: Tensor) -> None:
        assert self.projection is not None
        self._into(d_output.to(self.dtype), self.projection, d_gated)

    def through_state(self, d_gate: Tensor, d_stored: Tensor, d_hidden: Tensor) -> None:
        self.of_bias += d_gate.sum(dim=0)
        d_stored.copy_(d_gate)
        self._into(d_stored if self.is_lower else d_gate, self.state_weight, d_hidden)

    def of_inputs(self, d_gates: Tensor) -> Tensor:
        return torch.mm(d_gates, self.input_weight).to(self.full)

    def of_weight(self, d_results: Tensor, inputs: Tensor) -> Tensor:
        product = torch.mm(d_results.to(self.dtype).t(), inputs.to(self.dtype))
        return product.to(self.full)

    def _into(self, left: Tensor, right: Tensor, out: Tensor) -> None:
        if self.is_lower:
            out.copy_(torch.mm(left, right))
        else:
            torch.mm(left, right, out=out)


def _reordered(weight: Tensor, order: tuple[int, ...]) -> Tensor:
    """The four gates' blocks in another order."""
    blocks = weight.chunk(4)
    return torch.cat([blocks[i] for i in order])


def doubled_candidate(weight: Tensor) -> Tensor:
    """In the inside order, the block of j twice what it is."""
    blocks = _reordered(weight, _INSIDE)
    blocks[-(len(weight) // 4) :] *= 2.0
    return blocks


def _steps(buffers: tuple[Tensor, ...], options: SequenceOptions) -> Any:
    return zip(*(buffer.split(options.batch_sizes) for buffer in buffers))


def _copy_or_zeros(gradient: Optional[Tensor], like: Tensor) -> Tensor:
    return torch.zeros_like(like) if gradient is None else gradient.clone()


def _stop_where_clipped(gradient: Tensor, clipped: Tensor, clip: Optional[float]) -> None:
    if clip is not None:
        torch.ops.aten.hardtanh_backward.grad_input(
            gradient, clipped, -clip, clip, grad_input=gradient
        )


def tanh_of_sigmoid(values: Tensor) -> None:
    """In place, from `sigmoid(2x)` to `tanh(x)`."""
    if values.is_cpu:  # one pass in place of two
        torch.add(_MINUS_ONE, values, alpha=2.0, out=values)
    else:
        values.mul_(2.0).sub_(1.0)


def _sigmoid_backward(gradient: Tensor, result: Tensor, out: Tensor) -> None:
    torch.ops.aten.sigmoid_backward.grad_input(gradient, result, grad_input=out)


def _tanh_backward(gradient: Tensor, result: Tensor, out: Tensor) -> None:
    torch.ops.aten.tanh_backward.grad_input(gradient, result, grad_input=out)


def _last_items(batch_sizes: list[int]) -> Tensor:
    """The packed item of each row's last step."""
    items, start = torch.empty(batch_sizes[0], dtype=torch.int64), 0
    for size in batch_sizes:
        items[:size] = torch.arange(start, start + size)
        start += size
    return items


def _before_each_step(hidden: Tensor, outputs: Tensor, batch_sizes: list[int]) -> Tensor:
    """The hidden state that each packed item starts from."""
    earlier = [hidden, *outputs.split(batch_sizes)[:-1]]
    return torch.cat([part[:size] for part, size in zip(earlier, batch_sizes)])
