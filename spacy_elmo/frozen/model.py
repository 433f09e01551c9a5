"""Weights that do not change, and the vectors that they give."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any, Optional, Union

import numpy as np

from .cache import TokenVectorCache
from .config import BiLMConfig
from .encoder import FrozenEncoder
from .indexers import make_indexer
from .kernel import Kernel, find_kernel
from .packing import pack, without_ends
from .recurrence import FrozenStacks
from .state import FrozenState, State
from .vocabulary import Vocabularies

Arrays = Mapping[str, np.ndarray]


class FrozenBiLM:
    """Frozen weights of a biLM (Peters et al. 2018, section 3.1) and the vectors that they give.
    It does not change, so threads may share it. `thaw` makes a PyTorch module to train.

    config (BiLMConfig): The sizes.
    vocabularies (Vocabularies): Words and code points that the token encoder looks up.
    weights (Union[Mapping[str, numpy.ndarray], Callable]): Arrays by their names in
        `BiLM.state_dict()`, or a function that reads them: then they are read when they are
        needed, and not kept.
    precision (str): "float32", "bfloat16", "int8" or "auto".
    cache (int): Token strings whose vectors are kept.
    alignment (Optional[numpy.ndarray]): W; a vector v becomes `W v`. *Shape:* `(width, width)`
    kernel (Optional[Kernel]): What computes; by default the fastest that this machine has.
    """

    def __init__(
        self,
        config: BiLMConfig,
        vocabularies: Vocabularies,
        weights: Union[Arrays, Callable[[], Arrays]],
        *,
        precision: str = "float32",
        cache: int = 20_000,
        alignment: Optional[np.ndarray] = None,
        provenance: Optional[dict[str, Any]] = None,
        kernel: Optional[Kernel] = None,
    ):
        self.config = config
        self.indexer = make_indexer(config, vocabularies)
        self._weights = weights
        self.precision = precision
        self.cache = TokenVectorCache(cache)
        self.alignment = alignment
        self.provenance = provenance or {}
        self.kernel = kernel or find_kernel()
        self._lock = Lock()
        self._packed: Optional[tuple[FrozenEncoder, FrozenStacks]] = None
        self._warm: Optional[FrozenState] = None
        self._opened: dict[Optional[str], FrozenState] = {}

    def read_weights(self) -> Arrays:
        """RETURNS (Mapping[str, numpy.ndarray]): Arrays by their names in `BiLM.state_dict()`."""
        return self._weights() if callable(self._weights) else self._weights

    @property
    def _parts(self) -> tuple[FrozenEncoder, FrozenStacks]:
        """The weights as the kernel reads them, laid out once for all threads."""
        if self._packed is None:
            with self._lock:
                if self._packed is None:
                    args = (self.read_weights(), self.kernel, self._type_of)
                    encoder = FrozenEncoder(self.config, self.indexer, *args)
                    self._packed = encoder, FrozenStacks(self.config, *args)
        return self._packed

    def _type_of(self, weight: np.ndarray) -> str:
        """RETURNS (str): The type to keep a weight in. float16 of a file stays: it is exact."""
        if self.precision in self.kernel.fast_types:
            return self.precision
        if self.precision == "auto" and "bfloat16" in self.kernel.fast_types:
            return "bfloat16"
        return "float16" if weight.dtype == "float16" else "float32"

    def embed(
        self, sentences: Sequence[Sequence[str]], state: State = None, *, keep_marks: bool = False
    ) -> tuple[list[np.ndarray], FrozenState]:
        """Compute the layers for tokenized sentences of any lengths, empty ones included. Each is
        read between its two sentence marks, if the model has them. Layer 0 is the token vector,
        once for each direction.

        sentences (Sequence[Sequence[str]]): The tokens.
        state (Union[None, str, FrozenState]): None starts from zeros, "warm" from the state after
            one empty sentence, a state (one row a sentence) from it.
        keep_marks (bool): Keep the marks' vectors as first and last.
        RETURNS (Tuple[List[numpy.ndarray], FrozenState]): The layers of each sentence,
            *Shape:* `(L + 1, n_tokens, width)`, and the state after each sentence. With marks
            there are n_tokens + 2.
        RAISES (ValueError): The state's shapes do not fit.
        """
        has_marks = self.config.sentence_marks
        if not sentences or not (has_marks or any(sentences)):
            return self._empty(sentences), self._initial_state(state, len(sentences))
        drops_marks = has_marks and not keep_marks
        # Where every sentence starts from the same state, so does what follows the first mark.
        is_opened = drops_marks and not isinstance(state, FrozenState)
        if is_opened:
            start = self._opened_state(state).rows([0] * len(sentences))
        else:
            start = self._initial_state(state, len(sentences))
        types: dict[str, int] = {}
        marked = [self._marked(sentence) for sentence in sentences]
        lengths = [len(sentence) for sentence in marked]
        flat = np.array([types.setdefault(token, len(types)) for s in marked for token in s])
        vectors = self.token_vectors(list(types))
        packed = pack(lengths, skip=int(is_opened))
        n_directions, width = self.config.n_directions, self.config.projection_dim
        rows = flat[packed.positions[:n_directions]]
        after = start.rows(packed.order)
        outputs = self._parts[1].run(vectors, rows, packed.batch_sizes, after.hidden, after.cell)
        kept = without_ends(lengths) if drops_marks else np.arange(sum(lengths))
        back = packed.inverse()[:n_directions, kept]
        layers = np.empty((len(outputs) + 1, len(kept), n_directions, width), dtype="float32")
        layers[0] = vectors[flat[kept], None]
        for layer, output in zip(layers[1:], outputs):
            for d in range(n_directions):
                layer[:, d] = output[d][back[d]]
        stacked = layers.reshape(len(layers), len(kept), self.config.width)
        if self.alignment is not None:
            stacked = stacked @ self.alignment.T
        ends = np.cumsum([len(sentence) for sentence in (sentences if drops_marks else marked)])
        each = [stacked[:, start:end] for start, end in zip([0, *ends], ends)]
        return each, after.rows(np.argsort(packed.order))

    def token_vectors(self, tokens: Sequence[str]) -> np.ndarray:
        """Compute context-free vectors, those of the token encoder.

        tokens (Sequence[str]): Different token strings.
        RETURNS (numpy.ndarray): *Shape:* `(n_tokens, P)`
        """
        if not tokens:
            return np.zeros((0, self.config.projection_dim), dtype="float32")
        return self.cache.lookup(tokens, self._parts[0])

    def zero_state(self, n_sequences: int) -> FrozenState:
        """RETURNS (FrozenState): Zeros, a row for each sequence."""
        sizes = (self.config.n_directions, self.config.n_layers, n_sequences)
        return FrozenState(
            np.zeros((*sizes, self.config.projection_dim), dtype="float32"),
            np.zeros((*sizes, self.config.lstm_dim), dtype="float32"),
        )

    def warm_state(self) -> FrozenState:
        """RETURNS (FrozenState): One row, the state after one empty sentence."""
        if not self.config.sentence_marks:
            return self.zero_state(1)
        if self._warm is None:
            self._warm = self.embed([[]])[1]
        return self._warm

    def first_layers(self, n_layers: int) -> "FrozenBiLM":
        """Return the model without its higher LSTM layers: what the lower ones give does not
        depend on them.

        n_layers (int): LSTM layers that stay.
        RETURNS (FrozenBiLM): The model.
        RAISES (ValueError): There are not so many.
        """
        if not 1 <= n_layers <= self.config.n_layers:
            raise ValueError(f"n_layers must be from 1 to {self.config.n_layers}, got {n_layers}")
        return FrozenBiLM(
            replace(self.config, n_layers=n_layers),
            self.indexer.vocabularies,
            self._weights,
            precision=self.precision,
            cache=self.cache.capacity,
            alignment=self.alignment,
            provenance=self.provenance,
            kernel=self.kernel,
        )

    def __getstate__(self) -> dict[str, Any]:
        """RETURNS (dict): The weights themselves: another process finds its own kernel and lays
        them out anew."""
        own = {"_weights": dict(self.read_weights()), "_packed": None, "_lock": None}
        return {**self.__dict__, **own, "kernel": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=Lock(), kernel=find_kernel())

    def _marked(self, sentence: Sequence[str]) -> list[str]:
        if not self.config.sentence_marks:
            return list(sentence)
        start_mark, end_mark = self.indexer.marks
        return [start_mark, *sentence, end_mark]

    def _empty(self, sentences: Sequence[Sequence[str]]) -> list[np.ndarray]:
        shape = (self.config.n_layers + 1, 0, self.config.width)
        return [np.zeros(shape, dtype="float32") for _ in sentences]

    def _opened_state(self, state: Any) -> FrozenState:
        """One row, the state of either direction after its first mark."""
        opened = self._opened.get(state)
        if opened is None:
            opened = self._initial_state(state, 1).rows([0])
            vectors = self.token_vectors(self.indexer.marks)
            rows = np.arange(self.config.n_directions)[:, None]
            self._parts[1].run(vectors, rows, [1], opened.hidden, opened.cell)
            self._opened[state] = opened
        return opened

    def _initial_state(self, state: State, n_sequences: int) -> FrozenState:
        if state is None:
            return self.zero_state(n_sequences)
        if isinstance(state, str):
            if state != "warm":
                raise ValueError(f"state must be None, 'warm' or a FrozenState, got {state!r}")
            return self.warm_state().rows([0] * n_sequences)
        expected = self.zero_state(n_sequences)
        for name in ("hidden", "cell"):
            got, want = getattr(state, name).shape, getattr(expected, name).shape
            if got != want:
                raise ValueError(
                    f"the {name} state has shape {got}, but {n_sequences} sentences of this "
                    f"model need {want}: one row a sentence"
                )
        return state
