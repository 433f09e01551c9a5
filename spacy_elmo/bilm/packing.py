"""Sequences of different lengths as packed steps: no step is spent on padding."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class PackedOrder:
    """Where the items of concatenated sequences stand when all of them run side
    by side, longest first, forwards or from their ends.

    order (numpy.ndarray): The sequences, longest first. *Shape:* `(n_sequences,)`
    batch_sizes (List[int]): Sequences that are running at each step.
    positions (numpy.ndarray): Index into the concatenated sequences for every
        packed item, forwards and backwards. *Shape:* `(2, n_items)`
    """

    order: np.ndarray
    batch_sizes: list[int]
    positions: np.ndarray

    def inverse(self) -> np.ndarray:
        """RETURNS (numpy.ndarray): Index into the packed items for every item of
        the concatenated sequences, both directions. *Shape:* `(2, n_items)`"""
        inverse = np.empty_like(self.positions)
        for direction in range(2):
            inverse[direction, self.positions[direction]] = np.arange(self.positions.shape[1])
        return inverse


def pack(lengths: Sequence[int]) -> PackedOrder:
    """Lay out sequences of the given lengths, none of them empty.

    lengths (Sequence[int]): Items of each sequence.
    RETURNS (PackedOrder): The order to run them in.
    """
    sizes = np.asarray(lengths, dtype="int64")
    starts = np.cumsum(sizes) - sizes
    order = np.argsort(-sizes, kind="stable")
    sizes, starts = sizes[order], starts[order]
    n_steps = int(sizes[0]) if len(sizes) else 0
    batch_sizes = np.searchsorted(-sizes, -np.arange(n_steps), side="left")
    steps = np.repeat(np.arange(n_steps), batch_sizes)
    rows = np.arange(len(steps)) - np.repeat(np.cumsum(batch_sizes) - batch_sizes, batch_sizes)
    forward = starts[rows] + steps
    backward = starts[rows] + sizes[rows] - 1 - steps
    return PackedOrder(order, batch_sizes.tolist(), np.stack([forward, backward]))


def windows(batch_sizes: Sequence[int], max_items: int) -> Iterator[tuple[slice, slice]]:
    """Cut the steps into windows of at most `max_items` packed items, or of one step.

    batch_sizes (Sequence[int]): Sequences that are running at each step.
    max_items (int): Most packed items of a window.
    YIELDS (Tuple[slice, slice]): The steps, and the packed items of these steps.
    """
    first_step = first_item = item = 0
    for step, size in enumerate(batch_sizes):
        if step > first_step and item + size - first_item > max_items:
            yield slice(first_step, step), slice(first_item, item)
            first_step, first_item = step, item
        item += size
    if first_step < len(batch_sizes):
        yield slice(first_step, len(batch_sizes)), slice(first_item, item)
