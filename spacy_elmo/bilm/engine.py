"""The forward pass of weights that do not change, near the limit of the machine."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Optional, cast

import torch
from torch import Tensor, nn

from ..frozen.packing import windows
from .char_cnn import Highway, pool
from .convolution import largest_of_windows
from .lockstep import FEW_ROWS, LockstepLSTMs
from .lstm import ProjectedLSTM
from .lstm_products import doubled_candidate
from .prepacked import make_product
from .sequence import lstm_step
from .threads import is_long_task, side_by_side
from .token_encoder import TokenEncoder, TokenEncoding

# Bounds of the working memory: different tokens that are multiplied at a time, and packed
# items of a higher layer's inputs.
TOKEN_TYPES = 2048
LAYER_ITEMS = 256


class Engine:
    """A biLM's weights as its forward pass wants them, and this pass. It holds
    copies: whoever changes the weights makes a new one. It keeps nothing from call
    to call, so any number of threads may use it.

    encoder (TokenEncoder): The token encoder.
    stacks (Sequence[Sequence[ProjectedLSTM]]): The LSTMs of each direction.
    precision (str): "float32", "bfloat16" or "int8"; what `resolve_precision` gave.
    use_skip_connections (bool): Whether a higher layer's input is added to its output.
    """

    @torch.no_grad()
    def __init__(
        self,
        encoder: TokenEncoder,
        stacks: Sequence[Sequence[ProjectedLSTM]],
        precision: str,
        *,
        use_skip_connections: bool,
    ):
        self.encoder = PackedEncoder(encoder, precision)
        self.use_skip_connections = use_skip_connections
        self.layers = [PackedLayer(lstms, precision) for lstms in zip(*stacks)]
        self.n_weights = sum(layer.n_weights for layer in self.layers)

    @torch.no_grad()
    def run(
        self, vectors: Tensor, rows: Tensor, batch_sizes: list[int], hidden: Tensor, cell: Tensor
    ) -> tuple[list[Tensor], Tensor, Tensor]:
        """Run the stacks over packed sequences.

        vectors (Tensor): Token vectors. *Shape:* `(n_types, P)`
        rows (Tensor): Row of `vectors` for every packed item, in the running
            order of each direction. *Shape:* `(n_directions, n_items)`
        batch_sizes (List[int]): Sequences running at each step, never rising.
        hidden (Tensor): State to start from. *Shape:* `(n_directions, L, n_sequences, P)`
        cell (Tensor): State to start from. *Shape:* `(n_directions, L, n_sequences, D)`
        RETURNS (Tuple[List[Tensor], Tensor, Tensor]): The output of each LSTM layer,
            packed, *Shape:* `(n_directions, n_items, P)`; hidden and cell state after.
        """
        rows, hidden, cell = rows[: len(hidden)], hidden.clone(), cell.clone()
        outputs: list[Tensor] = []
        for i, layer in enumerate(self.layers):
            inputs = outputs[-1] if i else None
            state = hidden[:, i], cell[:, i]
            output = layer.run(vectors, rows, inputs, batch_sizes, *state)
            if i and self.use_skip_connections:
                output += outputs[-1]
            outputs.append(output)
        return outputs, hidden, cell


class PackedLayer:
    """One layer, in every direction.

    lstms (Sequence[ProjectedLSTM]): The layer of each direction.
    precision (str): "float32", "bfloat16" or "int8".
    """

    def __init__(self, lstms: Sequence[ProjectedLSTM], precision: str):
        self.packed = [PackedLSTM(lstm, precision) for lstm in lstms]
        self.n_weights = lstms[0].state_weight.numel()
        self.lockstep = None
        if LockstepLSTMs.fits(lstms[0]):
            self.lockstep = LockstepLSTMs(lstms, [lstm.of_inputs for lstm in self.packed])

    def run(
        self,
        vectors: Tensor,
        rows: Tensor,
        inputs: Optional[Tensor],
        batch_sizes: list[int],
        hidden: Tensor,
        cell: Tensor,
    ) -> Tensor:
        """Run over packed sequences: each direction for itself, and when few sequences
        are left, both side by side. The state is changed in place.

        vectors (Tensor): Token vectors. *Shape:* `(n_types, P)`
        rows (Tensor): As `Engine.run` takes them. *Shape:* `(n_directions, n_items)`
        inputs (Optional[Tensor]): What the layer below gave, None for the lowest.
            *Shape:* `(n_directions, n_items, P)`
        batch_sizes (List[int]): Sequences running at each step.
        hidden (Tensor): *Shape:* `(n_directions, n_sequences, P)`
        cell (Tensor): *Shape:* `(n_directions, n_sequences, D)`
        RETURNS (Tensor): *Shape:* `(n_directions, n_items, P)`
        """
        few = FEW_ROWS if self.lockstep is not None else 0
        n_many = bisect_left(batch_sizes, -few, key=lambda size: -size)
        many, n_items = batch_sizes[:n_many], sum(batch_sizes[:n_many])
        outputs = vectors.new_empty(*rows.shape, vectors.shape[1])

        def run(d: int) -> None:
            lstm = self.packed[d]
            if inputs is None:
                gates = lstm.gates_of_tokens(vectors, rows[d, :n_items], many)
            else:
                gates = lstm.gates_of_layer(inputs[d, :n_items], many)
            lstm.run(zip(gates, outputs[d, :n_items].split(many)), hidden[d], cell[d])

        are_long = is_long_task(batch_sizes[0], self.n_weights)
        side_by_side([partial(run, d) for d in range(len(self.packed))], wanted=are_long)
        if self.lockstep is not None and n_many < len(batch_sizes):
            rest = slice(n_items, None)
            read = vectors[rows[:, rest]] if inputs is None else inputs[:, rest]
            self.lockstep.run(read, batch_sizes[n_many:], hidden, cell, outputs[:, rest])
        return outputs


class PackedLSTM:
    """One `ProjectedLSTM`. As in training, one sigmoid serves all four gates,
    which stand in the order o, i, f, j, with what belongs to j doubled:
    tanh(x) = 2 sigmoid(2x) - 1.

    lstm (ProjectedLSTM): The layer.
    precision (str): "float32", "bfloat16" or "int8".
    """

    def __init__(self, lstm: ProjectedLSTM, precision: str):
        self.cell_clip, self.proj_clip = lstm.cell_clip, lstm.proj_clip
        bias = doubled_candidate(lstm.full_bias())
        self.of_inputs = make_product(doubled_candidate(lstm.input_weight), bias, precision)
        self.of_state = make_product(doubled_candidate(lstm.state_weight), None, precision)
        self.project = None
        if lstm.projection is not None:
            self.project = make_product(lstm.projection, None, precision)

    def gates_of_tokens(
        self, vectors: Tensor, rows: Tensor, batch_sizes: list[int]
    ) -> Iterator[Tensor]:
        """The products of tokens, once for those that are the same.

        vectors (Tensor): *Shape:* `(n_types, P)`
        rows (Tensor): Row of `vectors` for every packed item. *Shape:* `(n_items,)`
        batch_sizes (List[int]): Sequences running at each step.
        YIELDS (Tensor): `W x + b` of each step. *Shape:* `(batch_sizes[step], 4D)`
        """
        are_few = len(vectors) <= TOKEN_TYPES
        for steps, items in windows(batch_sizes, len(rows) if are_few else TOKEN_TYPES):
            used, places = torch.unique(rows[items], return_inverse=True)
            products = self.of_inputs(vectors.index_select(0, used))
            gates = products.new_empty(batch_sizes[steps.start], products.shape[1])
            for place in places.split(batch_sizes[steps]):
                yield torch.index_select(products, 0, place, out=gates[: len(place)])
            del products  # before the next are made

    def gates_of_layer(self, inputs: Tensor, batch_sizes: list[int]) -> Iterator[Tensor]:
        """The products of what a layer gave.

        inputs (Tensor): *Shape:* `(n_items, P)`
        batch_sizes (List[int]): Sequences running at each step.
        YIELDS (Tensor): `W x + b` of each step. *Shape:* `(batch_sizes[step], 4D)`
        """
        for steps, items in windows(batch_sizes, LAYER_ITEMS):
            yield from self.of_inputs(inputs[items]).split(batch_sizes[steps])

    def run(self, steps: Iterator[tuple[Tensor, Tensor]], hidden: Tensor, cell: Tensor) -> None:
        """Run over the steps. The state is changed in place: a row that has ended
        keeps what it had.

        steps (Iterator[Tuple[Tensor, Tensor]]): `W x + b` of each step, which is
            overwritten, and where its output goes. *Shapes:* `(n, 4D)`, `(n, P)`
        hidden (Tensor): *Shape:* `(n_sequences, P)`
        cell (Tensor): *Shape:* `(n_sequences, D)`
        """
        squashed = torch.empty_like(cell)
        for gates, output in steps:
            size = len(gates)
            self.of_state.add_to(gates, hidden[:size])
            now, gated = cell[:size], squashed[:size]
            lstm_step(gates, now, self.cell_clip, now, gated, gated)
            if self.project is None:
                output.copy_(gated)
            else:
                self.project.write_to(output, gated)
                if self.proj_clip is not None:
                    output.clamp_(-self.proj_clip, self.proj_clip)
            hidden[:size] = output


class PackedHighway:
    """A `Highway`, its two products as one.

    highway (Highway): The layer.
    precision (str): "float32", "bfloat16" or "int8".
    """

    def __init__(self, highway: Highway, precision: str):
        both = (highway.gate, highway.nonlinear)
        weight = torch.cat([linear.weight for linear in both])
        bias = torch.cat([linear.bias for linear in both])
        self.of_inputs = make_product(weight, bias, precision)

    def __call__(self, inputs: Tensor) -> Tensor:
        """
        inputs (Tensor): *Shape:* `(n, F)`
        RETURNS (Tensor): *Shape:* `(n, F)`
        """
        gate, nonlinear = self.of_inputs(inputs).chunk(2, dim=1)
        return torch.lerp(inputs, nonlinear.relu_(), gate.sigmoid_())


class PackedEncoder(TokenEncoding):
    """A `TokenEncoder`.

    encoder (TokenEncoder): The token encoder.
    precision (str): "float32", "bfloat16" or "int8": of highways and projection.
    """

    def __init__(self, encoder: TokenEncoder, precision: str):
        # Not the encoder itself: its weights, where others stand for them, are not to stay.
        self.embedding, self.words = encoder.embedding, encoder.words
        self.activation, self.are_ready_made = encoder.activation, encoder.are_ready_made
        # Of the longest product.
        self.n_weights = max(weight.numel() for weight in encoder.parameters())
        self.convolutions = cast(Sequence[nn.Conv1d], encoder.convolutions)
        highways = cast(Sequence[Highway], encoder.highways)
        self.highways: Sequence[Callable[[Tensor], Tensor]] = highways
        if precision != "float32":  # a copy of those would cost more memory than it gains
            self.highways = [PackedHighway(highway, precision) for highway in highways]
        self.projection, layer = None, encoder.projection
        if layer is not None:
            self.projection = make_product(layer.weight, layer.bias, precision)

    def is_long(self, n_tokens: int) -> bool:
        """RETURNS (bool): Whether half of the tokens are worth a thread."""
        # A single token has no second half, however large the matrices are.
        return n_tokens > 1 and is_long_task(n_tokens // 2, self.n_weights)

    __call__ = torch.no_grad()(TokenEncoding.combine)

    def of_characters(self, character_ids: Tensor, product_dtype: None = None) -> Tensor:
        assert self.embedding is not None
        pooled = pool(character_ids, self.embedding, self.convolutions, largest_of_windows)
        vectors: Tensor = self.activation(pooled)
        for highway in self.highways:
            vectors = highway(vectors)
        return vectors

    def project(self, vectors: Tensor, product_dtype: None = None) -> Tensor:
        return vectors if self.projection is None else self.projection(vectors)
