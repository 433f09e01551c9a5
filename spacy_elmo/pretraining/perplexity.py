"""Held-out perplexity, by the full softmax."""

import math
from dataclasses import asdict, dataclass

import torch

from .batches import Streams, evaluation_windows
from .corpus import Corpus
from .language_model import LanguageModel
from .vocabulary import UNKNOWN_ID


@dataclass(frozen=True)
class Perplexity:
    """Result of an evaluation. The mean is over the two directions' average
    negative log-likelihoods, as in bilm-tf: the geometric mean of the two.

    forward (float): Of the words and `</S>`, from what precedes.
    backward (float): Of the words and `<S>`, from what follows.
    mean (float): Of both.
    n_tokens (int): Predictions in one direction: words, and one mark a sentence.
    unknown (float): Share of the words that the vocabulary lacks.
    """

    forward: float
    backward: float
    mean: float
    n_tokens: int
    unknown: float

    def to_dict(self) -> dict[str, float]:
        """RETURNS (dict): The figures by name."""
        return asdict(self)


@torch.inference_mode()
def perplexity(
    model: LanguageModel, corpus: Corpus, *, n_streams: int = 16, unroll_steps: int = 100
) -> Perplexity:
    """Evaluate a language model. Every stream starts from zeros and carries its
    state to its end.

    model (LanguageModel): The model.
    corpus (Corpus): Held-out text.
    n_streams (int): Streams side by side.
    unroll_steps (int): Steps of a window; no matter for the result.
    RETURNS (Perplexity): The figures.
    """
    was_training = model.training
    model.eval()
    words = model.vocabulary.ids_of(corpus.types)
    streams = Streams(corpus)
    n_streams, windows = evaluation_windows(streams, n_streams=n_streams, unroll_steps=unroll_steps)
    state = model.bilm.zero_state(n_streams)
    losses = [0.0, 0.0]
    for window in windows:
        running = state.rows(range(window.batch_sizes[0]))
        contexts, state = model.contexts(window, corpus.types, running)
        targets = torch.from_numpy(words[window.targets]).to(model.bilm.device)
        for direction in range(2):
            losses[direction] += model.softmax.negative_log_likelihood(
                contexts[direction], targets[direction]
            )
    model.train(was_training)
    forward, backward = (loss / len(streams) for loss in losses)
    unknown = int((words[corpus.tokens] == UNKNOWN_ID).sum())
    return Perplexity(
        forward=_exp(forward),
        backward=_exp(backward),
        mean=_exp((forward + backward) / 2),
        n_tokens=len(streams),
        unknown=unknown / corpus.n_words,
    )


def _exp(loss: float) -> float:
    return math.exp(loss) if loss < 700 else math.inf
