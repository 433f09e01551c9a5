"""The language model over groups of entries."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Optional

import numpy as np

from ..embedding.batches import by_tokens
from ..embedding.embed import embed_words, insert_marks
from ..frozen.cache import TokenVectorCache
from ..frozen.model import FrozenBiLM
from ..pipeline.elmo import Elmo
from .entries import Embedded, Entry
from .layers import Choose

DTYPES = "float32", "float16", "int8"
PLACE = "start", "end", "label"  # of what is kept


class GroupEmbedder:
    """Computes vectors that depend on the groups so far alone, bit for bit, whether those
    were embedded or left out. A token's vector differs in its last bits with the tokens
    that are encoded beside it: so the new tokens of every group are encoded together, and
    in order, also of groups whose vectors are there already.

    pipe (Elmo): The language model and its settings.
    choose (Callable): Makes the wanted vectors of layers.
    dtype (str): Of the vectors.
    sentence_marks (bool): Whether the marks around a sentence get vectors, too.
    """

    def __init__(self, pipe: Elmo, choose: Choose, dtype: str, sentence_marks: bool = False):
        self.bilm = pipe.bilm
        if isinstance(self.bilm, FrozenBiLM):
            # A cache of its own: what others have embedded changes the last bits.
            capacity = self.bilm.cache.capacity
            self.bilm = self.bilm.replace()
            self.bilm.cache = TokenVectorCache(capacity)
        self.settings = pipe.settings
        self.choose = choose
        self.dtype = dtype
        self.sentence_marks = sentence_marks
        self.bilm.embed([[]], "warm" if self.settings.initial_state == "warm" else None)
        self._known = getattr(self.bilm, "cache", None)

    def embed_all(self, entries: Iterable[Entry], max_tokens: int) -> Iterator[Embedded]:
        """Embed entries, group by group.

        entries (Iterable[Entry]): The entries.
        max_tokens (int): Most tokens of a group.
        YIELDS (Embedded): An entry.
        """
        for group in by_tokens(entries, max_tokens, max_tokens):
            self.encode(group)
            yield from self.embed(group)

    def encode(self, group: Sequence[Entry]) -> None:
        """Take the next group: `embed` it, or leave it out.

        group (Sequence[Entry]): The group.
        """
        if not isinstance(self.bilm, FrozenBiLM) or self._known is None:
            return
        words = (word for entry in group for word in entry.words)
        tokens = list(dict.fromkeys([*self.bilm.indexer.marks, *words]))
        self.bilm.cache = self._known
        vectors = self.bilm.token_vectors(tokens)
        # The batches of the group must not change what is known, and when it is forgotten.
        self.bilm.cache = TokenVectorCache(len(tokens))
        self.bilm.cache.lookup(tokens, lambda _: vectors)

    def embed(self, group: Sequence[Entry]) -> Iterator[Embedded]:
        """Embed a group.

        group (Sequence[Entry]): The group.
        YIELDS (Embedded): An entry.
        RAISES (ValueError): A number is too large for the type.
        """
        layers = embed_words(
            self.bilm,
            [entry.words for entry in group],
            [entry.segments for entry in group],
            self.settings,
            keep_marks=self.sentence_marks,
        )
        marks = self.bilm.indexer.marks if self.sentence_marks else None
        for entry, values in zip(group, layers):
            vectors = self.choose(np.asarray(values))
            yield make_embedded(entry, vectors, self.dtype, marks)


def make_embedded(
    entry: Entry, vectors: np.ndarray, dtype: str, marks: Optional[Sequence[str]] = None
) -> Embedded:
    """Keep what is wanted of an entry's vectors, in the wanted type.

    entry (Entry): The entry.
    vectors (numpy.ndarray): *Shape:* `(n_tokens, width)`, or `(L + 1, n_tokens, width)`
    dtype (str): One of `DTYPES`.
    marks (Optional[Sequence[str]]): The sentence marks, if they have vectors.
    RETURNS (Embedded): It; of int8 with scales, by which each vector is to be multiplied.
    RAISES (ValueError): A number is too large for the type.
    """
    words, beside = entry.words, {}
    if marks is not None:
        words = insert_marks(words, entry.segments, marks)
    if entry.kept is not None:
        means = [vectors[..., kept.tokens, :].mean(axis=-2) for kept in entry.kept]
        vectors = np.stack(means, axis=-2) if means else vectors[..., :0, :]
        words = [kept.text for kept in entry.kept]
        beside = {f"{name}s": [getattr(kept, name) for kept in entry.kept] for name in PLACE}
    if dtype == "int8":
        vectors, scales = _to_int8(vectors)
        by_layer = [("", scales)] if scales.ndim == 1 else zip(map("_{}".format, count()), scales)
        beside |= {f"scales{layer}": values.tolist() for layer, values in by_layer}
    return Embedded(entry.text, words, _cast(vectors, dtype), entry.doc, beside)


def _to_int8(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Divide each vector by a scale of its own, so that its largest number is 127."""
    scales = np.abs(vectors).max(axis=-1) / np.float32(127)
    scales[scales == 0] = 1
    return np.rint(vectors / scales[..., None]), scales


def _cast(vectors: np.ndarray, dtype: str) -> np.ndarray:
    with np.errstate(over="ignore"):
        cast = vectors.astype(dtype, copy=False)
    if dtype == "float16" and np.isinf(cast).any():
        raise ValueError(
            f"the vectors hold numbers up to {np.abs(vectors).max():g}, too large for "
            f"{dtype}: use float32"
        )
    return cast
