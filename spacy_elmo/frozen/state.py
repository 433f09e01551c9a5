"""State of frozen LSTMs from sequence to sequence."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Union

import numpy as np


@dataclass(frozen=True)
class FrozenState:
    """Hidden and cell state of the LSTMs: one row a sequence, forward stack first.

    hidden (numpy.ndarray): *Shape:* `(n_directions, L, n_sequences, P)`
    cell (numpy.ndarray): *Shape:* `(n_directions, L, n_sequences, D)`
    """

    hidden: np.ndarray
    cell: np.ndarray

    def __len__(self) -> int:
        return self.hidden.shape[2]

    def rows(self, index: Union[np.ndarray, Sequence[int]]) -> "FrozenState":
        """Choose, repeat or reorder rows.

        index (Union[numpy.ndarray, Sequence[int]]): The wanted rows.
        RETURNS (FrozenState): Their state, a copy.
        """
        index = np.asarray(index, dtype="int64")
        return FrozenState(self.hidden.take(index, axis=2), self.cell.take(index, axis=2))

    @classmethod
    def concatenate(cls, states: Sequence["FrozenState"]) -> "FrozenState":
        """RETURNS (FrozenState): The rows of all states, in order."""
        return cls(
            np.concatenate([state.hidden for state in states], axis=2),
            np.concatenate([state.cell for state in states], axis=2),
        )


State = Union[None, Literal["warm"], FrozenState]
