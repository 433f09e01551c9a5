"""Random sentences from a language model."""

from collections.abc import Iterator, Sequence

import numpy as np

from ..frozen.recurrence import FrozenState
from ..frozen.vocabulary import SENTENCE_END, SENTENCE_START, UNKNOWN
from ..weights.state_dict_file import import_torch
from .frozen import FrozenLanguageModel


def sample_sentences(
    model: FrozenLanguageModel,
    *,
    start: Sequence[str] = (),
    temperature: float = 1.0,
    max_tokens: int = 100,
    seed: int = 0,
) -> Iterator[list[str]]:
    """Generate random sentences with the forward model, word by word. The iterator never ends.

    The probability of a word is p(t_k | t_1 .. t_{k-1}) ^ (1 / temperature), normalized. `<UNK>`
    is never generated. As in training, each sentence starts from the LSTM state after the previous
    sentence. The first sentence starts from zeros.

    model (FrozenLanguageModel): The model.
    start (Sequence[str]): Tokens at the start of every sentence.
    temperature (float): With a value below 1, likely words become more likely. With a value above
        1, unlikely words become more likely.
    max_tokens (int): Maximum number of tokens in a sentence.
    seed (int): Seed of the random numbers.
    YIELDS (List[str]): The tokens of a sentence.
    RAISES (ValueError): `temperature` or `max_tokens` is too small.
    """
    if temperature <= 0 or max_tokens < 1:
        raise ValueError(
            f"temperature must be above 0, got {temperature}; max_tokens must be 1 or more, "
            f"got {max_tokens}"
        )
    torch = import_torch("Drawing sentences")
    generator = torch.Generator().manual_seed(seed)
    words, end = model.vocabulary.words, model.vocabulary[SENTENCE_END]
    never = [model.vocabulary[mark] for mark in (SENTENCE_START, UNKNOWN)]
    state = model.bilm.zero_state(1)
    while True:
        sentence: list[str] = []
        context, state = _read(model, model.bilm.indexer.marks[0], state)
        for token in start:
            sentence.append(token)
            context, state = _read(model, token, state)
        while len(sentence) < max_tokens:
            scores = model.softmax.log_probabilities(context)[0] / temperature
            scores[never] = -np.inf
            probabilities = torch.from_numpy(scores).softmax(dim=0)
            word = int(torch.multinomial(probabilities, 1, generator=generator))
            if word == end:
                break
            sentence.append(words[word])
            context, state = _read(model, words[word], state)
        yield sentence


def _read(
    model: FrozenLanguageModel, token: str, state: FrozenState
) -> tuple[np.ndarray, FrozenState]:
    """Run the model over one token.

    model (FrozenLanguageModel): The model.
    token (str): The token.
    state (FrozenState): State before the token, one row.
    RETURNS (Tuple[numpy.ndarray, FrozenState]): The forward context vector, which predicts the next
        word, *Shape:* `(1, P)`; and the state after the token.
    """
    bilm = model.bilm
    rows = np.zeros((bilm.config.n_directions, 1), dtype="int64")
    outputs, state = bilm.run(bilm.token_vectors([token]), rows, [1], state)
    return outputs[-1, 0], state
