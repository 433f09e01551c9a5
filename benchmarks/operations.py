"""The operations that a training step cannot do without, and its gradient's bytes."""

import math
from dataclasses import dataclass

import numpy as np
from plain_port import PlainText, word_ids

from spacy_elmo.bilm.model import BiLM
from spacy_elmo.frozen.config import BiLMConfig
from spacy_elmo.text.corpus import Corpus

N_WINDOWS = 40  # over which the text's counts are averaged


@dataclass(frozen=True)
class Counts:
    """What the text and the draws ask of a step, in the mean.

    tokens (int): Tokens read, in one direction.
    types (float): Different tokens that both directions read.
    positions (float): Characters of such a token: its bytes and the two marks.
    negatives (float): Different words among the draws.
    target_words (float): Different words that both directions predict.
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
    """Measure the counts on the first windows of a text.

    text (PlainText): The windows.
    corpus (Corpus): Their text.
    sizes (BiLMConfig): Sizes of the model.
    max_words (int): Most words of the vocabulary.
    n_negatives (int): Draws of a step.
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
    """RETURNS (numpy.ndarray): The different words of a log-uniform draw with replacement."""
    ranks = np.exp(rng.random(n_negatives) * math.log(n_words + 1)) - 1.0
    return np.unique(ranks.astype("int64").clip(0, n_words - 1))


def necessary_operations(sizes: BiLMConfig, counts: Counts) -> dict[str, float]:
    """Floating-point operations of one step's matrix products, a product and a sum
    counted as two. The backward pass of a product is two more of its size, hence 3
    times the forward pass throughout. With P = `projection_dim`, D = `lstm_dim`,
    L = `n_layers`, E = `char_embed_dim`, F = the sum of the filters, H = `n_highway`:

        lstm     3 * tokens * 2 directions * L * 2 * (P * 4D  +  P * 4D  +  D * P)
                                                      input      state    projection
        softmax  3 * tokens * 2 directions * 2 * P * (m + 1)
        cnn      3 * types * (sum over filters of 2 * width * E * number * positions
                              + H * 2 * 2 * F * F  +  2 * F * P)

    m is the number of *different* negatives (draws with replacement collapse, here
    by about half), `types` that of different tokens in both directions' windows
    together, `positions` their bytes and two marks, without padding. Not counted:
    everything element by element, the optimizer, look-ups, the clipping.

    sizes (BiLMConfig): Sizes of the model.
    counts (Counts): What the text asks.
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
    """Bytes of a step's float32 gradient: the layers', the whole softmax table's with
    its biases, and that of the table's touched rows alone, with their 8-byte numbers.

    sizes (BiLMConfig): Sizes of the model.
    counts (Counts): What the text asks.
    RETURNS (Dict[str, float]): The three of them.
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
