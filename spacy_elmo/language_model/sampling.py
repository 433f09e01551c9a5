"""Text that a language model makes up."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ..bilm.state import BiLMState
from ..frozen.vocabulary import SENTENCE_END, SENTENCE_START, UNKNOWN
from .model import LanguageModel


@torch.inference_mode()
def sample_sentences(
    model: LanguageModel,
    *,
    start: Sequence[str] = (),
    temperature: float = 1.0,
    max_tokens: int = 100,
    seed: int = 0,
) -> Iterator[list[str]]:
    """Draw sentences from the forward model, word by word, without end: p(t_k | t_1 .. t_{k-1})
    ^ (1 / temperature), normalized. `<UNK>` is no word and left out. As in training, the state
    goes on from sentence to sentence; the first starts from zeros.

    model (LanguageModel): The model.
    start (Sequence[str]): Tokens that every sentence starts with.
    temperature (float): Below 1 for likelier words, above 1 for others.
    max_tokens (int): Most tokens of a sentence.
    seed (int): Of the draws.
    YIELDS (List[str]): The tokens of a sentence.
    RAISES (ValueError): A number is impossible.
    """
    if temperature <= 0 or max_tokens < 1:
        raise ValueError(
            f"temperature must be above 0, got {temperature}; max_tokens must be 1 or more, "
            f"got {max_tokens}"
        )
    generator = torch.Generator().manual_seed(seed)
    words, end = model.vocabulary.words, model.vocabulary[SENTENCE_END]
    never = [model.vocabulary[mark] for mark in (SENTENCE_START, UNKNOWN)]
    state = model.bilm.zero_state(1)
    while True:
        sentence: list[str] = []
        context, state = _read(model, model.bilm.encoder.indexer.marks[0], state)
        for token in start:
            sentence.append(token)
            context, state = _read(model, token, state)
        while len(sentence) < max_tokens:
            scores = model.softmax.log_probabilities(context)[0].cpu() / temperature
            scores[never] = -torch.inf
            word = int(torch.multinomial(scores.softmax(dim=0), 1, generator=generator))
            if word == end:
                break
            sentence.append(words[word])
            context, state = _read(model, words[word], state)
        yield sentence


def _read(model: LanguageModel, token: str, state: BiLMState) -> tuple[Tensor, BiLMState]:
    """What predicts the next word, *Shape:* `(1, P)`, and the state after the token."""
    bilm = model.bilm
    rows = torch.zeros(bilm.config.n_directions, 1, dtype=torch.int64, device=bilm.device)
    outputs, state = bilm(bilm.token_vectors([token]), rows, [1], state)
    return outputs[0][-1], state
