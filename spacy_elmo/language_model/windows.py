"""Windows of text for training and evaluation.

The text is cut into streams, which the model reads in parallel. A window contains the next tokens
of each stream. The LSTM states are carried from window to window.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..model.indexers import TokenIds
from ..text.corpus import END_ID, START_ID, Corpus


@dataclass(frozen=True)
class Window:
    """Consecutive tokens of several streams, forward and backward. Ids refer to `Corpus.types`.

    A model of one direction reads only the first row of `inputs` and `targets`.

    inputs (numpy.ndarray): Ids of the tokens to read: all tokens of the first step, then all tokens
        of the second step, and so on. *Shape:* `(2, n_items)`
    targets (numpy.ndarray): Id of the token to predict from each input. *Shape:* `(2, n_items)`
    batch_sizes (List[int]): Number of streams at each step, in non-increasing order.
    """

    inputs: np.ndarray
    targets: np.ndarray
    batch_sizes: list[int]

    def part(self, part: int, n_parts: int) -> "Window":
        """Return a window with only some of the streams: one of `n_parts` equal shares.

        The window must be from `TrainingStreams`, where all streams have the same length.

        part (int): Index of the share, from 0.
        n_parts (int): Number of shares. The number of streams must be a multiple of it.
        RETURNS (Window): The window of the share.
        """
        n_steps, n_streams = len(self.batch_sizes), self.batch_sizes[0]
        size = n_streams // n_parts
        mine = slice(part * size, (part + 1) * size)
        items = np.stack([self.inputs, self.targets]).reshape(4, n_steps, n_streams)
        inputs, targets = items[:, :, mine].reshape(2, 2, n_steps * size)
        return Window(inputs, targets, [size] * n_steps)


class EncodedWindow(NamedTuple):
    """Tokens of a window as the ids that a model reads. `pretraining.reader` makes them.

    ids (TokenIds): Ids of the different tokens, as arrays. Tokens of similar length are beside each
        other.
    rows (numpy.ndarray): Index of the token among `ids` for each item to read. *Shape:*
        `(n_directions, n_items)`
    batch_sizes (List[int]): Number of streams at each step, in non-increasing order.
    """

    ids: TokenIds
    rows: np.ndarray
    batch_sizes: list[int]


def make_window(corpus: Corpus, positions: np.ndarray, batch_sizes: list[int]) -> Window:
    """Make the window that contains the tokens at some positions of a corpus.

    Forward, the model reads `<S> w1 .. wn` and predicts `w1 .. wn </S>`. Backward, it reads the
    reversed sentence `</S> wn .. w1` and predicts `wn .. w1 <S>`. The order of the sentences is
    the same in both directions. Only the tokens of the window are read from the corpus.

    positions (numpy.ndarray): Index into the corpus for each item of the window: first all items of
        step 0, then of step 1, and so on. *Shape:* `(n_items,)`
    batch_sizes (List[int]): Number of streams at each step, in non-increasing order.
    """
    tokens, last = corpus.tokens, len(corpus.starts) - 1
    sentences = np.searchsorted(corpus.starts, positions, "right") - 1
    starts, next_starts = corpus.starts[sentences], corpus.starts[np.minimum(sentences + 1, last)]
    ends = np.where(sentences == last, len(tokens), next_starts)
    is_first, is_last = positions == starts, positions == ends - 1
    # The corpus stores a sentence of n words as n + 1 items: the mark `<S>` and the words. The word
    # at forward position k has backward position n + 1 - k.
    mirrored = np.where(is_first, starts, starts + ends - positions)
    following = np.where(is_last, positions, positions + 1)
    preceding = np.where(is_last, starts, starts + ends - positions - 1)
    sources = np.stack([positions, mirrored, following, preceding])
    items = tokens[sources.ravel()].reshape(sources.shape)
    inputs, targets = items[:2], items[2:]
    inputs[1, is_first] = END_ID
    targets[0, is_last] = END_ID
    targets[1, is_last] = START_ID
    return Window(inputs, targets, batch_sizes)


def distinct(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the different ids in ascending order, and for each id its index among them.

    The result is the same as with `np.unique(ids, return_inverse=True)`, but faster: the ids of a
    corpus are small numbers, so a table replaces a sort with indices.

    ids (numpy.ndarray): Ids, from 0. Any shape.
    RETURNS (Tuple[numpy.ndarray, numpy.ndarray]): The different ids, and indices in the shape of
        `ids`.
    """
    ascending = np.sort(ids, axis=None)
    used = ascending[np.append(True, ascending[1:] != ascending[:-1])[: len(ascending)]]
    numbers = np.empty(int(used[-1]) + 1 if len(used) else 0, "int64")
    numbers[used] = np.arange(len(used))
    return used, numbers[ids]


