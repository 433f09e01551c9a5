"""Cache of token vectors with a maximum size."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np


class TokenVectorCache:
    """Cache of the token encoder's vectors for the most recently used strings.

    A cache belongs to one model, whose weights do not change. Threads may share a cache.

    capacity (int): Maximum number of strings. 0 turns the cache off.
    """

    def __init__(self, capacity: int):
        if capacity < 0:
            raise ValueError(f"cache must be 0 or more, got {capacity}. Give a number of strings.")
        self.capacity = capacity
        self._vectors: OrderedDict[str, np.ndarray] = OrderedDict()

    def __len__(self) -> int:
        return len(self._vectors)

    def clear(self) -> None:
        """Remove all vectors."""
        self._vectors = OrderedDict()

    def lookup(
        self, tokens: Sequence[str], compute: Callable[[list[str]], np.ndarray]
    ) -> np.ndarray:
        """Return the vectors of tokens. Vectors that are not in the cache are computed and added.

        tokens (Sequence[str]): Token strings, at least one, each only once.
        compute (Callable[[List[str]], numpy.ndarray]): Function that returns the vectors of the
            missing tokens, shape `(n, P)`. It is called at most once.
        RETURNS (numpy.ndarray): Shape `(n_tokens, P)`.
        """
        kept = self._vectors
        # Use only atomic operations on the dict, because another thread may use it at the same
        # time.
        popped = {token: kept.pop(token, None) for token in tokens}
        found = {token: vector for token, vector in popped.items() if vector is not None}
        missing = [token for token in tokens if token not in found]
        if missing:
            found.update(zip(missing, compute(missing)))
        for token in tokens[-self.capacity :] if self.capacity else ():
            kept[token] = found[token].copy() if found[token].base is not None else found[token]
        while len(kept) > self.capacity:
            with suppress(KeyError):
                kept.popitem(last=False)
        # `np.concatenate` is several times as fast as `np.stack` here.
        return np.concatenate([found[token] for token in tokens]).reshape(len(tokens), -1)
