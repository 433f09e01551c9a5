"""The LSTMs of both directions side by side, for a few sequences."""

from collections.abc import Sequence
from itertools import groupby

import torch
from torch import Tensor

from ..frozen.packing import windows
from .lstm import ProjectedLSTM
from .lstm_products import doubled_candidate
from .prepacked import Product
from .sequence import MINUS_ONE

# Up to so many rows the time goes into reading the weights and into calling
# operations: one operation for all directions, on a plain layout, is faster then.
FEW_ROWS = 8
# Weights larger than the processor's caches gain nothing, and a second copy of them
# costs memory.
MAX_STATE_WEIGHTS = 2**20
WINDOW_ITEMS = 256  # packed items of a window: a bound of the working memory


class LockstepLSTMs:
    """One layer in every direction, all of them a step at a time, in float32.

    lstms (Sequence[ProjectedLSTM]): The layer of each direction.
    of_inputs (Sequence[Product]): `W x + b` of each direction's inputs.
    """

    def __init__(self, lstms: Sequence[ProjectedLSTM], of_inputs: Sequence[Product]):
        self.cell_clip, self.proj_clip = lstms[0].cell_clip, lstms[0].proj_clip
        self.of_inputs = of_inputs
        self.state_weight = _transposed([doubled_candidate(lstm.state_weight) for lstm in lstms])
        projections = [lstm.projection for lstm in lstms if lstm.projection is not None]
        self.projection = _transposed(projections) if projections else None

    @staticmethod
    def fits(lstm: ProjectedLSTM) -> bool:
        """RETURNS (bool): Whether a layer is small enough to gain."""
        return lstm.state_weight.numel() <= MAX_STATE_WEIGHTS

    def run(
        self, inputs: Tensor, batch_sizes: list[int], hidden: Tensor, cell: Tensor, outputs: Tensor
    ) -> None:
        """Run over packed sequences. The state is changed in place: a row that has
        ended keeps what it had.

        inputs (Tensor): *Shape:* `(n_directions, n_items, P)`
        batch_sizes (List[int]): Sequences running at each step, never rising.
        hidden (Tensor): *Shape:* `(n_directions, n_sequences, P)`
        cell (Tensor): *Shape:* `(n_directions, n_sequences, D)`
        outputs (Tensor): Takes the outputs. *Shape:* `(n_directions, n_items, P)`
        """
        for steps, items in windows(batch_sizes, WINDOW_ITEMS):
            products = zip(self.of_inputs, inputs[:, items])
            gates = torch.stack([product(values) for product, values in products])
            sizes = batch_sizes[steps]
            pairs = zip(gates.split(sizes, dim=1), outputs[:, items].split(sizes, dim=1))
            for size, same in groupby(pairs, key=lambda pair: pair[1].shape[1]):
                self._run_same(list(same), hidden[:, :size], cell[:, :size])

    def _run_same(self, steps: list[tuple[Tensor, Tensor]], hidden: Tensor, cell: Tensor) -> None:
        """Steps with the same number of rows. `lstm_step` stands here once more: its views,
        made anew at each step, take a sixth more of a sentence's time."""
        gates, gated, previous = torch.empty_like(steps[0][0]), torch.empty_like(cell), hidden
        o, i, f, j = gates.chunk(4, dim=2)
        for of_inputs, output in steps:
            torch.baddbmm(of_inputs, previous, self.state_weight, out=gates)
            gates.sigmoid_()
            torch.add(MINUS_ONE, j, alpha=2.0, out=j)
            cell.mul_(f).addcmul_(i, j)
            if self.cell_clip is not None:
                cell.clamp_(-self.cell_clip, self.cell_clip)
            torch.tanh(cell, out=gated).mul_(o)
            if self.projection is None:
                output.copy_(gated)
            else:
                torch.bmm(gated, self.projection, out=output)
                if self.proj_clip is not None:
                    output.clamp_(-self.proj_clip, self.proj_clip)
            previous = output
        hidden.copy_(previous)


def _transposed(weights: Sequence[Tensor]) -> Tensor:
    """RETURNS (Tensor): *Shape:* `(n_directions, n_inputs, n_outputs)`"""
    return torch.stack([weight.t() for weight in weights])
