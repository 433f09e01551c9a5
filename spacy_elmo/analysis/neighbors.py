"""Search for the tokens of a corpus that are nearest to a token (Peters et al. 2018, table 4)."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Optional

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc

from ..embedding.docs import make_sentence
from ..embedding.mix import mix_layers
from ..pipeline.load import elmo_pipe
from .corpora import unit_vectors, with_layers

Place = tuple[tuple[str, ...], int]  # A sentence, and the position of a token in it.


class Neighbor(NamedTuple):
    """Token of a corpus, with its sentence and its similarity to the query token.

    similarity (float): Cosine of both vectors.
    position (int): Position of the token in the sentence, from 0.
    """

    similarity: float
    sentence: tuple[str, ...]
    position: int

    @property
    def word(self) -> str:
        """The token."""
        return self.sentence[self.position]


def find_neighbors(
    nlp: Language,
    sentence: Sequence[str],
    position: int,
    corpus: Iterable[Doc],
    *,
    layer: str = "top",
    n: int = 10,
    same_word: Optional[bool] = None,
) -> list[Neighbor]:
    """Find the tokens of a corpus that are nearest to a token of a sentence, by cosine.

    If the corpus contains the sentence itself, the token is not its own neighbor. If the corpus
    repeats a sentence, the result contains each of its tokens only once. In layer 0, all
    occurrences of a word have the same vector, so the result contains each word only once: the
    words with the most similar spelling.

    nlp (Language): A pipeline. The settings of its pipe `elmo` are used.
    corpus (Iterable[Doc]): It is not kept in memory.
    layer (str): Number of a layer, "top", or "average" for the mean of all layers.
    n (int): Maximum number of neighbors.
    same_word (Optional[bool]): True: only occurrences of the same word (ignoring case). False:
        only other words. None: both.
    RETURNS (List[Neighbor]): The nearest first. Neighbors with equal similarity have the order of
        the corpus.
    RAISES (ValueError): The layer does not exist, the corpus has no such tokens, or n is below 1.
    """
    if n < 1:
        raise ValueError(f"the number of neighbors must be at least 1, got {n}")
    pipe = elmo_pipe(nlp)
    known = [*map(str, range(pipe.bilm.config.n_layers + 1)), "top", "average"]
    if layer not in known:
        raise ValueError(f"there is no layer '{layer}'. This model has {', '.join(known)}")
    asked = make_sentence(nlp.vocab, sentence)
    wanted = unit_vectors(mix_layers(pipe.predict([asked])[0], layer), "float32")[position]
    word = sentence[position].lower()
    itself = tuple(sentence), position
    key = _word if layer == "0" else _place
    nearest: list[Neighbor] = []
    n_tokens = 0
    for doc, layers in with_layers(pipe, corpus):
        n_tokens += len(doc)
        similarities = unit_vectors(mix_layers(layers, layer), "float32") @ wanted
        if same_word is not None:
            is_same = np.array([token.text.lower() == word for token in doc], dtype=bool)
            similarities[is_same != same_word] = -np.inf
        nearest = _best(nearest, doc, similarities, n, itself, key)
    if not n_tokens:
        raise ValueError("the corpus contains no tokens")
    if not nearest:
        kind = "word than" if same_word is False else "occurrence of"
        raise ValueError(f"the corpus contains no other {kind} '{sentence[position]}'")
    return nearest


def _best(
    known: list[Neighbor],
    doc: Doc,
    similarities: np.ndarray,
    n: int,
    itself: Place,
    key: Callable[[Neighbor], object],
) -> list[Neighbor]:
    """Return the n nearest among known neighbors and a Doc's tokens, without the query token.

    `itself` is the place of the query token. The first of all neighbors with a `key` counts.
    """
    minimum = known[-1].similarity if len(known) == n else -np.inf
    found = {key(neighbor): neighbor for neighbor in known}
    for i in np.argsort(-similarities, kind="stable").tolist():
        # The rest is less similar. At most n neighbors were known, so 2 n contain n of this Doc.
        if similarities[i] <= minimum or len(found) == 2 * n:
            break
        sentence = doc[i].sent if doc.has_annotation("SENT_START") else doc[:]
        words = tuple(token.text for token in sentence)
        neighbor = Neighbor(float(similarities[i]), words, i - sentence.start)
        if _place(neighbor) != itself:
            found.setdefault(key(neighbor), neighbor)
    return sorted(found.values(), key=lambda neighbor: -neighbor.similarity)[:n]


def _place(neighbor: Neighbor) -> Place:
    return neighbor.sentence, neighbor.position


def _word(neighbor: Neighbor) -> str:
    return neighbor.word


def find_token(tokens: Sequence[str], wanted: str) -> int:
    """Find a token of a sentence, and return its position.

    wanted (str): A position from 0, or a word that occurs once.
    RAISES (ValueError): There is no such token, or there are several.
    """
    if not tokens:
        raise ValueError("the sentence has no tokens")
    places = [i for i, token in enumerate(tokens) if token == wanted]
    positions = " or ".join(map(str, places))
    if wanted.isascii() and wanted.isdigit():
        if int(wanted) < len(tokens):
            return int(wanted)
        meant = f". The word '{wanted}' is token {positions}" if places else ""
        raise ValueError(
            f"there is no token {wanted}. The sentence has the tokens 0 to {len(tokens) - 1}{meant}"
        )
    if len(places) == 1:
        return places[0]
    if places:
        raise ValueError(
            f"'{wanted}' occurs {len(places)} times in the sentence. Give the position: {positions}"
        )
    numbered = ", ".join(f"{i} '{token}'" for i, token in enumerate(tokens))
    raise ValueError(f"no token of the sentence is '{wanted}'. The tokens are {numbered}")
