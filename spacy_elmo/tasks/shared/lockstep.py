"""GRU layers that read both ways, in training on a processor: both directions take each step
together, with a backward pass of their own. PyTorch's go through autograd a step and a
direction at a time."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from ...frozen.packing import pack

DIRECTIONS = ("", "_reverse")  # the endings of PyTorch's parameters


def run_gru(rnn: nn.GRU, items: Tensor, lengths: list[int]) -> Tensor:
    """Run one bidirectional layer.

    rnn (nn.GRU): Its parameters.
    items (Tensor): The tokens of all sequences, one after the other. *Shape:* `(n_tokens, nI)`
    lengths (List[int]): The tokens of each sequence, of which it may have none.
    RETURNS (Tensor): *Shape:* `(n_tokens, nO)`
    """
    order = pack([length for length in lengths if length])
    of_input, of_state, input_bias, state_bias = (
        torch.stack([getattr(rnn, f"{name}_l0{ending}") for ending in DIRECTIONS])
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    products = nn.functional.linear(items, of_input.flatten(0, 1)).unflatten(1, (2, -1))
    positions = torch.from_numpy(order.positions)
    inputs = torch.stack([products[positions[0], 0], products[positions[1], 1]])
    inputs = inputs + input_bias[:, None]
    hidden = GRUSteps.apply(inputs, of_state, state_bias[:, None], order.batch_sizes)
    forwards, backwards = torch.from_numpy(order.inverse())
    return torch.cat([hidden[0, forwards], hidden[1, backwards]], dim=1)


class GRUSteps(Function):
    """Hidden states from the input's share of the gates, by blocks r, z, n.

    The backward pass first takes what does not depend on the steps, for all tokens at once:
    the derivative of each block by its own sum, without the factor that comes from later.
    """

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor, batch_sizes: list[int]
    ) -> Tensor:
        """inputs (Tensor): `W x + b` without the state's bias, packed. *Shape:* `(2, n, 3 H)`
        weight (Tensor): Weights of the state. *Shape:* `(2, 3 H, H)`
        bias (Tensor): Bias of the state. *Shape:* `(2, 1, 3 H)`
        batch_sizes (List[int]): Rows that run at each step, never rising.
        RETURNS (Tensor): Packed. *Shape:* `(2, n, H)`
        """
        width = weight.shape[2]
        blocks = [2 * width, width]
        weight_gates, weight_state = (x.mT.contiguous() for x in weight.split(blocks, dim=1))
        bias_gates, bias_state = bias.split(blocks, dim=2)
        of_gates, of_candidate = inputs.split(blocks, dim=2)
        of_gates = of_gates + bias_gates
        gates = torch.empty_like(of_gates)
        outputs, before, states, candidates = (
            inputs.new_empty(*inputs.shape[:2], width) for _ in range(4)
        )
        hidden = _zeros(outputs, batch_sizes)
        for items in _steps(batch_sizes):
            hidden = hidden[:, : items.stop - items.start]
            before[:, items] = hidden
            both = torch.baddbmm(of_gates[:, items], hidden, weight_gates).sigmoid_()
            r, z = both.chunk(2, dim=2)
            state = torch.baddbmm(bias_state, hidden, weight_state)
            candidate = torch.addcmul(of_candidate[:, items], r, state).tanh_()
            gates[:, items], states[:, items], candidates[:, items] = both, state, candidate
            hidden = torch.lerp(candidate, hidden, z)
            outputs[:, items] = hidden
        ctx.batch_sizes = batch_sizes
        ctx.save_for_backward(weight, gates, before, states, candidates)
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        weight, gates, before, states, candidates = ctx.saved_tensors
        r, z = gates.chunk(2, dim=2)
        of_candidate = (1 - z) * (1 - candidates**2)
        of_state = of_candidate * r
        of_blocks = torch.stack(
            [of_state * states * (1 - r), (before - candidates) * z * (1 - z), of_state], dim=2
        )
        d_sums = torch.empty_like(of_blocks)
        d_hidden_rows, d_hiddens = _zeros(d_outputs, ctx.batch_sizes), torch.empty_like(d_outputs)
        for items in reversed(_steps(ctx.batch_sizes)):
            d_hidden = d_hidden_rows[:, : items.stop - items.start]
            d_hidden += d_outputs[:, items]
            d_hiddens[:, items] = d_hidden
            d_blocks = of_blocks[:, items] * d_hidden[:, :, None]
            d_sums[:, items] = d_blocks
            d_hidden.mul_(z[:, items]).baddbmm_(d_blocks.flatten(2), weight)
        d_sums = d_sums.flatten(2)
        d_inputs = d_sums.clone()
        d_inputs[..., -before.shape[2] :] = d_hiddens * of_candidate
        return d_inputs, torch.bmm(d_sums.mT, before), d_sums.sum(1, keepdim=True), None


def _steps(batch_sizes: list[int]) -> list[slice]:
    """RETURNS (List[slice]): The packed items of each step."""
    steps, start = [], 0
    for size in batch_sizes:
        steps.append(slice(start, start + size))
        start += size
    return steps


def _zeros(like: Tensor, batch_sizes: list[int]) -> Tensor:
    """RETURNS (Tensor): The state before the first step. *Shape:* `(2, n_sequences, H)`"""
    return like.new_zeros(len(like), batch_sizes[0] if batch_sizes else 0, like.shape[2])
