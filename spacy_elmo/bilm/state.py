"""State that the LSTMs carry from sequence to sequence."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Union

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class BiLMState:
    """Hidden and cell states of all LSTMs, one row per sequence. Direction 0 is forward.

    hidden (Tensor): *Shape:* `(n_directions, L, n_sequences, P)`
    cell (Tensor): *Shape:* `(n_directions, L, n_sequences, D)`
    """

    hidden: Tensor
    cell: Tensor

    def __len__(self) -> int:
        return self.hidden.shape[2]

    def rows(self, index: Union[Tensor, np.ndarray, Sequence[int]]) -> "BiLMState":
        """Return the states of some sequences, in the order of `index`.

        index (Union[Tensor, numpy.ndarray, Sequence[int]]): Indices of the sequences. An index may
            occur more than once.
        RETURNS (BiLMState): A copy of their states.
        """
        index = torch.as_tensor(index, dtype=torch.int64, device=self.hidden.device)
        return BiLMState(self.hidden.index_select(2, index), self.cell.index_select(2, index))

    def detach(self) -> "BiLMState":
        """Return the same values, detached from autograd."""
        return BiLMState(self.hidden.detach(), self.cell.detach())

    @classmethod
    def concatenate(cls, states: Sequence["BiLMState"]) -> "BiLMState":
        """Join several states to one state that has the rows of all, in order."""
        return cls(
            torch.cat([state.hidden for state in states], dim=2),
            torch.cat([state.cell for state in states], dim=2),
        )


State = Union[None, Literal["warm"], BiLMState]
