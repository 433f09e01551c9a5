"""Frozen biLM with its softmax: predicts words, computes perplexity, samples sentences."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Union

import numpy as np

from ..files.optional import import_optional
from ..frozen.model import FrozenBiLM
from ..frozen.recurrence import FrozenState
from ..frozen.softmax import FrozenSoftmax
from ..model.config import BiLMConfig
from ..model.vocabulary import SENTENCE_END, SENTENCE_START, UNKNOWN, Vocabulary
from ..text.corpus import END_ID, START_ID
from ..weights.formats import read_model
from ..weights.softmax_file import SOFTMAX_FILE
from ..weights.vocabulary_files import VOCABULARY_FILE
from .windows import Window


class FrozenLanguageModel:
    """Frozen biLM with a softmax that predicts words.

    softmax (FrozenSoftmax): Output layer of both directions.
    RAISES (ValueError): A direction of the biLM sees the words that it must predict, because
        `joined_directions` is True or `sentence_marks` is False.
    """

    def __init__(self, bilm: FrozenBiLM, softmax: FrozenSoftmax, vocabulary: Vocabulary):
        check_predicts(bilm.config)
        self.bilm, self.softmax, self.vocabulary = bilm, softmax, vocabulary

    def contexts(
        self, window: Window, types: Sequence[str], state: FrozenState
    ) -> tuple[np.ndarray, FrozenState]:
        """Compute the context vectors that predict words, for all items of a window.

        The token encoder reads each different token once.

        types (Sequence[str]): The string of each id in the window.
        state (FrozenState): Initial state, one row per stream.
        RETURNS (Tuple[numpy.ndarray, FrozenState]): The packed top layer of each direction,
            *Shape:* `(n_directions, n_items, projection_dim)`, and the state after the window.
        """
        inputs = window.inputs[: self.bilm.config.n_directions]
        strings, rows = types_of(inputs, types, self.bilm.indexer.marks)
        vectors = self.bilm.token_vectors(strings)
        outputs, state = self.bilm.run(vectors, rows, window.batch_sizes, state)
        return outputs[-1], state

    def negative_log_likelihood(self, contexts: np.ndarray, targets: np.ndarray) -> float:
        """Compute the sum of the targets' negative log-probabilities, in nats.

        contexts (numpy.ndarray): Context vectors. *Shape:* `(n, projection_dim)`
        targets (numpy.ndarray): Word ids. *Shape:* `(n,)`
        """
        return self.softmax.negative_log_likelihood(contexts, targets)


def types_of(
    inputs: np.ndarray, types: Sequence[str], marks: tuple[str, str]
) -> tuple[list[str], np.ndarray]:
    """Return the distinct strings in a window, and for each item the index of its string.

    The indices have the shape of `inputs`.

    inputs (numpy.ndarray): Ids of tokens. *Shape:* `(n_directions, n_items)`
    marks (Tuple[str, str]): The model's strings for the start and the end of a sentence.
    """
    used, inverse = np.unique(inputs, return_inverse=True)
    # The marks of a corpus are `<S>` and `</S>`. Models of ELMoForManyLangs have other strings.
    named = dict(zip((START_ID, END_ID), marks))
    return [named.get(i, types[i]) for i in used.tolist()], inverse.reshape(inputs.shape)


def check_predicts(config: BiLMConfig) -> None:
    """Check that each direction of a biLM can predict words without seeing them.

    RAISES (ValueError): `joined_directions` is True, or `sentence_marks` is False.
    """
    if config.joined_directions or not config.sentence_marks:
        raise ValueError(
            "a language model needs joined_directions = false and sentence_marks = true. "
            "Otherwise each direction sees the words that it must predict."
        )


def read_language_model(path: Union[str, Path]) -> FrozenLanguageModel:
    """Read a language model with its softmax and vocabulary, so that it can predict words.

    The model is the output of `spacy elmo pretrain`, or weights of AllenNLP or bilm-tf with a
    softmax and a vocabulary.

    path (Union[str, Path]): Name, path or URL.
    RAISES (ValueError): The model, its softmax or its vocabulary is missing, or they do not fit
        together.
    """
    stored, bundle = read_model(path)
    if bundle.prediction is None:
        files = f"{SOFTMAX_FILE} and {VOCABULARY_FILE}"
        if stored.path.suffix in (".hdf5", ".h5"):
            files = f"softmax/W and softmax/b in the file, and {VOCABULARY_FILE} beside it"
        raise ValueError(
            f"{stored.path} has no {bundle.missing}, which a model needs to predict words: "
            f"{files}. If it was published without, train a softmax on your text with "
            f"`python -m spacy elmo pretrain CONFIG --pretraining.init {path}`"
        )
    return FrozenLanguageModel(bundle.bilm, *bundle.prediction)


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

    start (Sequence[str]): Tokens at the start of every sentence.
    temperature (float): Below 1, likely words become more likely; above 1, unlikely words do.
    max_tokens (int): Maximum number of tokens in a sentence.
    RAISES (ValueError): `temperature` or `max_tokens` is too small.
    """
    if temperature <= 0 or max_tokens < 1:
        raise ValueError(
            f"temperature must be above 0, got {temperature}; max_tokens must be 1 or more, "
            f"got {max_tokens}"
        )
    torch = import_optional("torch", "Drawing sentences")
    generator = torch.Generator().manual_seed(seed)
    words, end = model.vocabulary.words, model.vocabulary[SENTENCE_END]
    never = [model.vocabulary[mark] for mark in (SENTENCE_START, UNKNOWN)]
    state = model.bilm.zero_state(1)
    while True:
        sentence = list(start)
        for token in (model.bilm.indexer.marks[0], *start):
            context, state = _read_token(model, token, state)
        while len(sentence) < max_tokens:
            scores = model.softmax.log_probabilities(context)[0] / temperature
            scores[never] = -np.inf
            probabilities = torch.from_numpy(scores).softmax(dim=0)
            word = int(torch.multinomial(probabilities, 1, generator=generator))
            if word == end:
                break
            sentence.append(words[word])
            context, state = _read_token(model, words[word], state)
        yield sentence


def _read_token(
    model: FrozenLanguageModel, token: str, state: FrozenState
) -> tuple[np.ndarray, FrozenState]:
    """Read a token. Return the forward context vector, `(1, P)`, and the state after the token."""
    bilm = model.bilm
    rows = np.zeros((bilm.config.n_directions, 1), dtype="int64")
    outputs, state = bilm.run(bilm.token_vectors([token]), rows, [1], state)
    return outputs[-1, 0], state
