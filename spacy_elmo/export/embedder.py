"""The language model over groups of entries."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from ..embedding.embed import embed_words
from ..pipeline.elmo import Elmo
from .entries import Embedded, Entry
from .layers import Choose

DTYPES = "float32", "float16"


class Embedder:
    """Computes vectors that depend on the group and on the first group alone, bit for
    bit, whichever groups came between: what is kept of tokens is what the first group
    left, for a vector's last bits differ with what else is in the batch.

    pipe (Elmo): The language model and its settings.
    choose (Callable): Makes the wanted vectors of layers.
    dtype (str): Of the vectors.
    """

    def __init__(self, pipe: Elmo, choose: Choose, dtype: str):
        self.bilm = pipe.bilm
        self.settings = pipe.settings
        self.choose = choose
        self.dtype = dtype

    @torch.no_grad()
    def begin_with(self, group: Sequence[Entry]) -> None:
        """Prepare for the first group, and so for all.

        group (Sequence[Entry]): The group.
        """
        self.bilm.eval()
        self.bilm.cache.clear()
        self.bilm.embed([[]], "warm" if self.settings.initial_state == "warm" else None)
        self.bilm.token_vectors(list({word: None for entry in group for word in entry.words}))
        self._kept = self.bilm.cache

    @torch.no_grad()
    def embed(self, group: Sequence[Entry]) -> Iterator[Embedded]:
        """Embed a group.

        group (Sequence[Entry]): The group.
        YIELDS (Embedded): An entry.
        RAISES (ValueError): A number is too large for the type.
        """
        self.bilm.cache = self._kept.copy()
        layers = embed_words(
            self.bilm,
            [entry.words for entry in group],
            [entry.segments for entry in group],
            self.settings,
        )
        for entry, values in zip(group, layers):
            vectors = self._cast(self.choose(values.cpu().numpy()))
            yield Embedded(entry.text, entry.words, vectors, entry.doc)

    def _cast(self, vectors: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            cast = vectors.astype(self.dtype, copy=False)
        if self.dtype != "float32" and np.isinf(cast).any():
            raise ValueError(
                f"the vectors hold numbers up to {np.abs(vectors).max():g}, too large for "
                f"{self.dtype}: use float32"
            )
        return cast
