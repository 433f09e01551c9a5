"""The biLM of Peters et al. 2018: a token encoder and two stacks of LSTMs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Optional, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..frozen.config import BiLMConfig
from ..frozen.packing import mirrored, windows
from ..frozen.vocabulary import Vocabularies
from .connection import HighwayConnection
from .embedder import Embedder
from .lstm import ProjectedLSTM
from .meta_device import on_meta_device
from .state import BiLMState

WINDOW_ITEMS = 2048  # packed items of a window: a bound of the working memory


class BiLM(Embedder):
    """The bidirectional language model (Peters et al. 2018, section 3.1, with bilm-tf's
    arithmetic). Of the tokens t_1 .. t_N the forward stack predicts each from those before it,
    the backward stack from those after it:

        p(t_1 .. t_N) = prod_k p(t_k | t_1 .. t_{k-1}) = prod_k p(t_k | t_{k+1} .. t_N)

    The token encoder, which both share, gives x_k, layer 0; LSTM j of a stack gives h_{k,j}
    from h_{k,j-1}, with h_{k,0} = x_k, and from the second on its input is added or goes
    through a highway; or it reads [h_{k,j-1} forward; h_{k,j-1} backward]. A token has
    the layers R_k = {[x_k; x_k], [h_{k,j} forward; h_{k,j} backward] for j = 1 .. L}, whose
    weighted sum is ELMo (section 3.2, equation 1).

    Deterministic: what a sequence gets depends on its tokens and its state alone.

    config (BiLMConfig): The sizes.
    vocabularies (Vocabularies): Words and code points that the token encoder looks up.
    cache (int): Token strings whose vectors are kept while no gradient is asked for.
    precision (str): In which numbers matrix products are computed while no
        gradient is asked for: "float32", "bfloat16", "int8", or "auto" for the
        fastest whose vectors stay near those of float32. It may be set at any time.
    RAISES (ValueError): There is no such precision, or the vocabularies do not fit
        the sizes.
    """

    def __init__(
        self,
        config: BiLMConfig,
        vocabularies: Vocabularies = Vocabularies(),
        *,
        cache: int = 20_000,
        precision: str = "float32",
    ):
        super().__init__(config, vocabularies, cache=cache, precision=precision)
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
        """Run the stacks over packed sequences.

        vectors (Tensor): Token vectors, x. *Shape:* `(n_types, P)`
        rows (Tensor): Row of `vectors` for every packed item, in the running
            order of each direction. *Shape:* `(n_directions, n_items)`
        batch_sizes (List[int]): Sequences running at each step, never rising.
        state (BiLMState): State to start from, a row a sequence.
        dropout (float): Rate on each LSTM's input, in training mode.
        product_dtype (Optional[torch.dtype]): Type of the matrix products, if not the
            weights' own.
        RETURNS (Tuple[List[List[Tensor]], BiLMState]): For every direction h, the
            output of each LSTM layer, packed, *Shape:* `(n_items, P)`; the state after.
        """
        if self.config.joined_directions:
            return self._run_joined(vectors, rows, batch_sizes, state, dropout, product_dtype)
        # Windows with carried state are exact, and bound the working memory; but autograd keeps
        # every step anyway, and they would only cost time.
        max_items = rows.shape[1] if self.wants_gradient() else WINDOW_ITEMS
        outputs, hiddens, cells = [], [], []
        for direction, stack in enumerate(cast(Sequence[Sequence[ProjectedLSTM]], self.stacks)):
            hidden, cell = list(state.hidden[direction]), list(state.cell[direction])
            parts: list[list[Tensor]] = [[] for _ in stack]
            for steps, items in windows(batch_sizes, max_items):
                inputs = vectors.index_select(0, rows[direction, items])
                sizes = batch_sizes[steps]
                for i, lstm in enumerate(stack):
                    inputs = F.dropout(inputs, dropout, self.training)
                    started = hidden[i][: sizes[0]], cell[i][: sizes[0]]
                    output, *ended = lstm(inputs, sizes, *started, product_dtype)
                    # Sequences that have ended before keep their state.
                    hidden[i] = torch.cat([ended[0], hidden[i][sizes[0] :]])
                    cell[i] = torch.cat([ended[1], cell[i][sizes[0] :]])
                    if i and self.highways:
                        highways = cast(nn.ModuleList, self.highways[direction])
                        inputs = highways[i - 1](output, inputs, product_dtype)
                    else:
                        skip = self.config.use_skip_connections and i > 0
                        inputs = output + inputs if skip else output
                    parts[i].append(inputs)
            outputs.append([torch.cat(part) for part in parts])
            hiddens.append(torch.stack(hidden))
            cells.append(torch.stack(cell))
        return outputs, BiLMState(torch.stack(hiddens), torch.stack(cells))

    def _run_joined(
        self,
        vectors: Tensor,
        rows: Tensor,
        batch_sizes: list[int],
        state: BiLMState,
        dropout: float,
        product_dtype: Optional[torch.dtype],
    ) -> tuple[list[list[Tensor]], BiLMState]:
        """As `forward`, a layer at a time, each of which reads both directions."""
        mirror = self._to_device(mirrored(batch_sizes))
        inputs = [vectors.index_select(0, each) for each in rows]
        outputs: list[list[Tensor]] = [[], []]
        ended: list[list[tuple[Tensor, Tensor]]] = [[], []]
        for i in range(self.config.n_layers):
            for d, stack in enumerate(cast(Sequence[Sequence[ProjectedLSTM]], self.stacks)):
                dropped = F.dropout(inputs[d], dropout, self.training)
                before = state.hidden[d, i], state.cell[d, i]
                started = [part[: batch_sizes[0]] for part in before]
                output, *after = stack[i](dropped, batch_sizes, *started, product_dtype)
                rest = [part[batch_sizes[0] :] for part in before]  # sequences without a token
                hidden, cell = (torch.cat(pair) for pair in zip(after, rest))
                ended[d].append((hidden, cell))
                outputs[d].append(output)
            forward, backward = (layers[-1] for layers in outputs)
            inputs = [
                torch.cat([forward, backward.index_select(0, mirror)], dim=1),
                torch.cat([forward.index_select(0, mirror), backward], dim=1),
            ]
        states = (torch.stack([torch.stack(each) for each in zip(*pairs)]) for pairs in ended)
        hidden, cell = torch.stack(list(states)).unbind(1)
        return outputs, BiLMState(hidden, cell)

    def first_layers(self, n_layers: int) -> "BiLM":
        """The model without its higher LSTM layers, on the same weights: what the lower ones
        give does not depend on them.

        n_layers (int): LSTM layers that stay.
        RETURNS (BiLM): The model, frozen, in evaluation mode.
        RAISES (ValueError): There are not so many.
        """
        if not 1 <= n_layers <= self.config.n_layers:
            raise ValueError(f"n_layers must be from 1 to {self.config.n_layers}, got {n_layers}")
        with on_meta_device():
            lower = BiLM(
                replace(self.config, n_layers=n_layers),
                self.indexer.vocabularies,
                cache=self.cache.capacity,
                precision=self.precision,
            )
        lower.alignment = self.alignment
        weights = self.with_weights().state_dict()
        lower.load_state_dict({name: weights[name] for name in lower.state_dict()}, assign=True)
        lower.provenance = self.provenance
        lower.eval().requires_grad_(False)
        reader = self._reader
        if reader is not None:
            lower.offload(lambda: reader().first_layers(n_layers))
        return lower
