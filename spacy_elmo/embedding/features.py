"""Frozen features: layers of Docs that are computed once in training and kept.

Only layers that will be needed again are kept: those of examples that are trained on, and of Docs
that are scored.

Layers are kept by sequence, so that a text that occurs in many Docs is computed once. The context
of several questions is such a text. The key covers everything that layers depend on: tokens, kept
range, initial state, precision and weights. A text that an augmenter changed has another key.
"""

import hashlib
import logging
from collections.abc import Sequence
from typing import Any, NamedTuple, Optional, Protocol, runtime_checkable

import numpy as np
from spacy.attrs import ORTH
from spacy.tokens import Doc
from thinc.types import Floats3d

from ..registry import registry
from .segmenters import Segment

MB = 1024 * 1024
DTYPES = ("float32", "float16")
FORMAT = 2  # version of the keys

logger = logging.getLogger("spacy")


@runtime_checkable  # confection checks the type
class FeatureCache(Protocol):
    """Interface of a cache that keeps layers by key."""

    def use_model(self, model: str) -> None:
        """Select the model whose layers follow. Called before every use."""

    def get(self, keys: Sequence[bytes], shapes: Sequence[tuple]) -> list[Optional[Floats3d]]:
        """Return the layers of each key, with the given shapes; None for missing ones."""

    def add(self, keys: Sequence[bytes], layers: Sequence[Floats3d]) -> None:
        """Keep layers, as long as there is room."""

    def config(self) -> dict[str, Any]:
        """Return the config block that makes this cache."""


class MemoryFeatures:
    """Cache of a frozen language model's layers, in the memory of this process.

    It contains the layers of one model. A copy of it is empty.

    size (float): Most MB to keep. When it is full, kept layers stay, and layers of further
        sequences are computed each time.
    dtype (str): "float32", or "float16" for half the memory.
    RAISES (ValueError): A setting is invalid.
    """

    def __init__(self, size: float = 1024.0, dtype: str = "float32"):
        self.size, self.dtype = size, check_settings(size, dtype)
        self._model = ""
        self.clear()

    def clear(self) -> None:
        """Delete everything."""
        self._kept: dict[bytes, np.ndarray] = {}
        self.n_bytes = 0
        self._is_full = False

    def __len__(self) -> int:
        return len(self._kept)

    def use_model(self, model: str) -> None:
        """Select the model; layers of another model are deleted."""
        if model != self._model:
            self.clear()
            self._model = model

    def get(self, keys: Sequence[bytes], shapes: Sequence[tuple]) -> list[Optional[Floats3d]]:
        """Return the layers of each key; None for missing ones."""
        found = (self._kept.get(key) for key in keys)
        return [None if kept is None else kept.astype("float32") for kept in found]

    def add(self, keys: Sequence[bytes], layers: Sequence[Floats3d]) -> None:
        """Keep layers, as long as there is room."""
        for key, values in zip(keys, layers):
            if key in self._kept:
                continue
            packed = np.array(values, dtype=self.dtype)
            if self.n_bytes + packed.nbytes > self.size * MB:
                if not self._is_full:
                    warn_full(f"{self.size:g} MB of memory", len(self))
                self._is_full = True
            else:
                self._kept[key] = packed
                self.n_bytes += packed.nbytes

    def config(self) -> dict[str, Any]:
        """Return the config block that makes this cache."""
        name = "spacy-elmo.memory.v1"
        return {"@feature_caches": name, "size": self.size, "dtype": self.dtype}

    def __reduce__(self) -> tuple:
        return type(self), (self.size, self.dtype)


make_memory = registry.feature_caches("spacy-elmo.memory.v1")(MemoryFeatures)


class Piece(NamedTuple):
    """Part of a Doc whose layers do not depend on the rest.

    key (bytes): Key of its layers in the cache, 32 bytes.
    tokens (slice): The tokens that the language model reads.
    segments (List[Segment]): Their segments, counted from the first of these tokens.
    """

    key: bytes
    tokens: slice
    segments: list[Segment]

    @property
    def kept(self) -> slice:
        """Slice of the tokens whose layers are kept, counted from the piece's first token."""
        return slice(self.segments[0].keep_start, self.segments[-1].keep_end)

    @property
    def place(self) -> slice:
        """Slice of the tokens whose layers are kept, counted from the Doc's first token."""
        start = self.tokens.start
        return slice(start + self.kept.start, start + self.kept.stop)


def cut_doc(doc: Doc, segments: Sequence[Segment], model: str, *, carry: bool) -> list[Piece]:
    """Cut a Doc into pieces that do not depend on each other.

    doc (Doc): The Doc.
    segments (Sequence[Segment]): Its segments.
    model (str): What else its layers depend on.
    carry (bool): Whether a segment starts from the final state of the one before it. The Doc
        is then one piece.
    RETURNS (List[Piece]): The pieces, in order. Each token is kept by exactly one.
    """
    tokens = doc.to_array(ORTH).astype("<u8")  # a hash of each token's text
    groups = [segments] if carry and segments else [[segment] for segment in segments]
    pieces = []
    for group in groups:
        read = slice(group[0].start, group[-1].end)
        own = [Segment(*(token - read.start for token in segment)) for segment in group]
        pieces.append(Piece(_key(tokens[read], own, model), read, own))
    return pieces


def _key(tokens: np.ndarray, segments: Sequence[Segment], model: str) -> bytes:
    digest = hashlib.blake2b(f"{FORMAT} {model} {len(tokens)} ".encode(), digest_size=32)
    digest.update(tokens.tobytes())
    digest.update(np.asarray(segments, dtype="<i8").tobytes())
    return digest.digest()


def check_settings(size: float, dtype: str) -> str:
    """Check size and dtype of a cache.

    RETURNS (str): The dtype.
    RAISES (ValueError): Size or dtype is invalid.
    """
    if size <= 0:
        raise ValueError(
            f"features: size must be above 0 MB, got {size}. To keep none, set features = null."
        )
    if dtype not in DTYPES:
        raise ValueError(f"features: dtype must be 'float32' or 'float16', got {dtype!r}")
    return dtype


def warn_full(what: str, n_kept: Optional[int] = None) -> None:
    """Warn that the cache is full."""
    kept = "" if n_kept is None else f", {n_kept} sequences"
    logger.warning(
        "%s are full of ELMo layers%s: further ones are computed in every epoch. To keep more, "
        "raise `size` of the elmo pipe's `features`, or use dtype = 'float16' or a file on disk.",
        *(what, kept),
    )
