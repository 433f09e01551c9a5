"""Frozen features: the layers of Docs, computed once in training and kept. Those are kept
of which the same will come again: examples that are trained on, and Docs that are scored.

The key of a Doc is all that its layers depend on: tokens, segments, initial state,
precision and weights. A Doc that was changed, by an augmenter for example, is another."""

import hashlib
import logging
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any, Optional, Protocol, runtime_checkable

import numpy as np
from spacy.attrs import ORTH
from spacy.tokens import Doc
from thinc.types import Floats3d

from ..registry import registry
from .segmenters import Segment

Layers = list[Floats3d]

MB = 1024 * 1024
DTYPES = ("float32", "float16")
FORMAT = 2  # of the keys

logger = logging.getLogger("spacy")


@runtime_checkable  # confection checks the type
class FeatureCache(Protocol):
    """What keeps layers by key."""

    def use_model(self, model: str) -> None:
        """Told before every use: of which model the layers are."""

    def get(self, keys: Sequence[bytes], shapes: Sequence[tuple]) -> list[Optional[Floats3d]]:
        """The layers of each key, of the shapes that they must have; None where
        there are none."""

    def add(self, keys: Sequence[bytes], layers: Sequence[Floats3d]) -> None:
        """Keep layers, as long as there is room."""

    def config(self) -> dict[str, Any]:
        """The config block that makes this cache."""


class MemoryFeatures:
    """Keeps the layers of Docs while a frozen language model is listened to, those of one
    model, in memory, for this process alone. Copies of it are empty.

    size (float): Most MB to keep. When they are full, what is kept stays, and
        further Docs are computed anew each time.
    dtype (str): "float32", or "float16" for half the memory.
    RAISES (ValueError): A setting is impossible.
    """

    def __init__(self, size: float = 1024.0, dtype: str = "float32"):
        self.size, self.dtype = size, check_settings(size, dtype)
        self._model = ""
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._kept: dict[bytes, np.ndarray] = {}
        self.n_bytes = 0
        self._is_full = False

    def __len__(self) -> int:
        return len(self._kept)

    def use_model(self, model: str) -> None:
        if model != self._model:
            self.clear()
            self._model = model

    def get(self, keys: Sequence[bytes], shapes: Sequence[tuple]) -> list[Optional[Floats3d]]:
        found = (self._kept.get(key) for key in keys)
        return [None if kept is None else kept.astype("float32") for kept in found]

    def add(self, keys: Sequence[bytes], layers: Sequence[Floats3d]) -> None:
        for key, values in zip(keys, layers):
            packed = np.array(values, dtype=self.dtype)
            if self.n_bytes + packed.nbytes > self.size * MB:
                if not self._is_full:
                    warn_full(f"{self.size:g} MB of memory", len(self))
                self._is_full = True
            elif key not in self._kept:
                self._kept[key] = packed
                self.n_bytes += packed.nbytes

    def config(self) -> dict[str, Any]:
        """RETURNS (dict): The config block that makes this cache."""
        name = "spacy-elmo.memory.v1"
        return {"@feature_caches": name, "size": self.size, "dtype": self.dtype}

    def __reduce__(self) -> tuple:
        return type(self), (self.size, self.dtype)


make_memory = registry.feature_caches("spacy-elmo.memory.v1")(MemoryFeatures)


def features_of(
    cache: FeatureCache,
    docs: Sequence[Doc],
    segments: Sequence[Sequence[Segment]],
    *,
    model: Callable[[bool], str],
    sizes: tuple[int, int],
    compute: Callable[[list[int]], Layers],
    waiting: Optional[MutableMapping[Doc, bytes]] = None,
) -> Layers:
    """Get the layers of Docs, computing those that are not kept.

    cache (FeatureCache): Where they are kept.
    docs (Sequence[Doc]): The Docs.
    segments (Sequence[Sequence[Segment]]): How each is cut.
    model (Callable[[bool], str]): What else the layers depend on: weights, precision,
        initial state. Before layers are kept it is asked again, with True, to look for
        changes of the weights that leave no trace.
    sizes (Tuple[int, int]): Layers of the model, and their width.
    compute (Callable[[List[int]], List[Floats3d]]): Called at most once, with the
        indices of the Docs that are not kept.
    waiting (Optional[MutableMapping[Doc, bytes]]): Gets the Docs whose layers were
        computed, and their keys; without it these layers are kept at once.
    RETURNS (List[Floats3d]): *Shape:* `(L + 1, n_tokens, 2P)` each.
    """
    shapes = [(sizes[0], len(doc), sizes[1]) for doc in docs]

    def find(named: str) -> tuple[list[bytes], list[Optional[Floats3d]]]:
        cache.use_model(named)
        keys = [doc_key(doc, cut, named) for doc, cut in zip(docs, segments)]
        return keys, cache.get(keys, shapes)

    seen = model(False)
    keys, known = find(seen)
    missing = [i for i, layers in enumerate(known) if layers is None]
    if missing and waiting is None and (found := model(True)) != seen:
        keys, known = find(found)
        missing = [i for i, layers in enumerate(known) if layers is None]
    if missing:
        computed = compute(missing)
        if waiting is None:
            cache.add([keys[i] for i in missing], computed)
        else:
            waiting.update((docs[i], keys[i]) for i in missing)
        for i, layers in zip(missing, computed):
            known[i] = layers
    return [layers for layers in known if layers is not None]


def doc_key(doc: Doc, segments: Sequence[Segment], model: str) -> bytes:
    """RETURNS (bytes): What the layers of a Doc are kept under, 32 bytes."""
    digest = hashlib.blake2b(f"{FORMAT} {model} {len(doc)} ".encode(), digest_size=32)
    digest.update(doc.to_array(ORTH).astype("<u8").tobytes())  # a hash of each token's text
    cut = [(s.start, s.end, s.keep_start, s.keep_end) for s in segments]
    digest.update(np.asarray(cut, dtype="<i8").tobytes())
    return digest.digest()


def check_settings(size: float, dtype: str) -> str:
    """RETURNS (str): The dtype.
    RAISES (ValueError): Size or dtype is impossible."""
    if size <= 0:
        raise ValueError(f"features: size must be above 0 MB, got {size} (features = null: none)")
    if dtype not in DTYPES:
        raise ValueError(f"features: dtype must be 'float32' or 'float16', got {dtype!r}")
    return dtype


def warn_full(what: str, n_docs: Optional[int] = None) -> None:
    """Say what it means that there is no more room."""
    docs = "" if n_docs is None else f", {n_docs} Docs"
    logger.warning(
        "%s are full of ELMo layers%s: further Docs are computed in every epoch. A larger "
        "`size` of the elmo pipe's `features`, dtype = 'float16' or a file on disk keep more.",
        *(what, docs),
    )
