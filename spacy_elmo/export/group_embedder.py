"""The language model over groups of entries."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from ..bilm.cache import TokenVectorCache
from ..embedding.embed import embed_words, insert_marks
from ..pipeline.elmo import Elmo
from .entries import Embedded, Entry
from .layers import Choose

DTYPES = "float32", "float16"


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

    @torch.no_grad()
    def __init__(self, pipe: Elmo, choose: Choose, dtype: str, sentence_marks: bool = False):
        self.bilm = pipe.bilm.eval()
        self.settings = pipe.settings
        self.choose = choose
        self.dtype = dtype
        self.sentence_marks = sentence_marks
        self.bilm.cache.clear()
        self.bilm.embed([[]], "warm" if self.settings.initial_state == "warm" else None)
        self._known = self.bilm.cache

    @torch.no_grad()
    def encode(self, group: Sequence[Entry]) -> None:
        """Take the next group: `embed` it, or leave it out.

        group (Sequence[Entry]): The group.
        """
        words = (word for entry in group for word in entry.words)
        tokens = list(dict.fromkeys([*self.bilm.indexer.marks, *words]))
        self.bilm.cache = self._known
        vectors = self.bilm.token_vectors(tokens).cpu().numpy()
        # The batches of the group must not change what is known, and when it is forgotten.
        self.bilm.cache = TokenVectorCache(len(tokens))
        self.bilm.cache.lookup(tokens, lambda _: vectors)

    @torch.no_grad()
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
        marks = self.bilm.indexer.marks
        for entry, values in zip(group, layers):
            vectors = self._cast(self.choose(values.cpu().numpy()))
            words = entry.words
            if self.sentence_marks:
                words = insert_marks(words, entry.segments, marks)
            yield Embedded(entry.text, words, vectors, entry.doc)

    def _cast(self, vectors: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            cast = vectors.astype(self.dtype, copy=False)
        if self.dtype != "float32" and np.isinf(cast).any():
            raise ValueError(
                f"the vectors hold numbers up to {np.abs(vectors).max():g}, too large for "
                f"{self.dtype}: use float32"
            )
        return cast
