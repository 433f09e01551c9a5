"""Token encoder of frozen weights, and cache of its vectors.

A text has few different characters, but many positions. So each character is multiplied with each
tap (column of weights) of each filter once, which gives a table. The value of a filter at a
position is then a sum of rows from these tables.

For a small vocabulary of characters, the tables are computed once. For a large vocabulary of code
points, each call computes tables of only those characters that occur. The kernel computes them:
BLAS adds in an order that depends on the number of characters and of threads, so the vector of a
token would depend on the tokens beside it.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Optional, cast

import numpy as np

from ..model.config import BiLMConfig, parameter_shapes
from ..model.indexers import TokenIndexer
from ..model.memory import Arrays
from ..model.threads import side_by_side
from .kernel import Kernel
from .kernel.numpy_kernel import mark_overflow, sigmoid

# Number of tokens that are encoded at a time. This limits the memory.
ENCODER_TOKENS = 256
# Maximum size of a vocabulary whose tables are computed once and kept.
SMALL_VOCABULARY = 512
FILTER_PANEL = 16  # The compiled kernel reads 16 filters at a time.


class FrozenEncoder:
    """Token encoder of frozen weights, with the same results as `TokenEncoder`.

    config (BiLMConfig): The sizes.
    indexer (TokenIndexer): Converts tokens to ids of characters and words.
    weights (Mapping[str, numpy.ndarray]): Weights by their names in `BiLM.state_dict()`.
    kernel (Kernel): Kernel that computes the products.
    precision (str): "float32", "bfloat16" or "int8".
    """

    def __init__(
        self,
        config: BiLMConfig,
        indexer: TokenIndexer,
        weights: Arrays,
        kernel: Kernel,
        precision: str,
    ):
        self.config, self.indexer, self.kernel = config, indexer, kernel
        shapes = parameter_shapes(config).items()
        products = [math.prod(s) for name, s in shapes if name.startswith("encoder.h")]
        self.n_weights = sum(products) // 2 + config.projected_width * config.projection_dim // 2
        self.uses_word_table = config.token_encoder == "bilm-tf"
        self.words = weights["encoder.words.weight"] if config.n_words else None

        def linear(*names: str) -> Any:
            parts = [weights[f"encoder.{name}.weight"] for name in names]
            bias = np.concatenate([weights[f"encoder.{name}.bias"] for name in names])
            weight = np.concatenate(parts) if len(parts) > 1 else parts[0]
            return kernel.make_linear(weight, bias, stored_type(precision, weight))

        # Gate and transform have the same input, so one product computes both.
        self.highways = [
            linear(f"highways.{i}.gate", f"highways.{i}.nonlinear") for i in range(config.n_highway)
        ]
        self.projection = linear("projection") if config.projected_width else None
        if not config.n_characters:
            return
        self.characters = as_float32(weights["encoder.embedding.weight"])
        names = [f"encoder.convolutions.{i}" for i in range(len(config.filters))]
        taps = [_taps(weights[f"{name}.weight"]) for name in names]
        self.products = [kernel.make_linear(weight, None, "float32") for weight in taps]
        self.bias = np.concatenate([as_float32(weights[f"{name}.bias"]) for name in names])
        self.tables: Optional[list[np.ndarray]] = None
        if len(self.characters) <= SMALL_VOCABULARY:
            self.tables = self._tables(self.characters)

    def __call__(self, tokens: Sequence[str]) -> np.ndarray:
        """Compute the context-free vectors of tokens.

        tokens (Sequence[str]): Token strings, each only once.
        RETURNS (numpy.ndarray): *Shape:* `(n_tokens, P)`
        """
        # Encode tokens of similar length together, so that they have less padding.
        order = np.argsort([len(token) for token in tokens], kind="stable")
        vectors = np.empty((len(tokens), self.config.projection_dim), dtype="float32")

        def encode(order: np.ndarray) -> None:
            for start in range(0, len(order), ENCODER_TOKENS):
                places = order[start : start + ENCODER_TOKENS]
                vectors[places] = self._encode([tokens[i] for i in places])

        halves = [half for half in (order[::2], order[1::2]) if len(half)]
        side_by_side([partial(encode, half) for half in halves], len(tokens) * self.n_weights)
        return vectors

    def _encode(self, tokens: list[str]) -> np.ndarray:
        characters, word_ids = (cast(Optional[np.ndarray], part) for part in self.indexer(tokens))
        if self.words is None or word_ids is None:
            assert characters is not None
            return self._project(self._encode_characters(characters))
        words = as_float32(self.words[np.maximum(word_ids, 0)])
        if characters is None:
            return self._project(words)
        if not self.uses_word_table:
            both = [words, self._encode_characters(characters)]
            return self._project(np.concatenate(both, axis=1))
        unknown = np.flatnonzero(word_ids < 0)
        if len(unknown):
            words[unknown] = self._project(self._encode_characters(characters[unknown]))
        return words

    def _encode_characters(self, ids: np.ndarray) -> np.ndarray:
        """Run convolutions and highways on the tokens' character ids. *Shape:* `(n_tokens, F)`."""
        index, tables = ids, self.tables
        if tables is None:
            used, index = np.unique(ids, return_inverse=True)
            index, tables = index.reshape(ids.shape), self._tables(self.characters[used])
        sizes = [number for _, number in self.config.filters]
        pooled = [self.kernel.convolve(t, index)[:, :size] for t, size in zip(tables, sizes)]
        vectors = np.concatenate(pooled, axis=1)
        vectors += self.bias
        mark_overflow(vectors)
        if self.config.activation == "tanh":
            np.tanh(vectors, out=vectors)
        else:
            np.maximum(vectors, 0.0, out=vectors)
        for highway in self.highways:
            products = highway(vectors)
            mark_overflow(products)
            gate, nonlinear = np.split(products, 2, axis=1)
            vectors = vectors + sigmoid(gate) * (np.maximum(nonlinear, 0.0) - vectors)
        return vectors

    def _project(self, vectors: np.ndarray) -> np.ndarray:
        return vectors if self.projection is None else self.projection(vectors)

    def _tables(self, characters: np.ndarray) -> list[np.ndarray]:
        """Multiply each character's embedding with each tap (column of weights) of each filter.

        characters (numpy.ndarray): Character embeddings. *Shape:* `(n_characters, E)`
        RETURNS (List[numpy.ndarray]): One table of products per convolution, `(n_characters,
            width, n)`, where n is the number of filters, rounded up to a multiple of 16.
        """
        return [
            product(characters).reshape(len(characters), width, -1)
            for product, (width, _) in zip(self.products, self.config.filters)
        ]


