"""BiLM of Peters et al. 2018: a token encoder and two stacks of LSTMs."""

import math
from collections.abc import Sequence
from typing import Any, Optional, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..frozen.model import FrozenBiLM, not_finite
from ..frozen.recurrence import initial_state
from ..model.config import BiLMConfig, parameter_shapes
from ..model.indexers import TokenIds
from ..model.memory import Weights
from ..model.packing import lay_out, mirrored, windows, without_ends
from ..model.vocabulary import Vocabularies
from .lstm import BiLMState, HighwayConnection, ProjectedLSTM, State
from .meta_device import on_meta_device
from .precision import resolve_module_precision
from .token_encoder import TokenEncoder
from .transfer import to_device

# Packed items per window without a gradient, to limit the memory.
WINDOW_ITEMS = 2048
# Tokens per call of the CNN without a gradient, to limit the memory.
ENCODER_TOKENS = 256


class BiLM(nn.Module):
    """Bidirectional language model (Peters et al. 2018, section 3.1).

    The results are the same as bilm-tf's. The forward stack predicts each token t_k from the
    tokens before it. The backward stack predicts it from the tokens after it:

        p(t_1 .. t_N) = prod_k p(t_k | t_1 .. t_{k-1}) = prod_k p(t_k | t_{k+1} .. t_N)

    Both share the token encoder, which computes x_k, layer 0. LSTM j of a stack computes h_{k,j}
    from h_{k,j-1}, where h_{k,0} = x_k. From the second LSTM on, a residual or highway connection
    joins input and output. With joined directions, an LSTM reads [h_{k,j-1} forward; h_{k,j-1}
    backward].

    A token has the layers R_k = {[x_k; x_k], [h_{k,j} forward; h_{k,j} backward] for j = 1 .. L}.
    Their weighted sum is ELMo (section 3.2, equation 1).

    Use this module to train, to fine-tune, or on a GPU. On a CPU, the result of `freeze` is faster.

    vocabularies (Vocabularies): Words and code points that the token encoder looks up.
    RAISES (ValueError): The vocabularies do not fit the sizes.
    """

    def __init__(self, config: BiLMConfig, vocabularies: Vocabularies = Vocabularies()):
        super().__init__()
        self.config = config
        self.encoder = TokenEncoder(config, vocabularies)
        self.indexer = self.encoder.indexer
        self.stacks = nn.ModuleList(
            nn.ModuleList(ProjectedLSTM(config, layer) for layer in range(config.n_layers))
            for _ in range(config.n_directions)
        )
        # A buffer, so that it moves with the module and is saved. None is not saved.
        self.alignment: Optional[Tensor]
        self.register_buffer("alignment", None)
        self.provenance: dict[str, Any] = {}
        self.precision = "float32"  # Used only on a GPU, if no gradient is needed.
        has_highways = config.connections == "highway"
        self.highways = nn.ModuleList(
            nn.ModuleList(
                HighwayConnection(width=config.projection_dim) for _ in range(1, config.n_layers)
            )
            for _ in range(config.n_directions if has_highways else 0)
        )

    def forward(
        self,
        vectors: Tensor,
        rows: Tensor,
        batch_sizes: list[int],
        state: BiLMState,
        *,
        dropout: float = 0.0,
        product_dtype: Optional[torch.dtype] = None,
    ) -> tuple[list[list[Tensor]], BiLMState]:
        """Run the LSTM stacks over packed sequences (see `model.packing`).

        vectors (Tensor): Vectors of the different tokens, x. *Shape:* `(n_types, P)`
        rows (Tensor): Index into `vectors` for each packed item, in each direction's own order:
            backward items start at the end of a sequence. *Shape:* `(n_directions, n_items)`
        batch_sizes (List[int]): Number of running rows at each step, in non-increasing order.
        state (BiLMState): Initial state, one row per sequence.
        dropout (float): Dropout rate of each LSTM's input, in training mode.
        product_dtype (Optional[torch.dtype]): Type of matrix products; None: the weights' type.
        RETURNS (Tuple[List[List[Tensor]], BiLMState]): For every direction, the packed output h of
            each LSTM layer, *Shape:* `(n_items, P)`; and the state after the last step.
        """
        if not self.config.joined_directions:
            found = [
                self.run_stack(d, vectors, rows[d], batch_sizes, state, dropout, product_dtype)
                for d in range(len(self.stacks))
            ]
            outputs, hidden, cell = (list(each) for each in zip(*found))
            return outputs, joined_state(hidden, cell)
        # Each layer after the first reads both directions of the layer below.
        mirror = self.to_device(mirrored(batch_sizes))
        inputs = [vectors.index_select(0, each) for each in rows]
        outputs = [[], []]
        hidden, cell = [list(each) for each in state.hidden], [list(each) for each in state.cell]
        for i in range(self.config.n_layers):
            for d, stack in enumerate(cast(Sequence[Sequence[ProjectedLSTM]], self.stacks)):
                dropped = F.dropout(inputs[d], dropout, self.training)
                output, hidden[d][i], cell[d][i] = stack[i](
                    dropped, batch_sizes, hidden[d][i], cell[d][i], product_dtype
                )
                outputs[d].append(output)
            forward, backward = (layers[-1] for layers in outputs)
            inputs = [
                torch.cat([forward, backward.index_select(0, mirror)], dim=1),
                torch.cat([forward.index_select(0, mirror), backward], dim=1),
            ]
        return outputs, joined_state(hidden, cell)

    def run_stack(
        self,
        d: int,
        vectors: Tensor,
        rows: Tensor,
        batch_sizes: list[int],
        state: BiLMState,
        dropout: float = 0.0,
        product_dtype: Optional[torch.dtype] = None,
    ) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """Run the LSTM stack of one direction. For the other arguments, see `forward`.

        d (int): The direction: 0 is forward, 1 is backward.
        rows (Tensor): Index into `vectors` for each packed item. *Shape:* `(n_items,)`
        RETURNS (Tuple[List[Tensor], List[Tensor], List[Tensor]]): Packed outputs, and hidden and
            cell states after the last step, of every layer.
        """
        # Windows limit the memory. They do not change the result, because each window starts from
        # the state of the previous one. With a gradient there are no windows: autograd keeps all
        # steps anyway.
        max_items = len(rows) if self.wants_gradient() else WINDOW_ITEMS
        stack = cast(Sequence[ProjectedLSTM], self.stacks[d])
        hidden, cell = list(state.hidden[d]), list(state.cell[d])
        parts: list[list[Tensor]] = [[] for _ in stack]
        for steps, items in windows(batch_sizes, max_items):
            inputs = vectors.index_select(0, rows[items])
            for i, lstm in enumerate(stack):
                inputs = F.dropout(inputs, dropout, self.training)
                output, hidden[i], cell[i] = lstm(
                    inputs, batch_sizes[steps], hidden[i], cell[i], product_dtype
                )
                # The first LSTM has no connection from its input to its output, as in bilm-tf.
                if i and self.highways:
                    highways = cast(nn.ModuleList, self.highways[d])
                    output = highways[i - 1](output, inputs, product_dtype)
                elif i and self.config.use_skip_connections:
                    output = output + inputs
                parts[i].append(output)
                inputs = output
        return [torch.cat(part) for part in parts], hidden, cell

    def embed(
        self, sentences: Sequence[Sequence[str]], state: State = None, *, keep_marks: bool = False
    ) -> tuple[list[Tensor], BiLMState]:
        """Compute the layers of tokenized sentences. Sentences can be empty or of any length.

        The layers are the same as in `FrozenBiLM.embed`. They have a gradient if the weights
        require one.

        sentences (Sequence[Sequence[str]]): The tokens.
        state (Union[None, str, BiLMState]): Initial state, one row per sentence. None: zeros.
            "warm": the state after an empty sentence (`<S> </S>`).
        keep_marks (bool): Whether to return the marks' vectors, too: first and last of a sentence.
        RETURNS (Tuple[List[Tensor], BiLMState]): The layers of each sentence, *Shape:*
            `(L + 1, n_tokens, width)`, and the state after each sentence. With `keep_marks`,
            n_tokens + 2 vectors.
        RAISES (ValueError): The state has a wrong shape, or a layer contains NaN or infinity.
        """
        start, has_marks = initial_state(self, state, len(sentences)), self.config.sentence_marks
        # Without marks, empty sentences have no item, and nothing can be packed.
        if not sentences or not (has_marks or any(sentences)):
            return self.empty_layers(len(sentences)), start
        types, flat, packed = lay_out(sentences, self.indexer.marks if has_marks else ())
        product_dtype, n_directions = self._product_dtype(), self.config.n_directions
        vectors = self.token_vectors(types, product_dtype)
        rows = self.to_device(flat[packed.positions[:n_directions]])
        states = start.rows(packed.order)
        outputs, after = self(
            vectors, rows, packed.batch_sizes, states, product_dtype=product_dtype
        )
        drops_marks = has_marks and not keep_marks
        kept = without_ends(packed.lengths) if drops_marks else np.arange(packed.n_items)
        back = self.to_device(packed.inverse()[:n_directions, kept])
        token = vectors.index_select(0, self.to_device(flat[kept]))
        layers = [torch.cat([token] * n_directions, dim=1)]
        for of_layer in zip(*outputs):
            parts = [output.index_select(0, back[d]) for d, output in enumerate(of_layer)]
            layers.append(torch.cat(parts, dim=1))
        stacked = torch.stack(layers)
        if self.alignment is not None:
            stacked = stacked @ self.alignment.T
        if not is_finite(stacked):
            raise not_finite(self.provenance)
        lengths = [length - 2 * drops_marks for length in packed.lengths]
        return list(stacked.split(lengths, dim=1)), after.rows(np.argsort(packed.order))

    def token_vectors(
        self, tokens: Sequence[str], product_dtype: Optional[torch.dtype] = None
    ) -> Tensor:
        """Compute the context-free vectors of tokens with the token encoder.

        tokens (Sequence[str]): Different strings.
        product_dtype (Optional[torch.dtype]): Type of matrix products; None: the weights' type.
        RETURNS (Tensor): *Shape:* `(n_tokens, P)`
        """
        if not tokens:
            return self.zero_state(0).hidden.new_zeros(0, self.config.projection_dim)
        # Encode tokens of similar length together, so that they have less padding.
        order = np.argsort([len(token) for token in tokens], kind="stable")
        # Split the tokens only if there is no gradient: otherwise parts save little memory.
        size = len(tokens) if self.wants_gradient() else ENCODER_TOKENS
        parts = []
        for start in range(0, len(tokens), size):
            ids = self.indexer([tokens[i] for i in order[start : start + size]])
            parts.append(self.vectors_of_ids(ids, product_dtype))
        return torch.cat(parts).index_select(0, self.to_device(np.argsort(order)))

    def vectors_of_ids(self, ids: TokenIds, product_dtype: Optional[torch.dtype] = None) -> Tensor:
        """Compute the context-free vectors of tokens from the ids of the indexer.

        ids (TokenIds): Arrays. Tokens of similar length beside each other need less padding.
        product_dtype (Optional[torch.dtype]): Type of matrix products; None: the weights' type.
        RETURNS (Tensor): *Shape:* `(n_tokens, P)`
        """
        n_tokens = next(len(each) for each in ids if each is not None)
        size = n_tokens if self.wants_gradient() else ENCODER_TOKENS
        parts = []
        for start in range(0, n_tokens, size):
            arrays = (None if each is None else each[start : start + size] for each in ids)
            tensors = (None if each is None else self.to_device(each) for each in arrays)
            parts.append(self.encoder(TokenIds(*tensors), product_dtype))
        return torch.cat(parts)

    def zero_state(self, n_sequences: int) -> BiLMState:
        """Return an LSTM state of zeros, one row per sequence."""
        weight = cast(ProjectedLSTM, cast(nn.ModuleList, self.stacks[0])[0]).bias
        sizes = (self.config.n_directions, self.config.n_layers, n_sequences)
        return BiLMState(
            weight.new_zeros(*sizes, self.config.projection_dim),
            weight.new_zeros(*sizes, self.config.lstm_dim),
        )

    def warm_state(self) -> BiLMState:
        """Return the LSTM state after an empty sentence (`<S> </S>`), for one sequence.

        For a model without sentence marks, this is a state of zeros.
        """
        return self.embed([[]])[1] if self.config.sentence_marks else self.zero_state(1)

    @classmethod
    def from_frozen(cls, frozen: FrozenBiLM) -> "BiLM":
        """Make a trainable module from a frozen model.

        RETURNS (BiLM): A module with a copy of the weights, in evaluation mode.
        RAISES (ValueError): The file with the weights has changed since it was read.
        """
        with on_meta_device():
            bilm = cls(frozen.config, frozen.vocabularies)
            if frozen.alignment is not None:
                # `load_state_dict` refuses values for a buffer that is None.
                bilm.alignment = torch.empty(frozen.alignment.shape)
        copies = {
            # A copy, because `from_numpy` shares memory, and a frozen model never changes.
            name: torch.from_numpy(np.array(values, dtype="float32"))
            for name, values in frozen.arrays().items()
        }
        bilm.load_state_dict(copies, assign=True)
        bilm.provenance, bilm.precision = frozen.provenance, frozen.precision
        return bilm.eval()

    def freeze(self) -> FrozenBiLM:
        """Return a FrozenBiLM with a copy of the weights, for computing on a CPU."""
        state = self.state_dict()
        arrays = {
            name: state[name].to("cpu", torch.float32, copy=True).numpy()
            for name in parameter_shapes(self.config)
        }
        alignment = None if self.alignment is None else self.alignment.float().cpu().numpy().copy()
        return FrozenBiLM(
            self.config,
            self.indexer.vocabularies,
            Weights(arrays),
            precision=self.precision,
            alignment=alignment,
            provenance=self.provenance,
        )

    def checksum(self) -> str:
        """Compute the same SHA-256 as `FrozenBiLM.checksum`, from a temporary copy of weights."""
        return self.freeze().checksum()

    def empty_layers(self, n_sentences: int) -> list[Tensor]:
        """Return the layers of sentences without tokens, each `(L + 1, 0, width)`."""
        shape = (self.config.n_layers + 1, 0, self.config.width)
        return [self.zero_state(0).hidden.new_zeros(shape) for _ in range(n_sentences)]

    def wants_gradient(self) -> bool:
        """Return whether layers that are computed now get a gradient."""
        return torch.is_grad_enabled() and any(each.requires_grad for each in self.parameters())

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return self.zero_state(0).hidden.device

    def _product_dtype(self) -> Optional[torch.dtype]:
        """Return the type of matrix products in `embed`; None for the type of the weights."""
        if self.wants_gradient():
            return None
        precision = resolve_module_precision(self.precision, self.device)
        return None if precision == "float32" else getattr(torch, precision)

    def to_device(self, array: np.ndarray) -> Tensor:
        """Copy an array to the device of the weights. The caller does not wait for a GPU."""
        return to_device(torch.from_numpy(np.ascontiguousarray(array)), self.device)


def joined_state(hidden: Sequence[list[Tensor]], cell: Sequence[list[Tensor]]) -> BiLMState:
    """Join hidden and cell states, in lists `[direction][layer]`, to one BiLMState."""
    both = (torch.stack([torch.stack(layers) for layers in each]) for each in (hidden, cell))
    return BiLMState(*both)


def is_finite(tensor: Tensor) -> bool:
    """Return whether a tensor has neither NaN nor infinity."""
    # Check the sum first, because it needs one pass and no memory. It may overflow, so check all
    # values if the sum is not finite.
    return math.isfinite(float(tensor.detach().sum())) or bool(tensor.isfinite().all())
