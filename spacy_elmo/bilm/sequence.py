"""LSTM with projection over whole sequences, as one operation of autograd.

Idea: all steps are a single node of autograd. The alternative is autograd over single steps: each
step records its own nodes, and computes its own gradients of the weights. Here, a chunk of steps
has one product of its inputs with the input weight, before the forward loop over its steps. It has
one product for the gradients of the weights, after the backward loop. Only operations that depend
on the previous step stay inside the loops.

A chunk is small, so its gates stay in the processor's cache until the loop reads them. Packed
items are ordered by step. So steps and chunks are slices, and the loops write to views of tensors
that contain all steps.

Invariant: the saved gates are the values after the activation. `backward` needs no other values of
the gates.
"""

from typing import Any, NamedTuple, Optional

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..compat import clip_backward, sigmoid_backward, tanh_backward
from ..model.packing import windows
from .lstm_products import BackwardProducts, ForwardProducts, chunk_items, write_product
from .threads import is_long_product, one_thread

MINUS_ONE = torch.tensor(-1.0)


class SequenceOptions(NamedTuple):
    """Options of `ProjectedLSTMSequence`.

    batch_sizes (List[int]): Number of running rows at each step, in non-increasing order.
    product_dtype (Optional[torch.dtype]): Type of matrix products; None: the weights' type. State,
        activations and sums always have the weights' type.
    """

    batch_sizes: list[int]
    cell_clip: Optional[float]
    proj_clip: Optional[float]
    product_dtype: Optional[torch.dtype] = None


