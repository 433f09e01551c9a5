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
        packed item, forwards and backwards. *Shape:* `(2, n_packed)`
    lengths (List[int]): Items of each sequence, those that do not run as well.
    """

    order: np.ndarray
    batch_sizes: list[int]
    positions: np.ndarray
    lengths: list[int]

    @property
    def n_items(self) -> int:
        """RETURNS (int): Items of the concatenated sequences."""
        return sum(self.lengths)

    def inverse(self) -> np.ndarray:
        """RETURNS (numpy.ndarray): Index into the packed items for every item of
        the concatenated sequences, both directions; 0 for those that do not
        run. *Shape:* `(2, n_items)`"""
        inverse = np.zeros((2, self.n_items), dtype=self.positions.dtype)
        for direction in range(2):
            inverse[direction, self.positions[direction]] = np.arange(self.positions.shape[1])
        return inverse


def pack(lengths: Sequence[int], skip: int = 0) -> PackedOrder:
    """Lay out sequences of the given lengths, none of them empty.

    lengths (Sequence[int]): Items of each sequence, more than `skip`.
    skip (int): Items that each direction leaves out at its beginning.
    RETURNS (PackedOrder): The order to run them in.
    """
    sizes = np.asarray(lengths, dtype="int64")
    ends = np.cumsum(sizes)
    order = np.argsort(-sizes, kind="stable")
    first, last = (ends - sizes)[order] + skip, ends[order] - 1 - skip
    sizes = sizes[order] - skip
    n_steps = int(sizes[0]) if len(sizes) else 0
    batch_sizes = np.searchsorted(-sizes, -np.arange(n_steps), side="left")
    steps = np.repeat(np.arange(n_steps), batch_sizes)
    rows = np.arange(len(steps)) - np.repeat(np.cumsum(batch_sizes) - batch_sizes, batch_sizes)
    positions = np.stack([first[rows] + steps, last[rows] - steps])
    return PackedOrder(order, batch_sizes.tolist(), positions, list(lengths))


def lay_out(
    sentences: Sequence[Sequence[str]], marks: Sequence[str] = (), skip: int = 0
) -> tuple[list[str], np.ndarray, PackedOrder]:
    """Lay out sentences, each between its marks.

    sentences (Sequence[Sequence[str]]): The tokens; at least one a sentence if there are no marks.
    marks (Sequence[str]): The marks at the start and the end of a sentence; empty for none.
    skip (int): Items that each direction leaves out at its beginning.
    RETURNS (Tuple[List[str], numpy.ndarray, PackedOrder]): The different tokens, the number of the
        token for each item of the concatenated sentences, and the order to run them in.
    """
    types: dict[str, int] = {}
    marked = [[*marks[:1], *sentence, *marks[1:]] for sentence in sentences]
    flat = np.array([types.setdefault(token, len(types)) for each in marked for token in each])
    return list(types), flat, pack([len(each) for each in marked], skip)


def mirrored(batch_sizes: Sequence[int]) -> np.ndarray:
    """Find the items of packed sequences in the order in which they run from their ends.

    batch_sizes (Sequence[int]): Sequences that are running at each step.
    RETURNS (numpy.ndarray): For every packed item, forwards, the place of the same item among
        those that run backwards, and the other way round. *Shape:* `(n_packed,)`
    """
    sizes = np.asarray(batch_sizes, dtype="int64")
    starts = np.cumsum(sizes) - sizes
    steps = np.repeat(np.arange(len(sizes)), sizes)
    rows = np.arange(len(steps)) - starts[steps]
    lengths = np.bincount(rows)
    mirrored: np.ndarray = starts[lengths[rows] - 1 - steps] + rows
    return mirrored


def without_ends(lengths: Sequence[int]) -> np.ndarray:
    """Find what stands between the marks of sentences.

    lengths (Sequence[int]): Items of each sequence, two or more.
    RETURNS (numpy.ndarray): The positions in the concatenated sequences that are no first or
        last item.
    """
    kept = np.ones(sum(lengths), dtype=bool)
    ends = np.cumsum(lengths)
    kept[ends - 1] = False
    kept[ends - np.asarray(lengths)] = False
    return np.flatnonzero(kept)


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
