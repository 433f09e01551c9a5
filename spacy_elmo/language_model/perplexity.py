"""Perplexity of held-out text, with the full softmax."""

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Optional, Union

from ..model.vocabulary import UNKNOWN_ID
from ..text.corpus import END_ID, Corpus
from .frozen import FrozenLanguageModel
from .windows import evaluation_windows

if TYPE_CHECKING:
    from .model import LanguageModel
    from .processes import Processes

MIN_ITEMS = 1000  # Minimum mean of a stream: the first words of a stream have no context.


@dataclass(frozen=True)
class Perplexity:
    """Perplexity of a language model on a text, for each direction and for both.

    forward (float): Perplexity of words and `</S>`, given the text before them.
    backward (float): Perplexity of words and `<S>`, given the text after them; NaN for a model
        with one direction.
    mean (float): Geometric mean of both perplexities, as in bilm-tf.
    n_tokens (int): Number of predictions in one direction: words, and one mark per sentence.
    unknown (float): Share of the words that are not in the vocabulary, 0 to 1.
    """

    forward: float
    backward: float
    mean: float
    n_tokens: int
    unknown: float

    def to_dict(self) -> dict[str, Optional[float]]:
        """Return the numbers by name. Infinity and NaN become None, because JSON has neither."""
        numbers = asdict(self).items()
        return {name: value if math.isfinite(value) else None for name, value in numbers}


def perplexity(
    model: Union[FrozenLanguageModel, "LanguageModel"],
    corpus: Corpus,
    *,
    n_streams: int = 64,
    unroll_steps: int = 100,
    max_items: int = 0,
    processes: "Optional[Processes]" = None,
) -> Perplexity:
    """Compute the perplexity of held-out text.

    The text is cut into streams, which the model reads in parallel, window by window. Each stream
    starts from an LSTM state of zeros, and carries its state from window to window.

    n_streams (int): Maximum number of streams. A text with fewer than 1,000 tokens per stream has
        fewer streams, but at least one.
    unroll_steps (int): Tokens per stream in a window. The number does not change the result.
    max_items (int): If above 0, read only about this number of tokens: an equal number from the
        start of each stream.
    processes (Optional[Processes]): Processes that share the work. Each gets the result of the
        whole text.
    """
    words = model.vocabulary.ids_of(corpus.types)
    # Each stream starts without context, which raises the perplexity of its first words.
    n_streams = max(1, min(n_streams, len(corpus.tokens) // MIN_ITEMS))
    n_streams, windows = evaluation_windows(
        corpus,
        n_streams=n_streams,
        unroll_steps=unroll_steps,
        max_items=max_items,
        part=processes.rank if processes else 0,
        n_parts=processes.size if processes else 1,
    )
    n_directions = model.bilm.config.n_directions
    sums = [0.0, 0.0, 0.0, 0.0, 0.0]  # Sums: both losses, predictions, words, unknown words.
    state: Any = model.bilm.zero_state(n_streams)
    for window in windows:
        # Streams are sorted by length, so the streams that have ended are the last rows.
        running = state.rows(range(window.batch_sizes[0]))
        contexts, state = model.contexts(window, corpus.types, running)
        targets = words[window.targets]
        for direction, part in enumerate(contexts):
            sums[direction] += model.negative_log_likelihood(part, targets[direction])
        is_word = window.targets[0] != END_ID
        sums[2] += len(is_word)
        sums[3] += int(is_word.sum())
        sums[4] += int((targets[0] == UNKNOWN_ID).sum())
    sums = processes.sum(sums) if processes else sums
    forward, backward, n_tokens, n_words, n_unknown = sums
    return Perplexity(
        forward=_exp(forward / n_tokens),
        backward=_exp(backward / n_tokens) if n_directions == 2 else math.nan,
        mean=_exp((forward + backward) / n_directions / n_tokens),
        n_tokens=int(n_tokens),
        unknown=n_unknown / n_words,
    )


def _exp(loss: float) -> float:
    # `math.exp` raises OverflowError from 710 on.
    return math.exp(loss) if loss < 700 else math.inf
