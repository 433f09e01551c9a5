"""A bounded memory of token vectors by string."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np


class TokenVectorCache:
    """Keeps the token vectors (the character CNN's output) of the strings seen
    last. It is the caller's duty to `clear` it when the weights change.

    capacity (int): Most strings to keep; 0 keeps none.
    """

    def __init__(self, capacity: int):
        if capacity < 0:
            raise ValueError(f"cache must be 0 or more token strings, got {capacity}")
        self.capacity = capacity
        self._vectors: OrderedDict[str, np.ndarray] = OrderedDict()

    def __len__(self) -> int:
        return len(self._vectors)

    def clear(self) -> None:
        """Forget everything."""
        self._vectors = OrderedDict()

    def lookup(
        self, tokens: Sequence[str], compute: Callable[[list[str]], np.ndarray]
    ) -> np.ndarray:
        """Get the vectors of some tokens, computing those that are not known.

        tokens (Sequence[str]): Different token strings, at least one.
        compute (Callable[[List[str]], numpy.ndarray]): Called at most once, with
            the unknown tokens; returns their vectors, shape `(n, P)`.
        RETURNS (numpy.ndarray): Shape `(n_tokens, P)`.
        """
        kept = self._vectors
        # Single operations on the dict alone: another thread may be here, too.
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
        # Several times as fast as `np.stack`.
        return np.concatenate([found[token] for token in tokens]).reshape(len(tokens), -1)
