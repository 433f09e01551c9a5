"""Substitutes: the words that a language model expects in place of a token."""

from collections.abc import Sequence
from typing import NamedTuple, Optional

import numpy as np

from ..language_model.frozen import FrozenLanguageModel
from ..language_model.windows import make_window
from ..model.vocabulary import SPECIAL
from ..text.corpus import read_corpus


class Substitute(NamedTuple):
    """Word of the vocabulary, and its probability in place of a token.

    word (str): The word.
    rank (int): Rank of the word among all words, from 1.
    probability (float): Probability from both directions, normalized over all words.
    forward (float): Probability given the words to the left.
    backward (Optional[float]): Probability given the words to the right; None if the model has
        only one direction.
    """

    word: str
    rank: int
    probability: float
    forward: float
    backward: Optional[float]


def find_substitutes(
    model: FrozenLanguageModel, sentence: Sequence[str], position: int, *, n: int = 10
) -> tuple[list[Substitute], Optional[Substitute]]:
    """Find the words that the language model expects most in place of a token.

    The model does not see the token. The forward direction reads `<S>` and the words before the
    token. The backward direction reads `</S>` and the words after the token. Both directions start
    with a state of zeros. The log-probabilities of both directions are added and normalized. `<S>`,
    `</S>` and `<UNK>` (which stands for thousands of words) are no substitutes.

    position (int): Position of the token to replace, from 0.
    n (int): Maximum number of words.
    RETURNS (Tuple[List[Substitute], Optional[Substitute]]): The substitutes, most
        likely first; and a Substitute for the token itself, or None if the token is not in the
        vocabulary.
    """
    each = model.softmax.log_probabilities(_contexts(model, sentence, position))
    each, words = each[:, len(SPECIAL) :], model.vocabulary.words[len(SPECIAL) :]
    both = each.sum(axis=0)
    both -= np.logaddexp.reduce(both)
    order = np.argsort(-both, kind="stable")
    probabilities = np.exp(np.concatenate([both[None], each]))

    def describe(word: int) -> Substitute:
        rank = int(np.flatnonzero(order == word)[0]) + 1
        joint, forward, *backward = probabilities[:, word].tolist()
        return Substitute(words[word], rank, joint, forward, *(backward or [None]))

    itself = int(model.vocabulary.ids_of([sentence[position]])[0]) - len(SPECIAL)
    best = [describe(word) for word in order[:n].tolist()]
    return best, describe(itself) if itself >= 0 else None


def _contexts(model: FrozenLanguageModel, sentence: Sequence[str], position: int) -> np.ndarray:
    """Compute the LSTM outputs that predict the token. *Shape:* `(n_directions, P)`."""
    corpus = read_corpus([list(sentence)])
    n_items = len(corpus.tokens)
    window = make_window(corpus, np.arange(n_items), [1] * n_items)
    contexts, _ = model.contexts(window, corpus.types, model.bilm.zero_state(1))
    # Item k predicts token k forwards, and token n - 1 - k backwards.
    items = [position, len(sentence) - 1 - position][: model.bilm.config.n_directions]
    return np.stack([part[i] for part, i in zip(contexts, items)])
