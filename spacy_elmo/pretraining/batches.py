"""Streams of sentences, cut into windows."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .corpus import END_ID, START_ID, Corpus


@dataclass(frozen=True)
class Window:
    """Some steps of several streams, in both directions.

    inputs (numpy.ndarray): Token types, packed step by step. *Shape:* `(2, n_items)`
    targets (numpy.ndarray): The type to predict after each. *Shape:* `(2, n_items)`
    batch_sizes (List[int]): Streams running at each step, never rising.
    """

    inputs: np.ndarray
    targets: np.ndarray
    batch_sizes: list[int]


class Streams:
    """A corpus as what the language model reads and predicts: forwards
    `<S> w1 .. wn` and `w1 .. wn </S>`, backwards the mirror image of each
    sentence, `</S> wn .. w1` and `wn .. w1 <S>`, the sentences in their order.

    corpus (Corpus): The text.
    """

    def __init__(self, corpus: Corpus):
        self.starts = corpus.starts
        self.inputs = np.stack([corpus.tokens, _mirrored(corpus)])
        self.targets = np.roll(self.inputs, -1, axis=1)
        ends = np.append(corpus.starts[1:], len(corpus.tokens)) - 1
        self.targets[0, ends] = END_ID
        self.targets[1, ends] = START_ID

    def __len__(self) -> int:
        return int(self.inputs.shape[1])

    def window(self, positions: np.ndarray, batch_sizes: list[int]) -> Window:
        """RETURNS (Window): The items at these positions, packed."""
        return Window(self.inputs[:, positions], self.targets[:, positions], batch_sizes)


def _mirrored(corpus: Corpus) -> np.ndarray:
    """Every sentence as `</S> wn .. w1`."""
    sizes = np.diff(corpus.starts, append=len(corpus.tokens))
    # Item k of a sentence of n + 1 items takes item n + 1 - k; item 0 is the mark.
    within = np.arange(len(corpus.tokens)) - np.repeat(corpus.starts, sizes)
    sources = np.repeat(corpus.starts + sizes, sizes) - within
    sources[corpus.starts] = 0
    mirrored: np.ndarray = corpus.tokens[sources]
    mirrored[corpus.starts] = END_ID
    return mirrored


class TrainingBatches:
    """Windows for training, without end: each row of the batch owns one stretch
    of the text and reads it on and on; another epoch starts elsewhere in it.

    streams (Streams): The text.
    batch_size (int): Streams side by side; fewer where the text is too short.
    unroll_steps (int): Steps of a window; fewer where the text is too short.
    seed (int): Of the places where the epochs start.
    """

    def __init__(self, streams: Streams, *, batch_size: int, unroll_steps: int, seed: int):
        self.streams = streams
        self.unroll_steps = min(unroll_steps, len(streams))
        self.batch_size = max(1, min(batch_size, len(streams) // self.unroll_steps))
        self.steps_per_epoch = max(1, len(streams) // self.batch_size // self.unroll_steps)
        self.seed = seed

    @property
    def tokens_per_step(self) -> int:
        """RETURNS (int): Items of a window, in one direction."""
        return self.batch_size * self.unroll_steps

    def __iter__(self) -> Iterator[Window]:
        step = 0
        while True:
            yield self.at(step)
            step += 1

    def at(self, step: int) -> Window:
        """RETURNS (Window): The window of a step, counted from 0."""
        epoch, within = divmod(step, self.steps_per_epoch)
        offset = 0
        if epoch:
            offset = int(np.random.default_rng([self.seed, epoch]).integers(len(self.streams)))
        rows = np.arange(self.batch_size) * (len(self.streams) // self.batch_size)
        steps = np.arange(self.unroll_steps) + within * self.unroll_steps
        positions = (offset + steps[:, None] + rows[None, :]).ravel() % len(self.streams)
        return self.streams.window(positions, [self.batch_size] * self.unroll_steps)


def evaluation_windows(
    streams: Streams, *, n_streams: int, unroll_steps: int
) -> tuple[int, Iterator[Window]]:
    """Windows that read every item once, in streams of about the same length
    that start with a sentence.

    streams (Streams): The text.
    n_streams (int): Streams side by side; fewer where there are fewer sentences.
    unroll_steps (int): Steps of a window.
    RETURNS (Tuple[int, Iterator[Window]]): The number of streams, the windows.
    """
    wanted = np.arange(n_streams) * (len(streams) / n_streams)
    firsts = np.unique(streams.starts[np.searchsorted(streams.starts, wanted, "right") - 1])
    sizes = np.diff(firsts, append=len(streams))
    order = np.argsort(-sizes, kind="stable")
    firsts, sizes = firsts[order], sizes[order]

    def generate() -> Iterator[Window]:
        for start in range(0, int(sizes[0]), unroll_steps):
            steps = range(start, min(start + unroll_steps, int(sizes[0])))
            batch_sizes = [int((sizes > step).sum()) for step in steps]
            positions = [firsts[:size] + step for step, size in zip(steps, batch_sizes)]
            yield streams.window(np.concatenate(positions), batch_sizes)

    return len(firsts), generate()