def stored_type(precision: str, *weights: np.ndarray) -> str:
    """Return the number type in which a kernel stores the weights of a layer.

    precision (str): "float32", "bfloat16" or "int8".
    weights (numpy.ndarray): The weights, float32 or float16. A file can contain both types.
    RETURNS (str): The precision. Exception: for "float32", weights that are all float16 stay
        "float16", because this loses nothing.
    """
    if precision != "float32":
        return precision
    return "float16" if all(one.dtype == "float16" for one in weights) else "float32"


def _taps(weight: np.ndarray) -> np.ndarray:
    """Convert the weight of a convolution to a matrix that multiplies all its taps.

    weight (numpy.ndarray): *Shape:* `(n_filters, E, width)`
    RETURNS (numpy.ndarray): float32, tap after tap. *Shape:* `(width * n, E)`, where n is
        `n_filters`, rounded up to a multiple of 16 with zeros.
    """
    taps = as_float32(weight).transpose(2, 0, 1)
    padded = -(-taps.shape[1] // FILTER_PANEL) * FILTER_PANEL
    widened = np.zeros((len(taps), padded, taps.shape[2]), dtype="float32")
    widened[:, : taps.shape[1]] = taps
    return widened.reshape(-1, taps.shape[2])


def as_float32(values: Any) -> np.ndarray:
    """Return an array as float32, without a copy if it already is."""
    return np.asarray(values, dtype="float32")


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
        # Remove the tokens, and add them again at the end: the dict is in the order of last use.
        # Use only atomic operations, because another thread may use the dict at the same time.
        popped = {token: kept.pop(token, None) for token in tokens}
        found = {token: vector for token, vector in popped.items() if vector is not None}
        missing = [token for token in tokens if token not in found]
        if missing:
            found.update(zip(missing, compute(missing)))
        for token in tokens[-self.capacity :] if self.capacity else ():
            # A new vector is a row of the batch's array: copy it, because it would keep the whole
            # array in memory.
            kept[token] = found[token].copy() if found[token].base is not None else found[token]
        while len(kept) > self.capacity:
            with suppress(KeyError):
                kept.popitem(last=False)
        # `np.concatenate` is several times as fast as `np.stack` here.
        return np.concatenate([found[token] for token in tokens]).reshape(len(tokens), -1)
