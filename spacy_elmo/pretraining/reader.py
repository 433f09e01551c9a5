"""Reader of a run: from the number of a step to the arrays that the step computes with.

A window has thousands of tokens, but few new words. So ids of characters and words are computed
once for each type of the corpus, and then copied from a table; the first 131,072 types that occur
fill it. Only words that noise has changed, and rare words, are encoded again. With numpy's
operations on whole windows for the rest, one core reads several times as many tokens as a GPU
trains on, without a process of its own.

On a GPU, a thread reads the next window while the GPU computes (`ReadAhead`). A window depends only
on its step, so this changes no result.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, Optional

import numpy as np

from ..language_model.windows import EncodedWindow, TrainingStreams, Window, distinct
from ..model.indexers import TokenIds, TokenIndexer
from ..text.corpus import END_ID, START_ID
from .config import CorpusSettings
from .noise import WindowTypes, change_case_of_inputs, misspell_inputs

# Uses of random numbers, see `draw_seed`: negatives and resets of LSTM states, misspelled words,
# letter case. For these, all processes draw the same numbers. For its dropout masks, each process
# has the use `rank + 1`.
SHARED, NOISE, CASE_NOISE = 0, 1 << 20, 1 << 21
# Types whose ids, and whose strings for noise, stay in memory. 131,072 types are 98 % of the tokens
# of English text, and their ids take 26 MB.
KEPT_TYPES = 1 << 17


class TrainingPart(NamedTuple):
    """Share of a window that a process computes at once.

    inputs (EncodedWindow): Ids of the tokens to read.
    targets (numpy.ndarray): Word id to predict from each input, first forward, then backward.
        *Shape:* `(n_directions * n_items,)`
    """

    inputs: EncodedWindow
    targets: np.ndarray


class TrainingWindow(NamedTuple):
    """Window of a training step.

    parts (List[TrainingPart]): The shares of this process, one for each part of the batch.
    target_words (numpy.ndarray): Different word ids that all processes predict. *Shape:* `(n,)`
    n_tokens (int): Number of tokens and marks that all processes read, counted in one direction.
    """

    parts: list[TrainingPart]
    target_words: np.ndarray
    n_tokens: int


class WindowReader:
    """Reader of training windows. The window of a step depends only on its arguments.

    streams (TrainingStreams): The text, cut into streams.
    indexer (TokenIndexer): Indexer of the model.
    word_of_type (numpy.ndarray): Word id in the softmax of each type of the corpus. *Shape:*
        `(n_types,)`
    noise (CorpusSettings): The settings `noise` and `case_noise`.
    seed (int): Seed of the run.
    n_directions (int): Number of directions of the model.
    rank (int): Rank of this process.
    size (int): Number of processes.
    n_parts (int): Number of parts that each process computes one after another.
    """

    def __init__(
        self,
        streams: TrainingStreams,
        indexer: TokenIndexer,
        word_of_type: np.ndarray,
        noise: CorpusSettings,
        *,
        seed: int,
        n_directions: int = 2,
        rank: int = 0,
        size: int = 1,
        n_parts: int = 1,
    ):
        self.streams, self.word_of_type, self.noise = streams, word_of_type, noise
        self.seed, self.n_directions = seed, n_directions
        self.rank, self.size, self.n_parts = rank, size, n_parts
        self.types = WindowTypes(streams.corpus.types)
        self.token_ids = TokenIdTable(len(self.types), indexer)

    def __call__(self, step: int, window_number: int) -> TrainingWindow:
        """Read the window of a step.

        step (int): Number of the step, which decides the noise.
        window_number (int): Number of the window in the text, through all epochs.
        RETURNS (TrainingWindow): The window.
        """
        window, types = self._with_noise(self.streams.at(window_number), step)
        targets = self.word_of_type[window.targets[: self.n_directions]]
        parts = []
        for part in range(self.n_parts):
            share = self.rank * self.n_parts + part
            mine = window.part(share, self.size * self.n_parts)
            inputs = self.token_ids.encode(mine, types, self.n_directions)
            words = self.word_of_type[mine.targets[: self.n_directions]].ravel()
            parts.append(TrainingPart(inputs, words))
        return TrainingWindow(parts, distinct(targets)[0], window.inputs.shape[1])

    def _with_noise(self, window: Window, step: int) -> tuple[Window, WindowTypes]:
        """Apply the noise to a window, and return it with the strings of its ids."""
        types = self.types
        if self.noise.case_noise:
            rng = np.random.default_rng(draw_seed(self.seed, step, CASE_NOISE))
            window, types = change_case_of_inputs(window, types, self.noise.case_noise, rng)
        if self.noise.noise:
            rng = np.random.default_rng(draw_seed(self.seed, step, NOISE))
            window, types = misspell_inputs(window, types, self.noise.noise, rng)
        return window, types


class TokenIdTable:
    """Table of the token ids of a corpus' types, filled when a type occurs first.

    n_types (int): Number of types of the corpus.
    indexer (TokenIndexer): Indexer of the model.
    n_kept (int): Maximum number of types in the table.
    """

    def __init__(self, n_types: int, indexer: TokenIndexer, n_kept: int = KEPT_TYPES):
        self.indexer, self.n_kept = indexer, n_kept
        self.places = np.full(n_types, -1, "int32")  # Row of each type; -1: not in the table.
        self.n_rows = 0
        # Columns of the table, one row per type: ids, numbers of ids and of characters.
        self.characters: Optional[np.ndarray] = None
        self.words: Optional[np.ndarray] = None
        self.n_ids = np.zeros(0, "int64")
        self.lengths = np.zeros(0, "int64")
        self.marks = dict(zip((START_ID, END_ID), indexer.marks))

    def encode(self, window: Window, types: WindowTypes, n_directions: int) -> EncodedWindow:
        """Convert a window to the ids that the model reads.

        window (Window): The window.
        types (WindowTypes): The string of each id in the window.
        n_directions (int): Number of directions of the model.
        RETURNS (EncodedWindow): The ids of the different tokens, shortest token first, and for each
            item the row of its token.
        """
        used, inverse = distinct(window.inputs[:n_directions])
        rows = self._rows_of(used, types)
        order = np.argsort(self.lengths[rows], kind="stable")
        numbers = np.empty(len(order), "int64")
        numbers[order] = np.arange(len(order))
        items = numbers[inverse]
        return EncodedWindow(self._ids(rows[order]), items, window.batch_sizes)

    def _rows_of(self, used: np.ndarray, types: WindowTypes) -> np.ndarray:
        """Return the row of each id. Ids without one get rows at the end, until the next call.

        used (numpy.ndarray): Different ids in ascending order: the corpus' types come first.
        """
        rows = np.full(len(used), -1, "int64")
        n_types = int(np.searchsorted(used, len(self.places)))
        rows[:n_types] = self.places[used[:n_types]]
        missing = np.flatnonzero(rows < 0)
        if not len(missing):
            return rows
        strings = types.strings(used[missing])
        for place in np.flatnonzero(used[missing] <= END_ID).tolist():
            strings[place] = self.marks[used[missing[place]]]
        rows[missing] = np.arange(self.n_rows, self.n_rows + len(strings))
        self._write(strings)
        n_new = int(np.searchsorted(missing, n_types))
        kept = missing[: min(n_new, self.n_kept - self.n_rows)]
        self.places[used[kept]] = rows[kept]
        self.n_rows += len(kept)
        return rows

    def _write(self, strings: list[str]) -> None:
        """Write the ids of strings to the rows from `n_rows` on."""
        characters, words = self.indexer(strings)
        end = self.n_rows + len(strings)
        if end > len(self.lengths):
            self._grow(2 * end, characters, words)
        here = slice(self.n_rows, end)
        self.lengths[here] = [len(string) for string in strings]
        if characters is not None and self.characters is not None:
            n_columns = characters.shape[1]
            # The last column is padding, or ends a token of the maximum length.
            differs = characters != characters[:, -1:]
            self.n_ids[here] = n_columns - np.argmax(differs[:, ::-1], axis=1)
            self.characters[here, :n_columns] = characters
            self.characters[here, n_columns:] = characters[:, -1:]
        if words is not None and self.words is not None:
            self.words[here] = words

    def _grow(
        self, size: int, characters: Optional[np.ndarray], words: Optional[np.ndarray]
    ) -> None:
        """Copy the table to arrays of `size` rows, with the columns of these ids."""
        self.n_ids, self.lengths = (_longer(each, size) for each in (self.n_ids, self.lengths))
        if characters is not None:
            if self.characters is None:
                width = self.indexer.config.max_characters_per_token
                self.characters = np.zeros((0, width), characters.dtype)
            self.characters = _longer(self.characters, size)
        if words is not None:
            self.words = _longer(
                np.zeros(0, words.dtype) if self.words is None else self.words, size
            )

    def _ids(self, rows: np.ndarray) -> TokenIds:
        """Copy the ids of some rows, with the padding that the widest filter needs."""
        characters = None
        if self.characters is not None:
            n_columns = int(self.n_ids[rows].max(initial=1)) + self.indexer.config.widest_filter
            characters = self.characters[rows, :n_columns]
        return TokenIds(characters, None if self.words is None else self.words[rows])


def _longer(array: np.ndarray, size: int) -> np.ndarray:
    """Copy an array, and add rows of zeros up to `size` rows."""
    longer = np.zeros((size, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer


class ReadAhead:
    """Reader that reads the next window in a thread, while its caller uses the last one.

    read (Callable): Reads a window from the number of its step and its number in the text. Only one
        thread calls it at a time.
    """

    def __init__(self, read: Callable[[int, int], TrainingWindow]):
        self.read = read
        self.thread = ThreadPoolExecutor(1, "spacy-elmo-reader")
        self.following: Optional[tuple[tuple[int, int], Future[TrainingWindow]]] = None

    def __call__(self, step: int, window_number: int) -> TrainingWindow:
        """Return the window of a step, and begin to read the window of the next step."""
        wanted, found = (step, window_number), None
        if self.following is not None:
            number, future = self.following
            found = future.result()
            if number != wanted:  # A step was repeated, or the run continues elsewhere.
                found = None
        if found is None:
            found = self.read(*wanted)
        following = (step + 1, window_number + 1)
        self.following = following, self.thread.submit(self.read, *following)
        return found


def draw_seed(seed: int, step: int, use: int) -> int:
    """Compute the seed of the random numbers for one use in a step.

    seed (int): Seed of the run.
    step (int): Number of the step.
    use (int): `SHARED`, `NOISE`, `CASE_NOISE`, or the rank of a process + 1.
    RETURNS (int): The seed, 63 bits.
    """
    sequence = np.random.SeedSequence([seed, step, use])
    return int(sequence.generate_state(1, "uint64")[0] >> np.uint64(1))