class TrainingStreams:
    """Streams of a text, which are read at the same time, window by window, epoch after epoch.

    Each stream reads its own part of the text. Each epoch starts at another position. A window has
    the number of its step, unless the run was resumed with another number of streams
    (`Trainer.window_number`).

    batch_size (int): Number of streams. A short text has fewer streams.
    unroll_steps (int): Tokens per stream in a window; at most the length of the text.
    seed (int): Seed for the start position of each epoch.
    directions (str): "same": both directions read the same text. "different": the backward
        direction reads text that is half a corpus further on.
    multiple (int): The number of streams is rounded down to a multiple of this number.
    RAISES (ValueError): `batch_size` is not a multiple of `multiple`, or the text is too short for
        `multiple` streams.
    """

    def __init__(
        self,
        corpus: Corpus,
        *,
        batch_size: int,
        unroll_steps: int,
        seed: int,
        directions: str = "same",
        multiple: int = 1,
    ):
        self.corpus, self.size = corpus, len(corpus.tokens)
        self.unroll_steps = min(unroll_steps, self.size)
        # If the text is short, use fewer streams, rounded down to a multiple.
        fitting = max(1, min(batch_size, self.size // self.unroll_steps))
        self.batch_size = fitting - fitting % multiple
        if batch_size % multiple or not self.batch_size:
            raise ValueError(
                f"batch_size ({batch_size}, {fitting} fit the text) must be a multiple of "
                f"{multiple}, the product of processes and accumulate_gradient. Change one of them."
            )
        self.steps_per_epoch = max(1, self.size // self.batch_size // self.unroll_steps)
        self.seed = seed
        self.ahead = self.size // 2 if directions == "different" else 0

    def at(self, number: int) -> Window:
        """Return the window with this number. Numbers count from 0, through all epochs."""
        epoch, within = divmod(number, self.steps_per_epoch)
        size = self.size
        # An epoch leaves out the last tokens of each stream. With another offset, these are others.
        offset = int(np.random.default_rng([self.seed, epoch]).integers(size)) if epoch else 0
        rows = np.arange(self.batch_size) * (size // self.batch_size)
        steps = np.arange(self.unroll_steps) + within * self.unroll_steps
        # Stream by stream: the searches in a long text are twice as fast in the order of the text.
        positions = (offset + rows[:, None] + steps[None, :]).ravel() % size
        batch_sizes = [self.batch_size] * self.unroll_steps
        window = make_window(self.corpus, positions, batch_sizes)
        inputs, targets = window.inputs, window.targets
        if self.ahead:
            backward = make_window(self.corpus, (positions + self.ahead) % size, batch_sizes)
            inputs = np.stack([inputs[0], backward.inputs[1]])
            targets = np.stack([targets[0], backward.targets[1]])
        inputs, targets = (
            items.reshape(2, self.batch_size, -1).transpose(0, 2, 1).reshape(2, -1)
            for items in (inputs, targets)
        )
        return Window(inputs, targets, batch_sizes)


def evaluation_windows(
    corpus: Corpus,
    *,
    n_streams: int,
    unroll_steps: int,
    max_items: int = 0,
    part: int = 0,
    n_parts: int = 1,
) -> tuple[int, Iterator[Window]]:
    """Make windows that read each token of a text once.

    The text is cut into streams of about the same length. Each stream begins at the start of a
    sentence.

    n_streams (int): Number of streams. A short text has fewer streams.
    unroll_steps (int): Tokens per stream in a window.
    max_items (int): If above 0, only about this number of tokens is read: an equal number from the
        start of each stream.
    part (int): Index of the share of the streams to read, from 0.
    n_parts (int): Number of shares.
    RETURNS (Tuple[int, Iterator[Window]]): The number of streams in this share, and their windows.
    """
    n_items, starts = len(corpus.tokens), corpus.starts
    wanted = np.arange(n_streams) * (n_items / n_streams)
    # Streams that would start in the same long sentence are one stream.
    firsts = np.unique(starts[np.searchsorted(starts, wanted, "right") - 1])
    sizes = np.diff(firsts, append=n_items)
    if max_items:
        sizes = np.minimum(sizes, -(-max_items // len(firsts)))
    # Shares of every n-th stream in order of length take about the same time.
    order = np.argsort(-sizes, kind="stable")[part::n_parts]
    firsts, sizes = firsts[order], sizes[order]

    def generate() -> Iterator[Window]:
        for start in range(0, int(sizes.max(initial=0)), unroll_steps):
            steps = range(start, min(start + unroll_steps, int(sizes[0])))
            batch_sizes = [int((sizes > step).sum()) for step in steps]
            positions = [firsts[:size] + step for step, size in zip(steps, batch_sizes)]
            yield make_window(corpus, np.concatenate(positions), batch_sizes)

    return len(firsts), generate()
