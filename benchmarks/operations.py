"""Necessary operations of a training step, and the size of its gradient."""

import math
from dataclasses import dataclass

import numpy as np
from plain_port import PlainText, word_ids

from spacy_elmo.bilm.model import BiLM
from spacy_elmo.model.config import BiLMConfig
from spacy_elmo.text.corpus import Corpus

N_WINDOWS = 40  # Windows over which the counts are averaged.


@dataclass(frozen=True)
class Counts:
    """Mean amounts of work in a training step.

    tokens (int): Tokens read, in one direction.
    types (float): Different tokens read, in both directions together.
    positions (float): Characters of such a token: its bytes and the two marks.
    negatives (float): Different words among the negative samples.
    target_words (float): Different words predicted, in both directions together.
    touched_rows (float): Rows of the softmax table that get a gradient.
    n_words (int): Size of the vocabulary.
    """

    tokens: int
    types: float
    positions: float
    negatives: float
    target_words: float
    touched_rows: float
    n_words: int


def count(
    text: PlainText, corpus: Corpus, sizes: BiLMConfig, *, max_words: int, n_negatives: int
) -> Counts:
    """Compute the mean counts over the first windows of a text.

    text (PlainText): The windows.
    corpus (Corpus): The text.
    sizes (BiLMConfig): Sizes of the model.
    max_words (int): Maximum number of words in the vocabulary.
    n_negatives (int): Number of negative samples in a step.
    RETURNS (Counts): The means.
    """
    words = word_ids(corpus, max_words)
    n_words = int(words.max()) + 1
    n_windows = min(N_WINDOWS, text.inputs.shape[1] // text.batch_size // text.unroll_steps)
    rng = np.random.default_rng(0)
    rows = []
    for step in range(max(1, n_windows)):
        inputs, targets = text.window(step)
        types, negatives = np.unique(inputs), draw_negatives(rng, n_words, n_negatives)
        predicted = np.unique(words[targets])
        spelled = [_positions(corpus.types[i], sizes.max_characters_per_token) for i in types]
        touched = len(np.union1d(predicted, negatives))
        rows.append((len(types), np.mean(spelled), len(negatives), len(predicted), touched))
    means = [float(mean) for mean in np.mean(rows, axis=0)]
    return Counts(text.batch_size * text.unroll_steps, *means, n_words)


def draw_negatives(rng: np.random.Generator, n_words: int, n_negatives: int) -> np.ndarray:
    """Draw words with replacement from a log-uniform distribution; return the different ones."""
    ranks = np.exp(rng.random(n_negatives) * math.log(n_words + 1)) - 1.0
    return np.unique(ranks.astype("int64").clip(0, n_words - 1))


def necessary_operations(sizes: BiLMConfig, counts: Counts) -> dict[str, float]:
    """Count the floating-point operations in the matrix products of a step.

    A multiplication and an addition count as two operations. The backward pass of a product needs
    two products of the same size, so all counts are 3 times the forward pass. With P =
    `projection_dim`, D = `lstm_dim`, L = `n_layers`, E = `char_embed_dim`, F = number of filters,
    H = `n_highway`:

        lstm     3 * tokens * 2 directions * L * 2 * (P * 4D  +  P * 4D  +  D * P)
                                                      input      state    projection
        softmax  3 * tokens * 2 directions * 2 * P * (m + 1)
        cnn      3 * types * (sum over filters of 2 * width * E * number * positions
                              + H * 2 * 2 * F * F  +  2 * F * P)

    m is the number of *different* negative samples (about half of the draws, because a word can be
    drawn twice). `types` is the number of different tokens in the windows of both directions, and
    `positions` the number of their bytes and two marks, without padding. Element-wise operations,
    the optimizer, look-ups and clipping are not counted.

    sizes (BiLMConfig): Sizes of the model.
    counts (Counts): Amounts of work.
    RETURNS (Dict[str, float]): Operations of each part.
    """
    width, lstm_dim, n_filters = sizes.projection_dim, sizes.lstm_dim, sizes.n_filters
    projected = lstm_dim * width if width < lstm_dim else 0
    lstm = 2 * sizes.n_layers * 2 * (2 * width * 4 * lstm_dim + projected)
    softmax = 2 * 2 * width * (counts.negatives + 1)
    filters = sum(size * number for size, number in sizes.filters)
    cnn = 2 * filters * sizes.char_embed_dim * counts.positions
    cnn += sizes.n_highway * 2 * 2 * n_filters**2
    cnn += 2 * n_filters * width if n_filters != width else 0
    return {
        "lstm": 3.0 * counts.tokens * lstm,
        "softmax": 3.0 * counts.tokens * softmax,
        "cnn": 3.0 * counts.types * cnn,
    }


def gradient_bytes(sizes: BiLMConfig, counts: Counts) -> dict[str, float]:
    """Count the bytes of a step's float32 gradient.

    sizes (BiLMConfig): Sizes of the model.
    counts (Counts): Amounts of work.
    RETURNS (Dict[str, float]): Bytes of the layers, of the whole softmax table with biases, and of
        its touched rows only, with their 8-byte row numbers.
    """
    width = sizes.projection_dim
    layers = sum(weight.numel() for weight in BiLM(sizes).parameters())
    return {
        "layers": 4.0 * layers,
        "table": 4.0 * counts.n_words * (width + 1),
        "touched_rows": counts.touched_rows * (4.0 * (width + 1) + 8.0),
    }


def _positions(token: str, max_characters: int) -> int:
    if token in ("<S>", "</S>"):
        return 3
    return min(len(token.encode("utf8", "ignore")) + 2, max_characters)
