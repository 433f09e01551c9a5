"""Tokenized sentences through a biLM: what belongs to weights that stay as they are."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, Optional, cast

import numpy as np
import torch
from torch import Tensor, nn

from ..frozen.cache import TokenVectorCache
from ..frozen.config import BiLMConfig, check_precision
from ..frozen.indexers import TokenIds
from ..frozen.packing import pack, without_ends
from ..frozen.vocabulary import Vocabularies
from .digest import digest
from .engine import Engine
from .finite import is_finite
from .gather import gather
from .lstm import ProjectedLSTM
from .offload import OffloadedModule, exclusively, return_freed_memory
from .precision import resolve_precision
from .state import BiLMState, State
from .threads import one_thread, side_by_side
from .token_encoder import TokenEncoder

ENCODER_TOKENS = 256  # of one call of the CNN: a bound of the working memory
# Of so many weights in the LSTMs' states the working memory is worth giving back, and the
# time that this takes is below a hundredth of a sentence's.
LARGE = 2**22

_OFFLOADED = torch.empty(0)  # in place of weights that are in their file


class Embedder(OffloadedModule):
    """Embeds tokenized sentences with the layers that a subclass has. While no gradient is asked
    for it keeps what depends on the weights alone: vectors of tokens, states after the first
    marks, and the weights laid out for the engine; all of it is dropped when they change.

    The arguments are those of `BiLM`.
    """

    def __init__(
        self, config: BiLMConfig, vocabularies: Vocabularies, *, cache: int, precision: str
    ):
        super().__init__()
        self.config = config
        self.encoder = TokenEncoder(config, vocabularies)
        self.indexer = self.encoder.indexer
        self.stacks = nn.ModuleList(
            nn.ModuleList(ProjectedLSTM(config, layer) for layer in range(config.n_layers))
            for _ in range(config.n_directions)
        )
        self.cache = TokenVectorCache(cache)
        self.alignment: Optional[Tensor]
        self.register_buffer("alignment", None)
        self.provenance: dict[str, Any] = {}
        self._warm: Optional[BiLMState] = None
        self._opened: dict[Optional[str], BiLMState] = {}
        self._seen_weights: tuple = ()
        self._packed: Optional[Engine] = None
        self._checksum: Optional[str] = None
        self.precision = precision

    @property
    def precision(self) -> str:
        """RETURNS (str): "float32", "bfloat16", "int8" or "auto"."""
        return self._precision

    @precision.setter
    def precision(self, precision: str) -> None:
        check_precision(precision)
        self._precision = precision

    @property
    def device(self) -> torch.device:
        """RETURNS (torch.device): Where the weights are."""
        return self._a_weight.device

    @property
    def dtype(self) -> torch.dtype:
        """RETURNS (torch.dtype): Type of weights and layers."""
        return self._a_weight.dtype

    @property
    def _a_weight(self) -> Tensor:
        if self.is_offloaded:
            return _OFFLOADED
        return cast(ProjectedLSTM, cast(nn.ModuleList, self.stacks[0])[0]).bias

    def align(self, matrix: Optional[Tensor]) -> None:
        """Map the layers that `embed` returns into the space of another model: a vector v becomes
        `W v`. The softmax and its perplexity are as before.

        matrix (Optional[Tensor]): W, in place of one that there is; None for none.
            *Shape:* `(width, width)`
        """
        self.alignment = None if matrix is None else matrix.to(self.device, self.dtype)
        self._checksum = None

    def embed(
        self, sentences: Sequence[Sequence[str]], state: State = None, *, keep_marks: bool = False
    ) -> tuple[list[Tensor], BiLMState]:
        """Layers of the language model for tokenised sentences, of any lengths,
        empty ones included. Each is fed between its two sentence marks, if the model
        has them, whose vectors are dropped. Layer 0 is the token vector, once for each direction.

        sentences (Sequence[Sequence[str]]): The tokens.
        state (Union[None, str, BiLMState]): None starts from zeros, "warm" from
            the state after one empty sentence, a state (one row a sentence) from it.
        keep_marks (bool): Whether the marks' vectors are kept, if it has them, as first and last.
        RETURNS (Tuple[List[Tensor], BiLMState]): The layers of each sentence,
            *Shape:* `(L + 1, n_tokens, width)`, and the state after each sentence.
            With marks there are n_tokens + 2.
        RAISES (ValueError): The state's shapes do not fit, or a layer is not finite.
        """
        with one_thread(not self.wants_gradient()):
            result = self._embed(sentences, state, keep_marks)
        if self._packed is not None and self._packed.n_weights > LARGE:
            return_freed_memory()
        return result

    def _embed(
        self, sentences: Sequence[Sequence[str]], state: State, keep_marks: bool
    ) -> tuple[list[Tensor], BiLMState]:
        self._drop_stale()
        has_marks = self.config.sentence_marks
        if not sentences or not (has_marks or any(sentences)):
            return self._empty(sentences), self._initial_state(state, len(sentences))
        # Where every sentence starts from the same, so does what follows the first mark.
        is_frozen = not self.wants_gradient()
        drops_marks = has_marks and not keep_marks
        if drops_marks and is_frozen and not isinstance(state, BiLMState):
            is_opened, start = True, self._opened_state(state).rows([0] * len(sentences))
        else:
            is_opened, start = False, self._initial_state(state, len(sentences))
        types: dict[str, int] = {}
        marked = [self._marked(sentence) for sentence in sentences]
        lengths = [len(sentence) for sentence in marked]
        flat = np.array([types.setdefault(token, len(types)) for s in marked for token in s])
        strings = list(types)
        vectors = self._known_vectors(strings) if is_frozen else self.token_vectors(strings)
        packed = pack(lengths, skip=int(is_opened))
        rows = self._to_device(flat[packed.positions])
        started = start if is_opened else start.rows(packed.order)
        outputs, after = self._run(vectors, rows, packed.batch_sizes, started)
        kept = without_ends(lengths) if drops_marks else np.arange(sum(lengths))
        # A token's rows in all directions stand side by side.
        n_directions, n_items = self.config.n_directions, rows.shape[1]
        backs = packed.inverse()[:n_directions, kept] + n_items * np.arange(n_directions)[:, None]
        back = self._to_device(backs.T.ravel())
        first = self._to_device(flat[kept].repeat(n_directions))
        read = [(vectors, first), *((output.flatten(0, 1), back) for output in outputs)]
        lengths = list(map(len, sentences if drops_marks else marked))
        stacked = gather(read).view(len(read), len(kept), self.config.width)
        if self.alignment is not None:
            stacked = stacked @ self.alignment.T
        if not is_finite(stacked):
            raise ValueError(
                f"the language model '{self.provenance.get('source', '')}' gives vectors that are "
                f"not finite (NaN or infinity): its weights are too large, or its training "
                f"diverged. Use other weights, or train with a lower learn_rate."
            )
        each = stacked.split(lengths, dim=1)
        return list(each), after.rows(np.argsort(packed.order))

    def _marked(self, sentence: Sequence[str]) -> list[str]:
        if not self.config.sentence_marks:
            return list(sentence)
        start_mark, end_mark = self.indexer.marks
        return [start_mark, *sentence, end_mark]

    def _empty(self, sentences: Sequence[Sequence[str]]) -> list[Tensor]:
        shape = (self.config.n_layers + 1, 0, self.config.width)
        return [self._a_weight.new_zeros(shape) for _ in sentences]

    def token_vectors(
        self, tokens: Sequence[str], product_dtype: Optional[torch.dtype] = None
    ) -> Tensor:
        """Context-free vectors, the token encoder's.

        tokens (Sequence[str]): Different token strings.
        product_dtype (Optional[torch.dtype]): Type of the matrix products where a
            gradient is asked for, if not the weights' own.
        RETURNS (Tensor): *Shape:* `(n_tokens, P)`
        """
        if self.wants_gradient() or not tokens:
            self._seen_weights = ()  # fused optimizers change weights without raising their version
            return self._encode(tokens, product_dtype)
        self._drop_stale()
        return self._known_vectors(tokens)

    def _known_vectors(self, tokens: Sequence[str]) -> Tensor:
        """Token vectors of weights that have not changed."""
        with one_thread():
            known = self.cache.lookup(tokens, lambda missing: self._encode(missing).cpu().numpy())
        return self._to_device(known)

    def checksum(self, *, again: bool = False) -> str:
        """Tell models apart.

        again (bool): Read the weights although nothing says that they changed: changes
            through `.data` or a NumPy view leave no trace. If they did change, what was
            computed with the others is dropped.
        RETURNS (str): SHA-256 of sizes, weights and vocabularies, in hexadecimal: equal
            for models that give the same vectors.
        """
        self._drop_stale()
        if self._checksum is None or (again and not self.is_offloaded):
            found = digest(self.config, self.with_weights(), self.indexer.vocabularies)
            if found != self._checksum:
                with exclusively():
                    self._forget()
                    self._checksum = found
        return self._checksum

    def zero_state(self, n_sequences: int) -> BiLMState:
        """RETURNS (BiLMState): Zeros for so many sequences."""
        weight = self._a_weight
        sizes = (self.config.n_directions, self.config.n_layers, n_sequences)
        return BiLMState(
            weight.new_zeros(*sizes, self.config.projection_dim),
            weight.new_zeros(*sizes, self.config.lstm_dim),
        )

    def warm_state(self) -> BiLMState:
        """RETURNS (BiLMState): One row, the state after one empty sentence."""
        if not self.config.sentence_marks:
            return self.zero_state(1)
        if self.wants_gradient():
            return self.embed([[]])[1]
        self._drop_stale()
        if self._warm is None:
            self._warm = self.embed([[]])[1]
        return self._warm

    def _opened_state(self, state: Optional[Literal["warm"]]) -> BiLMState:
        """One row, the state of either direction after its first mark."""
        opened = self._opened.get(state)
        if opened is None:
            start = self._initial_state(state, 1)
            vectors = self._known_vectors(self.indexer.marks)
            rows = self._to_device(np.array([[0], [1]]))
            _, opened = self._run(vectors, rows, [1], start)
            self._opened[state] = opened
        return opened

    def _initial_state(self, state: State, n_sequences: int) -> BiLMState:
        if state is None:
            return self.zero_state(n_sequences)
        if isinstance(state, str):
            if state != "warm":
                raise ValueError(f"state must be None, 'warm' or a BiLMState, got {state!r}")
            return self.warm_state().rows([0] * n_sequences)
        expected = self.zero_state(n_sequences)
        for name in ("hidden", "cell"):
            got, want = getattr(state, name).shape, getattr(expected, name).shape
            if got != want:
                raise ValueError(
                    f"the {name} state has shape {tuple(got)}, but {n_sequences} sentences "
                    f"of this model need {tuple(want)}: one row a sentence"
                )
        return state

    def _run(
        self, vectors: Tensor, rows: Tensor, batch_sizes: list[int], state: BiLMState
    ) -> tuple[list[Tensor], BiLMState]:
        """As `forward`, by the engine where no gradient is asked for; a tensor a layer, of
        all directions."""
        needs_graph = state.hidden.requires_grad or state.cell.requires_grad
        engine = None if needs_graph and torch.is_grad_enabled() else self._engine()
        if engine is None:
            dtype = self._product_dtype()
            outputs, after = self(vectors, rows, batch_sizes, state, product_dtype=dtype)
            return [torch.stack(each) for each in zip(*outputs)], after
        layers, hidden, cell = engine.run(vectors, rows, batch_sizes, state.hidden, state.cell)
        return layers, BiLMState(hidden, cell)

    def _engine(self) -> Optional[Engine]:
        """The engine for the weights as they are; None where it is not for them."""
        if self.wants_gradient() or self.dtype != torch.float32:
            return None
        has_gates = self.config.connections == "highway"
        if has_gates or self.config.joined_directions or self.device.type != "cpu":
            return None
        with exclusively():  # once, whoever comes at the same time
            if self._packed is None:
                self._packed = self._make_engine(resolve_precision(self.precision, self.device))
                self.forget_weights()
            return self._packed

    def _make_engine(self, precision: str) -> Engine:
        module, skips = self.with_weights(), self.config.use_skip_connections
        stacks = cast(Sequence[Sequence[ProjectedLSTM]], module.stacks)
        return Engine(module.encoder, stacks, precision, use_skip_connections=skips)

    def _product_dtype(self) -> Optional[torch.dtype]:
        """The type of the products on a GPU; None for that of the weights."""
        if self.wants_gradient() or self.dtype != torch.float32 or self.device.type == "cpu":
            return None
        precision = resolve_precision(self.precision, self.device)
        return None if precision == "float32" else getattr(torch, precision)

    def _encode(self, tokens: Sequence[str], product_dtype: Optional[torch.dtype] = None) -> Tensor:
        if not tokens:
            return self._a_weight.new_zeros(0, self.config.projection_dim)
        # Tokens of about the same length together: the CNN reads less padding.
        order = np.argsort([len(token) for token in tokens], kind="stable")
        engine = self._engine()
        product_dtype = product_dtype or self._product_dtype()
        # Autograd keeps what all tokens need, and on a CPU the encoder takes its own parts.
        is_whole = self.wants_gradient() and self.device.type == "cpu"
        size = len(tokens) if is_whole else ENCODER_TOKENS
        encoder = engine.encoder if engine is not None else self.encoder

        def encode(tokens: Sequence[str]) -> Tensor:
            parts = []
            for start in range(0, len(tokens), size):
                ids = self.indexer(tokens[start : start + size])
                on_device = [
                    each if each is None else self._to_device(np.asarray(each)) for each in ids
                ]
                parts.append(encoder(TokenIds(*on_device), product_dtype))
            return torch.cat(parts)

        by_length = [tokens[i] for i in order]
        halves = [by_length]
        if engine is not None and engine.encoder.is_long(len(tokens)):
            halves = [by_length[::2], by_length[1::2]]
            order = np.concatenate([order[::2], order[1::2]])
        encoded = torch.cat(side_by_side([partial(encode, half) for half in halves]))
        return encoded.index_select(0, self._to_device(np.argsort(order)))

    def _to_device(self, array: np.ndarray) -> Tensor:
        tensor = torch.from_numpy(np.ascontiguousarray(array))
        if self.device.type != "cuda":
            return tensor.to(self.device)
        return tensor.pin_memory().to(self.device, non_blocking=True)

    def wants_gradient(self) -> bool:
        """RETURNS (bool): Whether layers that are computed now are part of a graph."""
        if self.is_offloaded or not torch.is_grad_enabled():
            return False
        return any(weight.requires_grad for weight in self.parameters())

    def _drop_stale(self) -> None:
        """Forget what was computed with other weights or in another precision: a
        tensor's version counter rises with every change in place, other changes
        move its data."""
        seen = self._traces()
        if seen == self._seen_weights:
            return
        with exclusively():
            if seen != self._seen_weights:
                self._forget()
                self._seen_weights = seen

    def _traces(self) -> tuple:
        """What of precision and weights changes with them."""
        weights = () if self.is_offloaded else self.parameters()
        of_weights = (
            (weight.data_ptr(), weight.dtype, 0 if weight.is_inference() else weight._version)
            for weight in weights
        )
        return (self.precision, *of_weights)

    def bring_back(self) -> None:
        with exclusively():
            is_fresh = self._seen_weights == self._traces()
            super().bring_back()
            if is_fresh:
                self._seen_weights = self._traces()

    def _forget(self) -> None:
        self._warm = self._packed = self._checksum = None
        self._opened = {}
        self.cache.clear()

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_packed": None}
