"""Packed layout of sequences with different lengths, without steps for padding.

Sequences run in parallel, sorted by length, longest first. So the sequences that still run at a
step are the first `batch_sizes[step]` rows, and the states of all other rows stay unchanged.
Packed items are ordered by step, then by row. Invariant: `batch_sizes` never increases.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class PackedOrder:
    """Order in which the forward and the backward LSTMs read the items (tokens) of sequences.

    Each direction can skip the first items that it would read (`skip` of `pack`). Skipped items are
    not in the order.

    order (numpy.ndarray): Indices of the sequences, longest first. *Shape:* `(n_sequences,)`
    batch_sizes (List[int]): Number of sequences that run at each step.
    positions (numpy.ndarray): Index into the concatenated sequences for each packed item, forward
        and backward. *Shape:* `(2, n_packed)`
    lengths (List[int]): Number of items of each sequence, including skipped items.
    """

    order: np.ndarray
    batch_sizes: list[int]
    positions: np.ndarray
    lengths: list[int]

    @property
    def n_items(self) -> int:
        """Number of items in all sequences together, including skipped items."""
        return sum(self.lengths)

    def inverse(self) -> np.ndarray:
        """Return the packed index of each item of the sequences, forward and backward.

        Skipped items have index 0. *Shape:* `(2, n_items)`
        """
        inverse = np.zeros((2, self.n_items), dtype=self.positions.dtype)
        for direction in range(2):
            inverse[direction, self.positions[direction]] = np.arange(self.positions.shape[1])
        return inverse


def pack(lengths: Sequence[int], skip: int = 0) -> PackedOrder:
    """Compute the packed order of sequences.

    lengths (Sequence[int]): Number of items of each sequence, more than `skip`.
    skip (int): Items that each direction skips: forward the first of a sequence, backward the last.
    """
    sizes = np.asarray(lengths, dtype="int64")
    ends = np.cumsum(sizes)
    order = np.argsort(-sizes, kind="stable")
    first, last = (ends - sizes)[order] + skip, ends[order] - 1 - skip
    sizes = sizes[order] - skip
    n_steps = int(sizes[0]) if len(sizes) else 0
    # Number of sequences longer than the step. `searchsorted` needs ascending values, so both sides
    # are negative.
    batch_sizes = np.searchsorted(-sizes, -np.arange(n_steps), side="left")
    steps = np.repeat(np.arange(n_steps), batch_sizes)
    rows = np.arange(len(steps)) - np.repeat(np.cumsum(batch_sizes) - batch_sizes, batch_sizes)
    positions = np.stack([first[rows] + steps, last[rows] - steps])
    return PackedOrder(order, batch_sizes.tolist(), positions, list(lengths))


def lay_out(
    sentences: Sequence[Sequence[str]], marks: Sequence[str] = (), skip: int = 0
) -> tuple[list[str], np.ndarray, PackedOrder]:
    """Add marks such as `<S>` to sentences, and compute their packed order.

    sentences (Sequence[Sequence[str]]): Without marks, no sentence may be empty.
    marks (Sequence[str]): Mark at the start and mark at the end; empty for no marks.
    skip (int): See `pack`. Marks count as tokens.
    RETURNS (Tuple[List[str], numpy.ndarray, PackedOrder]): The different tokens and marks; for each
        item of the concatenated sentences, the index of its token or mark; the packed order.
    """
    types: dict[str, int] = {}
    marked = [[*marks[:1], *sentence, *marks[1:]] for sentence in sentences]
    flat = [types.setdefault(token, len(types)) for each in marked for token in each]
    return list(types), np.array(flat, dtype="int64"), pack([len(each) for each in marked], skip)


def mirrored(batch_sizes: Sequence[int]) -> np.ndarray:
    """Find the index of each packed item among the packed items of the other direction.

    RETURNS (numpy.ndarray): The packed index of the same token in the other direction. *Shape:*
        `(n_packed,)`
    """
    sizes = np.asarray(batch_sizes, dtype="int64")
    starts = np.cumsum(sizes) - sizes
    steps = np.repeat(np.arange(len(sizes)), sizes)
    rows = np.arange(len(steps)) - starts[steps]
    lengths = np.bincount(rows)
    mirrored: np.ndarray = starts[lengths[rows] - 1 - steps] + rows
    return mirrored


def without_ends(lengths: Sequence[int]) -> np.ndarray:
    """Return the positions of tokens that are not marks, in concatenated sentences.

    Marks are the first and the last item of each sentence, so a length is at least 2.
    """
    sizes = np.asarray(lengths, dtype="int64")
    kept = np.ones(sizes.sum(), dtype=bool)
    ends = np.cumsum(sizes)
    kept[ends - 1] = False
    kept[ends - sizes] = False
    return np.flatnonzero(kept)


def windows(batch_sizes: Sequence[int], max_items: int) -> Iterator[tuple[slice, slice]]:
    """Cut the steps into windows of at most `max_items` packed items, but at least one step.

    YIELDS (Tuple[slice, slice]): The steps and the packed items of a window.
    """
    first_step = first_item = item = 0
    for step, size in enumerate(batch_sizes):
        if step > first_step and item + size - first_item > max_items:
            yield slice(first_step, step), slice(first_item, item)
            first_step, first_item = step, item
        item += size
    if first_step < len(batch_sizes):
        yield slice(first_step, len(batch_sizes)), slice(first_item, item)
