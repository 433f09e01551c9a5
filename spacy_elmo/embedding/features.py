"""Cache of a frozen language model's layers in training.

If the weights are frozen, a text has the same layers in every epoch. So the language model computes
them once, and later epochs read them from the cache.

The cache stores the layers of the training examples and of the Docs that are scored, because only
these texts come again. An entry is a sequence (a Doc if the LSTM state is carried). So a sequence
that occurs in many Docs, such as the context of several questions, is computed and stored once.

Invariant: the key of an entry is a hash of everything on which the layers depend: the tokens, the
range of kept tokens, the initial state, the precision and the weights. So an entry is never
outdated. A text that an augmenter has changed has another key.
"""

import hashlib
import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Optional, Protocol, runtime_checkable

import numpy as np
from spacy.attrs import ORTH
from spacy.tokens import Doc
from thinc.types import Floats3d

from ..registry import registry
from .segmenters import Segment

MB = 1024 * 1024
DTYPES = ("float32", "float16")
FORMAT = 2  # Version of the keys. Increase it if the content of the hash changes.

logger = logging.getLogger("spacy")


@runtime_checkable  # confection checks the type at runtime.
class FeatureCache(Protocol):
    """Interface of a cache of layers."""

    def use_model(self, model: str) -> None:
        """Set the model whose layers are cached, before `get` and `add` are called.

        model (str): Result of `BiLMShim.features_model`.
        """

    def get(self, keys: Sequence[bytes], shapes: Sequence[tuple]) -> list[Optional[Floats3d]]:
        """Return the layers of each key; None for a key that the cache does not contain.

        keys (Sequence[bytes]): Keys of pieces (`Piece.key`).
        shapes (Sequence[Tuple[int, int, int]]): The shape of each key's layers,
            `(L + 1, n_tokens, 2P)`. A cache in a file needs it to read them.
        """

    def add(self, keys: Sequence[bytes], layers: Sequence[Floats3d]) -> None:
        """Store layers under their keys, until the cache is full."""

    def config(self) -> dict[str, Any]:
        """Return the config block that makes this cache."""


class MemoryFeatures:
    """Cache of a frozen language model's layers in the memory of this process.

    It contains the layers of only one model. A copy of the cache is empty.

    size (float): Maximum size in MB. When the cache is full, it keeps its entries, and the layers
        of other sequences are computed in every epoch.
    dtype (str): "float32", or "float16" for half the memory.
    RAISES (ValueError): A setting is invalid.
    """

    def __init__(self, size: float = 1024.0, dtype: str = "float32"):
        self.size, self.dtype = size, check_cache_settings(size, dtype)
        self._model = ""
        self.clear()

    def clear(self) -> None:
        """Delete all entries."""
        self._kept: dict[bytes, np.ndarray] = {}
        self.n_bytes = 0
        self._is_full = False

    def __len__(self) -> int:
        return len(self._kept)

    def use_model(self, model: str) -> None:
        """Set the model whose layers are cached. If the model changes, delete all entries."""
        if model != self._model:
            self.clear()
            self._model = model

    def get(self, keys: Sequence[bytes], shapes: Sequence[tuple]) -> list[Optional[Floats3d]]:
        """Return the layers of each key; None for a key that the cache does not contain."""
        found = (self._kept.get(key) for key in keys)
        return [None if kept is None else kept.astype("float32") for kept in found]

    def add(self, keys: Sequence[bytes], layers: Sequence[Floats3d]) -> None:
        """Store layers under their keys, until the cache is full."""
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
    """Part of a Doc whose layers do not depend on the rest of the Doc: one entry of the cache.

    key (bytes): Key of the piece in the cache, 32 bytes.
    tokens (slice): The tokens of the Doc that the language model reads.
    segments (List[Segment]): The segments of the piece. Their positions count from the first token
        of the piece.
    """

    key: bytes
    tokens: slice
    segments: list[Segment]

    @property
    def kept(self) -> slice:
        """Tokens whose layers are kept, as a slice of the piece."""
        return slice(self.segments[0].keep_start, self.segments[-1].keep_end)

    @property
    def place(self) -> slice:
        """Tokens whose layers are kept, as a slice of the Doc."""
        start = self.tokens.start
        return slice(start + self.kept.start, start + self.kept.stop)