class ProjectedLSTMSequence(torch.autograd.Function):
    """Autograd operation: the LSTM of `ProjectedLSTM` over all steps of packed sequences.

    *Shapes:* inputs `(n, n_inputs)`, hidden `(rows, P)`, cell `(rows, D)`, input weight
    `(4D, n_inputs)`, state weight `(4D, P)`, bias `(4D,)` with the forget bias added, projection
    `(P, D)` or None. The results are the outputs `(n, P)`, and the hidden and cell state of each
    row after its last step.
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
        """Compute the outputs, and the states after the last step."""
        weights = (input_weight, state_weight, bias, projection)
        products = ForwardProducts(weights, options.product_dtype)
        saved = _Saved.empty(inputs, hidden, cell, is_projected=projection is not None)
        all_steps, previous_hidden, previous_cell = saved.steps(options), hidden, cell
        with one_thread(_is_short(options, state_weight)):
            for steps, items in windows(options.batch_sizes, chunk_items(inputs, len(bias))):
                products.project_inputs(inputs[items], saved.gates[items])
                for step in all_steps[steps]:
                    size, (gates, cells, squashed, gated, _) = len(step.gates), step
                    products.add_state(previous_hidden[:size], gates)
                    lstm_step(
                        gates, previous_cell[:size], options.cell_clip, cells, squashed, gated
                    )
                    if products.projection is not None:
                        write_product(step.gated, products.projection, step.outputs)
                        if options.proj_clip is not None:
                            step.outputs.clamp_(-options.proj_clip, options.proj_clip)
                    previous_hidden, previous_cell = step.outputs, step.cells
        ctx.options = options
        # Then a missing gradient is None and not zeros, and `backward` can skip its part.
        ctx.set_materialize_grads(False)
        given = (inputs, hidden, cell, input_weight, state_weight, projection)
        ctx.save_for_backward(*given, *saved)
        last = _last_items(options.batch_sizes)
        hidden, cell = (
            torch.cat([of[items] for items in last]) for of in (saved.outputs, saved.cells)
        )
        return saved.outputs, hidden, cell

    @staticmethod
    @once_differentiable
    def backward(  # type: ignore[override]
        ctx: Any,
        grad_outputs: Optional[Tensor],
        grad_hidden: Optional[Tensor],
        grad_cell: Optional[Tensor],
    ) -> tuple[Optional[Tensor], ...]:
        """Compute the gradients of the inputs, the initial states and the weights."""
        inputs, hidden, cell, input_weight, state_weight, projection = ctx.saved_tensors[:6]
        saved, options = _Saved(*ctx.saved_tensors[6:]), ctx.options
        sizes, needed = options.batch_sizes, ctx.needs_input_grad
        # A copy, because it is changed in place, and autograd may pass the same tensor elsewhere.
        d_outputs = _copy_or_zeros(grad_outputs, saved.outputs)
        if grad_hidden is not None:
            parts = _last_items(sizes)
            of_parts = grad_hidden.split([items.stop - items.start for items in parts])
            for items, part in zip(parts, of_parts):
                d_outputs[items] += part
        d_hidden, d_cell = torch.zeros_like(hidden), _copy_or_zeros(grad_cell, cell)
        d_gated, scratch = torch.empty_like(cell), torch.empty_like(cell)
        read = torch.cat([inputs, _before_each_step(hidden, saved.outputs, sizes)], dim=1)
        weights = (input_weight, state_weight, projection)
        products = BackwardProducts(weights, read, sizes[0], options.product_dtype)
        all_steps, d_steps = saved.steps(options), d_outputs.split(sizes)
        cells = [cell, *(step.cells for step in all_steps)]
        d_states = [d_hidden, *d_steps]
        with one_thread(_is_short(options, state_weight)):
            for steps, items in reversed(list(windows(sizes, products.chunk_items))):
                first = items.stop - items.start
                for number in reversed(range(steps.start, steps.stop)):
                    step, size, d_output = all_steps[number], sizes[number], d_steps[number]
                    first -= size
                    d_m, d_c = d_gated[:size], d_cell[:size]
                    if products.projection is None:
                        d_m.copy_(d_output)
                    else:
                        _stop_where_clipped(d_output, step.outputs, options.proj_clip)
                        write_product(d_output, products.projection, d_m)
                    d_gates = products.gates_of_step(first, size)
                    previous_cell = cells[number][:size]
                    _through_cell(
                        step, previous_cell, options.cell_clip, d_m, d_c, d_gates, scratch
                    )
                    products.add_through_state(first, d_gates, d_states[number][:size])
                products.end_chunk(items, inputs=needed[0], weights=needed[3] or needed[4])
        d_projection = products.projection_gradient(d_outputs, saved.gated) if needed[6] else None
        found = (products.d_inputs, d_hidden, d_cell, *products.weight_gradients(), d_projection)
        return (*(grad if wanted else None for grad, wanted in zip(found, needed)), None)


class _Saved(NamedTuple):
    """Values for the backward pass, of all steps (packed) or of a single step.

    gates (Tensor): Gates o, i, f, j after their activations. *Shape:* `(n, 4D)`
    cells (Tensor): Cell state c. *Shape:* `(n, D)`
    squashed (Tensor): tanh(c). *Shape:* `(n, D)`
    gated (Tensor): m = o tanh(c). *Shape:* `(n, D)`
    outputs (Tensor): m, projected and clipped. *Shape:* `(n, P)`
    """

    gates: Tensor
    cells: Tensor
    squashed: Tensor
    gated: Tensor
    outputs: Tensor

    @classmethod
    def empty(cls, inputs: Tensor, hidden: Tensor, cell: Tensor, *, is_projected: bool) -> "_Saved":
        """Allocate memory for the values of all steps, one item per row of `inputs`."""
        n_items, width = len(inputs), cell.shape[1]
        gates = inputs.new_empty(n_items, 4 * width)
        cells, squashed, gated = (inputs.new_empty(n_items, width) for _ in range(3))
        outputs = inputs.new_empty(n_items, hidden.shape[1]) if is_projected else gated
        return cls(gates, cells, squashed, gated, outputs)

    def steps(self, options: SequenceOptions) -> list["_Saved"]:
        """Split values of all steps into values of single steps, as views."""
        return [_Saved(*step) for step in zip(*(all_.split(options.batch_sizes) for all_ in self))]


def lstm_step(
    gates: Tensor,
    previous_cell: Tensor,
    cell_clip: Optional[float],
    cell: Tensor,
    squashed: Tensor,
    gated: Tensor,
) -> None:
    """Compute one step, from the gates before activation to the output before projection.

        c = clip(sigmoid(f) * c' + sigmoid(i) * tanh(j)),    m = sigmoid(o) * tanh(c)

    tanh(x) is computed as 2 sigmoid(2x) - 1, see `lstm_products`.

    gates (Tensor): o, i, f and 2j before the activations, including the forget bias. They are
        replaced by o, i, f and j after the activations. *Shape:* `(n, 4D)`
    previous_cell (Tensor): c'. *Shape:* `(n, D)`
    cell (Tensor): Output: c. It may be the same tensor as `previous_cell`. *Shape:* `(n, D)`
    squashed (Tensor): Output: tanh(c). *Shape:* `(n, D)`
    gated (Tensor): Output: m. It may be the same tensor as `squashed`. *Shape:* `(n, D)`
    """
    o, i, f, j = gates.sigmoid_().split(cell.shape[1], dim=1)
    _tanh_of_sigmoid(j)
    torch.mul(f, previous_cell, out=cell).addcmul_(i, j)
    if cell_clip is not None:
        cell.clamp_(-cell_clip, cell_clip)
    _tanh_of_sigmoid(torch.mul(cell, 2.0, out=squashed).sigmoid_())
    torch.mul(o, squashed, out=gated)


def _through_cell(
    step: _Saved,
    previous_cell: Tensor,
    cell_clip: Optional[float],
    d_gated: Tensor,
    d_cell: Tensor,
    d_gates: Tensor,
    scratch: Tensor,
) -> None:
    """Compute the gradients of a step from the gated output back to the gates.

    Let t = tanh(c), m = o t and c = clip(f c' + i j). At the start, dc is the gradient from the
    next step:

        dc += dm o (1 - t^2), where o (1 - t^2) = o - m t;  dc = 0 where c is clipped
        do = dm t,  di = dc j,  df = dc c',  dj = dc i
        before the activations: do o (1 - o), di i (1 - i), df f (1 - f), dj (1 - j^2)
        dc' = dc f

    d_gated (Tensor): dm. *Shape:* `(n, D)`
    d_cell (Tensor): Input: dc. Output: dc'. *Shape:* `(n, D)`
    d_gates (Tensor): Output: gradients of the gates before the activations. *Shape:* `(n, 4D)`
    """
    size, width = d_cell.shape
    o, i, f, j = step.gates.split(width, dim=1)
    d_o, d_i, d_f, d_j = d_gates.split(width, dim=1)
    d_tanh = torch.addcmul(o, step.gated, step.squashed, value=-1.0, out=scratch[:size])
    d_cell.addcmul_(d_gated, d_tanh)
    _stop_where_clipped(d_cell, step.cells, cell_clip)
    torch.mul(d_gated, step.squashed, out=d_o)
    torch.mul(d_cell, j, out=d_i)
    torch.mul(d_cell, previous_cell, out=d_f)
    torch.mul(d_cell, i, out=d_j)
    proper, d_proper = step.gates[:, : 3 * width], d_gates[:, : 3 * width]
    sigmoid_backward(d_proper, proper, d_proper)
    tanh_backward(d_j, j, d_j)
    d_cell.mul_(f)


def _is_short(options: SequenceOptions, state_weight: Tensor) -> bool:
    """Return whether the operations of a step are fastest with one thread."""
    n_rows = options.batch_sizes[0]
    return state_weight.is_cpu and not is_long_product(n_rows, state_weight.numel())


def _copy_or_zeros(gradient: Optional[Tensor], like: Tensor) -> Tensor:
    return torch.zeros_like(like) if gradient is None else gradient.clone()


def _stop_where_clipped(gradient: Tensor, clipped: Tensor, clip: Optional[float]) -> None:
    if clip is not None:
        clip_backward(gradient, clipped, clip)


def _tanh_of_sigmoid(values: Tensor) -> None:
    """Convert `sigmoid(2x)` to `tanh(x)`, in place."""
    if values.is_cpu:  # This needs one pass over the values instead of two.
        torch.add(MINUS_ONE, values, alpha=2.0, out=values)
    else:
        values.mul_(2.0).sub_(1.0)


def _last_items(batch_sizes: list[int]) -> list[slice]:
    """Return slices that select the last item of each row from the packed items, in row order."""
    items, end = [], sum(batch_sizes)
    following = 0  # Number of rows that have a later step.
    for size in reversed(batch_sizes):
        if size > following:
            items.append(slice(end - size + following, end))
            following = size
        end -= size
    return items


def _before_each_step(hidden: Tensor, outputs: Tensor, batch_sizes: list[int]) -> Tensor:
    """Return the hidden state before the step of each packed item. *Shape:* `(n, P)`."""
    earlier = [hidden, *outputs.split(batch_sizes)[:-1]]
    return torch.cat([part[:size] for part, size in zip(earlier, batch_sizes)])
