"""LSTM stacks of frozen weights, over packed sequences.

The product of an LSTM's input does not depend on the step before. It is computed for many items
at once, and only the product of the state remains in the loop over steps. In the lowest layer, the
input is a token vector, so one product serves all occurrences of a token. Steps are cut into
windows, which bound the memory and keep the gates in the processor's caches. The state is carried
from window to window, so the cuts do not change what is computed.

The two directions run on two threads. They meet only at the end, or before each layer if layers
read both directions.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Union

import numpy as np

from .config import BiLMConfig, parameter_shapes
from .encoder import Weights, stored_type
from .gates import FORGET_BIAS
from .kernel import Kernel
from .kernel.numpy_kernel import LSTMWeights, sigmoid
from .packing import mirrored, windows
from .threads import side_by_side

# Rows whose input products are in memory at a time, in the lowest layer and in higher ones. They
# are few enough to stay in a processor's caches until the steps read them.
TOKEN_TYPES = 2048
LAYER_ITEMS = 256


@dataclass(frozen=True)
class FrozenState:
    """Hidden and cell state of the LSTMs, one row a sequence, forward stack first.

    hidden (numpy.ndarray): *Shape:* `(n_directions, L, n_sequences, P)`
    cell (numpy.ndarray): *Shape:* `(n_directions, L, n_sequences, D)`
    """

    hidden: np.ndarray
    cell: np.ndarray

    def __len__(self) -> int:
        return self.hidden.shape[2]

    def rows(self, index: Union[np.ndarray, Sequence[int]]) -> "FrozenState":
        """Choose, repeat or reorder rows.

        index (Union[numpy.ndarray, Sequence[int]]): Numbers of the rows.
        RETURNS (FrozenState): A copy of these rows.
        """
        index = np.asarray(index, dtype="int64")
        return FrozenState(self.hidden.take(index, axis=2), self.cell.take(index, axis=2))

    @classmethod
    def concatenate(cls, states: Sequence["FrozenState"]) -> "FrozenState":
        """Return the rows of all states, in order."""
        return cls(
            np.concatenate([state.hidden for state in states], axis=2),
            np.concatenate([state.cell for state in states], axis=2),
        )


State = Union[None, Literal["warm"], FrozenState]


def initial_state(bilm: Any, state: Any, n_sequences: int) -> Any:
    """Return the state that sequences start from.

    bilm (Union[FrozenBiLM, BiLM]): The model.
    state (Union[None, str, FrozenState, BiLMState]): None for zeros, "warm" for the state after one
        empty sentence, or a state with one row a sequence.
    n_sequences (int): Number of sequences.
    RETURNS (Union[FrozenState, BiLMState]): One row a sequence.
    RAISES (ValueError): The state has another shape or type.
    """
    zeros = bilm.zero_state(n_sequences)
    if state is None:
        return zeros
    if isinstance(state, str):
        if state != "warm":
            kind = type(zeros).__name__
            raise ValueError(f"state must be None, 'warm' or a {kind}, got {state!r}")
        return bilm.warm_state().rows([0] * n_sequences)
    for name in ("hidden", "cell"):
        got, wanted = (tuple(getattr(each, name).shape) for each in (state, zeros))
        if got != wanted:
            raise ValueError(
                f"the {name} state has shape {got}, but {n_sequences} sentences of this model "
                f"need {wanted}. Give one row a sentence."
            )
    return state


class FrozenStacks:
    """LSTM layers of every direction.

    config (BiLMConfig): The sizes.
    weights (Mapping[str, numpy.ndarray]): Weights by their names in `BiLM.state_dict()`.
    kernel (Kernel): Kernel that computes products and steps.
    precision (str): "float32", "bfloat16" or "int8".
    """

    def __init__(self, config: BiLMConfig, weights: Weights, kernel: Kernel, precision: str):
        self.config = config
        shapes = parameter_shapes(config)
        of_layer = [name for name in shapes if name.startswith("stacks.0.0.")]
        self.n_weights = sum(math.prod(shapes[name]) for name in of_layer)
        directions = range(config.n_directions)
        self.layers = [
            [_make_lstm(config, weights, f"stacks.{d}.{i}", kernel, precision) for d in directions]
            for i in range(config.n_layers)
        ]
        self.highways = [
            [_make_gate(weights, f"highways.{d}.{i}.gate", kernel, precision) for d in directions]
            for i in range(config.n_layers - 1 if config.connections == "highway" else 0)
        ]

    def run(
        self,
        vectors: np.ndarray,
        rows: np.ndarray,
        batch_sizes: Sequence[int],
        hidden: np.ndarray,
        cell: np.ndarray,
    ) -> np.ndarray:
        """Run over packed sequences, and change the state in place.

        A row that has ended keeps its state.

        vectors (numpy.ndarray): Token vectors, x. *Shape:* `(n_types, P)`
        rows (numpy.ndarray): Row of `vectors` for every packed item, in the running order of each
            direction. *Shape:* `(n_directions, n_items)`
        batch_sizes (Sequence[int]): Number of sequences that run at each step, never rising.
        hidden (numpy.ndarray): *Shape:* `(n_directions, L, n_sequences, P)`
        cell (numpy.ndarray): *Shape:* `(n_directions, L, n_sequences, D)`
        RETURNS (numpy.ndarray): The packed output of each layer.
            *Shape:* `(L, n_directions, n_items, P)`
        """
        shape = (self.config.n_layers, *rows.shape, vectors.shape[1])
        outputs = np.empty(shape, dtype="float32")
        mirror = mirrored(batch_sizes) if self.config.joined_directions else None

        def run(d: int, layers: Iterable[int]) -> None:
            for i in layers:
                lstm, state = self.layers[i][d], (hidden[d, i], cell[d, i])
                if not i:
                    _run_tokens(lstm, vectors, rows[d], batch_sizes, *state, outputs[0, d])
                    continue
                inputs = outputs[i - 1, d]
                if mirror is not None:
                    pair = [inputs, outputs[i - 1, 1 - d][mirror]]
                    inputs = np.concatenate(pair if d == 0 else pair[::-1], axis=1)
                _run_layer(lstm, inputs, batch_sizes, *state, outputs[i, d])
                self._connect(i, d, inputs, outputs[i, d])

        # One task for all layers of a direction, unless layers read both directions.
        every = range(self.config.n_layers)
        for layers in [[i] for i in every] if mirror is not None else [every]:
            tasks = [partial(run, d, layers) for d in range(len(rows))]
            side_by_side(tasks, rows.shape[1] * self.n_weights * len(layers))
        return outputs

    def _connect(self, i: int, d: int, inputs: np.ndarray, output: np.ndarray) -> None:
        """Join the input of a higher layer to its output, in place."""
        if self.highways:
            gate = sigmoid(self.highways[i - 1][d](inputs))
            output[:] = inputs + gate * (output - inputs)
        elif self.config.use_skip_connections:
            output += inputs


def _run_tokens(
    lstm: Any,
    vectors: np.ndarray,
    rows: np.ndarray,
    batch_sizes: Sequence[int],
    hidden: np.ndarray,
    cell: np.ndarray,
    outputs: np.ndarray,
) -> None:
    """Run the lowest layer, with one input product for all occurrences of a token."""
    if len(vectors) <= TOKEN_TYPES:
        gates = lstm.project_inputs(vectors)
        outputs[:] = lstm.run(gates, rows, batch_sizes, hidden, cell)
        return
    for steps, items in windows(batch_sizes, TOKEN_TYPES):
        used, places = np.unique(rows[items], return_inverse=True)
        gates = lstm.project_inputs(vectors[used])
        outputs[items] = lstm.run(gates, places, batch_sizes[steps], hidden, cell)


def _run_layer(
    lstm: Any,
    inputs: np.ndarray,
    batch_sizes: Sequence[int],
    hidden: np.ndarray,
    cell: np.ndarray,
    outputs: np.ndarray,
) -> None:
    """Run a higher layer."""
    for steps, items in windows(batch_sizes, LAYER_ITEMS):
        gates = lstm.project_inputs(inputs[items])
        outputs[items] = lstm.run(gates, None, batch_sizes[steps], hidden, cell)


def _make_lstm(
    config: BiLMConfig, weights: Weights, name: str, kernel: Kernel, precision: str
) -> Any:
    bias = np.array(weights[f"{name}.bias"], dtype="float32")
    bias[2 * config.lstm_dim : 3 * config.lstm_dim] += FORGET_BIAS
    state_weight = weights[f"{name}.state_weight"]
    parts = LSTMWeights(
        input=weights[f"{name}.input_weight"],
        state=state_weight,
        bias=bias,
        projection=weights.get(f"{name}.projection"),
    )
    clips = {"cell_clip": config.cell_clip or 0.0, "proj_clip": config.proj_clip or 0.0}
    return kernel.make_lstm(parts, stored_type(state_weight, precision), **clips)


def _make_gate(weights: Weights, name: str, kernel: Kernel, precision: str) -> Any:
    weight = weights[f"{name}.weight"]
    return kernel.make_linear(weight, weights[f"{name}.bias"], stored_type(weight, precision))
