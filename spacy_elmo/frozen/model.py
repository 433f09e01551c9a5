"""Frozen language model: computes vectors on a CPU.

There are two classes: `BiLM` for training and `FrozenBiLM` for computing. The arrays of a
`FrozenBiLM` have the layout of the kernel and never change. So threads can share a model, no call
checks for changes, and PyTorch is not needed. The alternative was one PyTorch module that cleared
its caches when its weights changed. It made 28 checks per short Doc, and missed changes through
`.data`.

Arrays from a file are dropped as soon as the kernel has its own layout. `arrays`,
`BiLM.from_frozen` and copies of the model read them again. So the memory contains the weights twice
only while the layout is made.
"""

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from threading import RLock
from typing import Any, Optional

import numpy as np

from ..model.config import BiLMConfig, check_precision, parameter_shapes
from ..model.indexers import make_indexer
from ..model.memory import Weights, return_freed_memory
from ..model.packing import lay_out, without_ends
from ..model.vocabulary import Vocabularies
from .encoder import FrozenEncoder, TokenVectorCache
from .kernel import Kernel, find_kernel, resolve_precision
from .recurrence import FrozenStacks, FrozenState, State, initial_state

# Models with more weights per LSTM layer return freed memory to the system after each call.
LARGE = 2**22


class FrozenBiLM:
    """BiLM (Peters et al. 2018, section 3.1) with frozen weights, which computes vectors on a CPU.

    A frozen model does not change, so threads may share it. `BiLM.from_frozen` makes a
    PyTorch module for training.

    config (BiLMConfig): The sizes.
    vocabularies (Vocabularies): Words and code points that the token encoder looks up.
    weights (Weights): The arrays.
    precision (str): Number format of matrix products: "float32", "bfloat16", "int8", or "auto".
        "auto" is the fastest format whose vectors are close to float32.
    cache (int): Number of token strings whose vectors are cached.
    alignment (Optional[numpy.ndarray]): Matrix W that aligns the vectors with another model: each
        vector v becomes `W v`. *Shape:* `(width, width)`
    provenance (Optional[dict]): Origin and training of the model, with values that JSON can store.
    kernel (Optional[Kernel]): Kernel for the computation. Default: the fastest kernel on this
        machine.
    RAISES (ValueError): The precision is unknown, or the vocabularies do not fit the sizes.
    """

    def __init__(
        self,
        config: BiLMConfig,
        vocabularies: Vocabularies,
        weights: Weights,
        *,
        precision: str = "float32",
        cache: int = 20_000,
        alignment: Optional[np.ndarray] = None,
        provenance: Optional[dict[str, Any]] = None,
        kernel: Optional[Kernel] = None,
    ):
        check_precision(precision)
        self.config = config
        self.indexer = make_indexer(config, vocabularies)
        self._precision = precision
        self.cache = TokenVectorCache(cache)
        self.alignment = alignment
        self.provenance = provenance or {}
        self.kernel = kernel or find_kernel()
        self._weights = weights
        self._lock, self._lock_of = RLock(), os.getpid()
        self._made_parts: Optional[tuple[FrozenEncoder, FrozenStacks]] = None
        self._align: Any = None
        self._checksum: Optional[str] = None
        self._warm: Optional[FrozenState] = None
        self._opened: dict[Optional[str], FrozenState] = {}

    @property
    def precision(self) -> str:
        """Number format of matrix products: "float32", "bfloat16", "int8" or "auto"."""
        return self._precision

    @precision.setter
    def precision(self, precision: str) -> None:
        raise AttributeError(
            f"precision cannot be set on a frozen language model. Use pipe.precision = "
            f"{precision!r} or bilm.replace(precision={precision!r})."
        )

    @property
    def vocabularies(self) -> Vocabularies:
        """Words and code points that the token encoder looks up."""
        return self.indexer.vocabularies

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the weights, and `alignment` if the model has one.

        RETURNS (Dict[str, numpy.ndarray]): float32 or float16, by the names in `BiLM.state_dict()`.
        RAISES (ValueError): The file with the weights has changed since it was read.
        """
        aligned = {} if self.alignment is None else {"alignment": self.alignment}
        weights = self._weights.get()
        return {**aligned, **{name: weights[name] for name in parameter_shapes(self.config)}}

    def checksum(self) -> str:
        """Compute the SHA-256 of sizes, weights, alignment and vocabularies, in hexadecimal.

        Equal checksums mean equal float32 vectors.
        """
        if self._checksum is None:
            sizes = json.dumps(self.config.to_dict(), sort_keys=True)
            found = hashlib.sha256(sizes.encode())
            for name, values in self.arrays().items():
                # Saved pipelines and caches contain checksums, so never change the header.
                found.update(f"{name} torch.float32 {values.shape} ".encode())
                found.update(np.ascontiguousarray(values, dtype="float32").data)
            for name, vocabulary in self.vocabularies._asdict().items():
                if vocabulary is not None:
                    found.update(f"{name} ".encode() + vocabulary.to_bytes())
            self._checksum = found.hexdigest()
        return self._checksum

    def replace(self, **changes: Any) -> "FrozenBiLM":
        """Return a model with the same weights, but with changed settings.

        If the settings allow it, both models share the weights in the kernel's layout, the warm
        state and the cached vectors.

        changes (Any): New values for `config`, `precision`, `cache`, `alignment`, `provenance` or
            `kernel`, the arguments of the class.
        RETURNS (FrozenBiLM): The new model.
        """
        names = ("config", "precision", "alignment", "provenance", "kernel")
        same = {name: getattr(self, name) for name in names}
        settings = {**same, "cache": self.cache.capacity, **changes}
        other = FrozenBiLM(vocabularies=self.vocabularies, weights=self._weights, **settings)
        if other.config is not self.config:
            return other
        if (other.precision, other.kernel) == (self.precision, self.kernel):
            other._made_parts = self._made_parts
            other._warm, other._opened = self._warm, self._opened
            if other.cache.capacity == self.cache.capacity:
                other.cache = self.cache
        if other.alignment is self.alignment:
            other._checksum = self._checksum
        return other

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"frozen weights have no attribute '{name}'. Use `BiLM.from_frozen(bilm)` to "
            f"get a PyTorch module, and `pipe.set_bilm(module)` to put it into a pipe."
        )

    @property
    def _parts(self) -> tuple[FrozenEncoder, FrozenStacks]:
        """Token encoder and LSTM stacks in the kernel's layout. The first access makes them."""
        if self._made_parts is None:
            with self._exclusively():
                if self._made_parts is None:
                    precision = resolve_precision(self.precision, self.kernel)
                    args = (self._weights.get(), self.kernel, precision)
                    encoder = FrozenEncoder(self.config, self.indexer, *args)
                    self._made_parts = encoder, FrozenStacks(self.config, *args)
                    self._weights.drop()
        return self._made_parts

    def embed(
        self, sentences: Sequence[Sequence[str]], state: State = None, *, keep_marks: bool = False
    ) -> tuple[list[np.ndarray], FrozenState]:
        """Compute the layers of tokenized sentences. Sentences can be empty or of any length.

        If the model has sentence marks (such as `<S>` and `</S>`), each sentence is read between
        two marks. Layer 0 is the token vector, repeated for each direction.

        sentences (Sequence[Sequence[str]]): The tokens.
        state (Union[None, str, FrozenState]): Initial state, one row per sentence. None: zeros.
            "warm": the state after an empty sentence (`<S> </S>`).
        keep_marks (bool): Whether to also return the vectors of the sentence marks, as the first
            and the last vector of a sentence.
        RETURNS (Tuple[List[numpy.ndarray], FrozenState]): The layers of each sentence, *Shape:*
            `(L + 1, n_tokens, width)`, and the state after each sentence. With `keep_marks`,
            n_tokens + 2 vectors.
        RAISES (ValueError): The state has a wrong shape, or a layer contains NaN or infinity.
        """
        has_marks = self.config.sentence_marks
        if not sentences or not (has_marks or any(sentences)):
            return self.empty_layers(len(sentences)), initial_state(self, state, len(sentences))
        drops_marks = has_marks and not keep_marks
        # If all sentences start from the same state, they also have the same state after the first
        # mark that a direction reads, so it is computed only once (`_opened_state`). With joined
        # directions, the state after the mark depends on the sentence, because the second layer
        # reads both directions of the first.
        differs = self.config.joined_directions or isinstance(state, FrozenState)
        skips_first_mark = drops_marks and not differs
        marks = self.indexer.marks if has_marks else ()
        types, flat, packed = lay_out(sentences, marks, skip=int(skips_first_mark))
        if skips_first_mark:
            after = self._opened_state(state).rows([0] * len(sentences))
        else:
            after = initial_state(self, state, len(sentences)).rows(packed.order)
        n_directions, width = self.config.n_directions, self.config.projection_dim
        vectors = self.token_vectors(types)
        rows = flat[packed.positions[:n_directions]]
        outputs, after = self.run(vectors, rows, packed.batch_sizes, after)
        kept = without_ends(packed.lengths) if drops_marks else np.arange(packed.n_items)
        back = packed.inverse()[:n_directions, kept]
        layers = np.empty((len(outputs) + 1, len(kept), n_directions, width), dtype="float32")
        layers[0] = vectors[flat[kept], None]
        for layer, output in zip(layers[1:], outputs):
            for d in range(n_directions):
                layer[:, d] = output[d][back[d]]
        stacked = layers.reshape(len(layers), len(kept), self.config.width)
        if self.alignment is not None:
            stacked = self._aligned(stacked, self.alignment)
        # Check the sum first, because it needs one pass and no memory. Check all values only if
        # the sum is not finite, because it may overflow.
        with np.errstate(over="ignore", invalid="ignore"):
            is_finite = math.isfinite(float(stacked.sum())) or np.isfinite(stacked).all()
        if not is_finite:
            raise not_finite(self.provenance)
        if self._parts[1].n_weights > LARGE:
            return_freed_memory()
        ends = np.cumsum([length - 2 * drops_marks for length in packed.lengths])
        each = [stacked[:, start:end] for start, end in zip([0, *ends], ends)]
        return each, after.rows(np.argsort(packed.order))

    def run(
        self, vectors: np.ndarray, rows: np.ndarray, batch_sizes: list[int], state: FrozenState
    ) -> tuple[np.ndarray, FrozenState]:
        """Run the LSTM stacks over packed sequences (see `model.packing`).

        vectors (numpy.ndarray): Vectors of the different tokens, x. *Shape:* `(n_types, P)`
        rows (numpy.ndarray): Index into `vectors` for each packed item. Each direction has its own
            order: backward items start at the end of a sequence. *Shape:*
            `(n_directions, n_items)`
        batch_sizes (List[int]): Number of running sequences at each step, in non-increasing order.
        state (FrozenState): Initial state, one row per sequence.
        RETURNS (Tuple[numpy.ndarray, FrozenState]): The packed output of each LSTM layer,
            *Shape:* `(L, n_directions, n_items, P)`, and the state after the last step.
        """
        return self._parts[1].run(vectors, rows, batch_sizes, state)

    def token_vectors(self, tokens: Sequence[str]) -> np.ndarray:
        """Compute the context-free vectors of tokens with the token encoder.

        tokens (Sequence[str]): Token strings, each only once.
        RETURNS (numpy.ndarray): *Shape:* `(n_tokens, P)`
        """
        if not tokens:
            return np.zeros((0, self.config.projection_dim), dtype="float32")
        return self.cache.lookup(tokens, self._parts[0])

    def zero_state(self, n_sequences: int) -> FrozenState:
        """Return an LSTM state of zeros, one row per sequence."""
        sizes = (self.config.n_directions, self.config.n_layers, n_sequences)
        return FrozenState(
            np.zeros((*sizes, self.config.projection_dim), dtype="float32"),
            np.zeros((*sizes, self.config.lstm_dim), dtype="float32"),
        )

    def warm_state(self) -> FrozenState:
        """Return the LSTM state after an empty sentence (`<S> </S>`), for one sequence.

        For a model without sentence marks, this is a state of zeros.
        """
        if not self.config.sentence_marks:
            return self.zero_state(1)
        if self._warm is None:
            self._warm = self.embed([[]])[1]
        return self._warm

    def first_layers(self, n_layers: int) -> "FrozenBiLM":
        """Return the model without its higher LSTM layers. The lower layers stay the same.

        n_layers (int): Number of LSTM layers to keep.
        RETURNS (FrozenBiLM): The smaller model.
        RAISES (ValueError): The number is below 1, or the model has fewer layers.
        """
        if not 1 <= n_layers <= self.config.n_layers:
            raise ValueError(f"n_layers must be from 1 to {self.config.n_layers}, got {n_layers}")
        return self.replace(config=replace(self.config, n_layers=n_layers))

    def empty_layers(self, n_sentences: int) -> list[np.ndarray]:
        """Return the layers of sentences without tokens, each `(L + 1, 0, width)`."""
        shape = (self.config.n_layers + 1, 0, self.config.width)
        return [np.zeros(shape, dtype="float32") for _ in range(n_sentences)]

    def _exclusively(self) -> AbstractContextManager[Any]:
        """Return the lock that lets only one thread at a time make `_parts`.

        A forked process gets a new lock: the old one may be locked by a thread that only the parent
        process has.
        """
        if self._lock_of != os.getpid():
            self._lock, self._lock_of = RLock(), os.getpid()
        return self._lock

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes to pickle, without the kernel: other machines use other kernels."""
        absent = ("_lock", "_lock_of", "_made_parts", "_align", "kernel", "cache")
        kept = {name: value for name, value in self.__dict__.items() if name not in absent}
        return {**kept, "cache": self.cache.capacity}

    def __setstate__(self, state: dict[str, Any]) -> None:
        made = {"_lock": RLock(), "_lock_of": os.getpid(), "_made_parts": None, "_align": None}
        cache = TokenVectorCache(state["cache"])
        self.__dict__.update(state, **made, kernel=find_kernel(), cache=cache)

    def _aligned(self, layers: np.ndarray, matrix: np.ndarray) -> np.ndarray:
        """Multiply each vector by the alignment `matrix`.

        The kernel multiplies: BLAS adds in an order that depends on the number of vectors.
        """
        if self._align is None:
            self._align = self.kernel.make_linear(matrix, None, "float32")
        aligned: np.ndarray = self._align(layers.reshape(-1, self.config.width))
        return aligned.reshape(layers.shape)

    def _opened_state(self, state: Any) -> FrozenState:
        """Return the LSTM state after the first mark that each direction reads, for one sequence.

        state (Union[None, str]): State before the mark: None for zeros, or "warm".
        RETURNS (FrozenState): The state: forward after the start mark, backward after the end mark.
        """
        opened = self._opened.get(state)
        if opened is None:
            vectors = self.token_vectors(self.indexer.marks)
            rows = np.arange(self.config.n_directions)[:, None]
            _, opened = self.run(vectors, rows, [1], initial_state(self, state, 1))
            self._opened[state] = opened
        return opened


def not_finite(provenance: Mapping[str, Any]) -> ValueError:
    """Make the error for layers with NaN or infinity.

    provenance (Mapping[str, Any]): Provenance of the model. The message names its `source`, if any.
    RETURNS (ValueError): The error for the caller to raise.
    """
    name = f" '{provenance['source']}'" if provenance.get("source") else ""
    return ValueError(
        f"the language model{name} gives vectors that are not finite: "
        f"its weights are too large, or its training diverged. Use other weights, or train again "
        f"with a lower learn_rate."
    )