def cut_doc(doc: Doc, segments: Sequence[Segment], model: str, *, carry: bool) -> list[Piece]:
    """Cut a Doc into pieces whose layers do not depend on each other.

    model (str): Result of `BiLMShim.features_model`.
    carry (bool): Whether a segment starts from the final state of the previous segment. If so, the
        Doc is one piece.
    RETURNS (List[Piece]): In order. Exactly one piece keeps each token.
    """
    # The hash of a text is the same in all processes, and `<u8` makes its bytes the same on all
    # machines.
    tokens = doc.to_array(ORTH).astype("<u8")  # ORTH is a hash of the token's text.
    groups = [segments] if carry and segments else [[segment] for segment in segments]
    pieces = []
    for group in groups:
        read = slice(group[0].start, group[-1].end)
        own = [Segment(*(token - read.start for token in segment)) for segment in group]
        pieces.append(Piece(_key(tokens[read], own, model), read, own))
    return pieces


def _key(tokens: np.ndarray, segments: Sequence[Segment], model: str) -> bytes:
    # The number of tokens shows where the tokens end and the segments begin. Otherwise two
    # different inputs could have the same bytes.
    digest = hashlib.blake2b(f"{FORMAT} {model} {len(tokens)} ".encode(), digest_size=32)
    digest.update(tokens.tobytes())
    digest.update(np.asarray(segments, dtype="<i8").tobytes())
    return digest.digest()


def check_cache_settings(size: float, dtype: str) -> str:
    """Check the size and the dtype of a cache. Return the dtype.

    RAISES (ValueError): The size or the dtype is invalid.
    """
    if size <= 0:
        raise ValueError(
            f"features: size must be above 0 MB, got {size}. For no cache, set features = null."
        )
    if dtype not in DTYPES:
        raise ValueError(f"features: dtype must be 'float32' or 'float16', got {dtype!r}")
    return dtype


def warn_full(what: str, n_kept: Optional[int] = None) -> None:
    """Warn that the cache is full.

    what (str): The space that is full, such as "1024 MB of memory".
    n_kept (Optional[int]): Number of sequences in the cache, if known.
    """
    kept = "" if n_kept is None else f", {n_kept} sequences"
    logger.warning(
        "%s are full of ELMo layers%s. Other layers are computed in every epoch. To avoid this, "
        "raise `size` of the elmo pipe's `features`, or use dtype = 'float16' or a file on disk.",
        *(what, kept),
    )


def kept_layers(
    shim: Any,
    cache: FeatureCache,
    docs: Sequence[Doc],
    segments: Sequence[Sequence[Segment]],
    compute: Callable[[list[tuple[Doc, Piece]]], list[Floats3d]],
    *,
    is_train: bool,
) -> list[Floats3d]:
    """Return the layers of Docs from the cache. Compute the layers that it does not contain.

    compute (Callable[[List[Tuple[Doc, Piece]]], List[Floats3d]]): Returns the layers of each
        piece's kept tokens. It is called at most once, with the pieces that are not in the cache.
    is_train (bool): Whether to add computed layers to the cache now. If False, `BiLMShim.keep` can
        add them later.
    RETURNS (List[Floats3d]): *Shape:* `(L + 1, n_tokens, 2P)` each.
    """
    config, model = shim.bilm.config, shim.features_model()
    cache.use_model(model)
    carry = shim.settings.initial_state == "carry"
    pieces = [cut_doc(doc, cut, model, carry=carry) for doc, cut in zip(docs, segments)]
    each = [(doc, one) for doc, cut in zip(docs, pieces) for one in cut]
    n_layers, width = config.n_layers + 1, config.width
    shapes = {one.key: (n_layers, one.kept.stop - one.kept.start, width) for _, one in each}
    found = zip(shapes, cache.get(list(shapes), list(shapes.values())))
    known = {key: layers for key, layers in found if layers is not None}
    # Pieces with the same key have the same layers, so compute only one of them.
    missing = {one.key: (doc, one) for doc, one in each if one.key not in known}
    if missing:
        computed = dict(zip(missing, compute(list(missing.values()))))
        known |= computed
        if is_train:
            cache.add(list(computed), list(computed.values()))
    # Remember the pieces that `BiLMShim.keep` may add. This replaces those of an earlier call.
    for doc, cut in zip(docs, pieces):
        shim.waiting[doc] = [] if is_train else [one for one in cut if one.key in missing]
    # `concatenate` copies, so that no two Docs share memory.
    nothing = np.zeros((n_layers, 0, width), dtype="float32")
    return [np.concatenate([nothing, *(known[one.key] for one in cut)], axis=1) for cut in pieces]
