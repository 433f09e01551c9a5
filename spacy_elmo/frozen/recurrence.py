"""LSTM stacks of frozen weights, over packed sequences.

The product of the input weights with an LSTM's input does not depend on the previous step. So one
large product computes it for many items, and the loop over steps contains only the product with
the state. In the lowest layer, the input depends only on the text of a token, so equal tokens
share one product.

Steps are cut into windows, to limit the memory and to keep the gates in the processor's caches.
Invariant: each window starts from the state of the previous window, so the cuts do not change the
result.

The two directions of a large batch run in two threads, if a second thread is free. They wait for
each other only at the end. With `joined_directions`, they wait before each layer.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Union

import numpy as np

from ..model.config import FORGET_BIAS, BiLMConfig, parameter_shapes
from ..model.memory import Arrays
from ..model.packing import mirrored, windows
from ..model.threads import side_by_side
from .encoder import stored_type
from .kernel import Kernel
from .kernel.numpy_kernel import LSTMWeights, mark_overflow, sigmoid

# Rows per input product, in the lowest layer and in higher layers. The results are small enough to
# stay in the processor's caches until the steps read them.
TOKEN_TYPES = 2048
LAYER_ITEMS = 256


@dataclass(frozen=True)
class FrozenState:
    """Hidden and cell states of all LSTMs, one row per sequence. Direction 0 is forward.

    hidden (numpy.ndarray): *Shape:* `(n_directions, L, n_sequences, P)`
    cell (numpy.ndarray): *Shape:* `(n_directions, L, n_sequences, D)`
    """

    hidden: np.ndarray
    cell: np.ndarray

    def __len__(self) -> int:
        return self.hidden.shape[2]

    def rows(self, index: Union[np.ndarray, Sequence[int]]) -> "FrozenState":
        """Return the states of some sequences, in the order of `index`.

        index (Union[numpy.ndarray, Sequence[int]]): Indices of the sequences. An index may occur
            more than once.
        RETURNS (FrozenState): A copy of their states.
        """
        index = np.asarray(index, dtype="int64")
        return FrozenState(self.hidden.take(index, axis=2), self.cell.take(index, axis=2))

    @classmethod
    def concatenate(cls, states: Sequence["FrozenState"]) -> "FrozenState":
        """Join several states to one state that has the rows of all, in order."""
        return cls(
            np.concatenate([state.hidden for state in states], axis=2),
            np.concatenate([state.cell for state in states], axis=2),
        )


State = Union[None, Literal["warm"], FrozenState]


def initial_state(bilm: Any, state: Any, n_sequences: int) -> Any:
    """Convert the argument `state` of `embed` to the LSTM state that sequences start from.

    bilm (Union[FrozenBiLM, BiLM]): The model.
    state (Union[None, str, FrozenState, BiLMState]): None for zeros, "warm" for the state after
        an empty sentence (`<S> </S>`), or a state with one row per sequence.
    n_sequences (int): Number of sequences.
    RETURNS (Union[FrozenState, BiLMState]): The state, one row per sequence.
    RAISES (ValueError): The state has the wrong shape, or is a string other than "warm".
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
                f"need {wanted}. Give one row per sentence."
            )
    return state


class FrozenStacks:
    """LSTM stacks of a frozen model, forward and backward.

    config (BiLMConfig): The sizes.
    weights (Mapping[str, numpy.ndarray]): Weights by their names in `BiLM.state_dict()`.
    kernel (Kernel): Kernel that computes matrix products and LSTM steps.
    precision (str): "float32", "bfloat16" or "int8".
    """

    def __init__(self, config: BiLMConfig, weights: Arrays, kernel: Kernel, precision: str):
        self.config = config
        shapes = parameter_shapes(config)
        of_layer = [name for name in shapes if name.startswith("stacks.0.0.")]
        self.n_weights = sum(math.prod(shapes[name]) for name in of_layer)
        clips = {"cell_clip": config.cell_clip or 0.0, "proj_clip": config.proj_clip or 0.0}

        def make_lstm(name: str) -> Any:
            bias = np.array(weights[f"{name}.bias"], dtype="float32")
            bias[2 * config.lstm_dim : 3 * config.lstm_dim] += FORGET_BIAS
            inputs, state = (weights[f"{name}.{one}_weight"] for one in ("input", "state"))
            projection = weights.get(f"{name}.projection")
            matrices = [inputs, state] if projection is None else [inputs, state, projection]
            parts = LSTMWeights(inputs, state, bias, projection)
            return kernel.make_lstm(parts, stored_type(precision, *matrices), **clips)

        def make_gate(name: str) -> Any:
            weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
            return kernel.make_linear(weight, bias, stored_type(precision, weight))

        directions = range(config.n_directions)
        self.layers = [
            [make_lstm(f"stacks.{d}.{i}") for d in directions] for i in range(config.n_layers)
        ]
        self.highways = [
            [make_gate(f"highways.{d}.{i}.gate") for d in directions]
            for i in range(config.n_layers - 1 if config.connections == "highway" else 0)
        ]

    def run(
        self, vectors: np.ndarray, rows: np.ndarray, batch_sizes: list[int], state: FrozenState
    ) -> tuple[np.ndarray, FrozenState]:
        """Run the LSTMs over packed sequences. Arguments and result: see `FrozenBiLM.run`."""
        # The kernels write into these arrays: into copies, and not into a caller's integers.
        hidden, cell = (np.array(each, dtype="float32") for each in (state.hidden, state.cell))
        shape = (self.config.n_layers, *rows.shape, vectors.shape[1])
        outputs = np.empty(shape, dtype="float32")
        mirror = mirrored(batch_sizes) if self.config.joined_directions else None

        def run(d: int, layers: Iterable[int]) -> None:
            for i in layers:
                lstm, states, output = self.layers[i][d], (hidden[d, i], cell[d, i]), outputs[i, d]
                if i == 0 and len(vectors) <= TOKEN_TYPES:
                    gates = lstm.project_inputs(vectors)
                    output[:] = lstm.run(gates, rows[d], batch_sizes, *states)
                    continue
                inputs = outputs[i - 1, d] if i else vectors
                if i and mirror is not None:
                    pair = [inputs, outputs[i - 1, 1 - d][mirror]]
                    inputs = np.concatenate(pair if d == 0 else pair[::-1], axis=1)
                for steps, items in windows(batch_sizes, LAYER_ITEMS if i else TOKEN_TYPES):
                    read: Any = (items, None)
                    if i == 0:  # All occurrences of a token in a window share one input product.
                        read = np.unique(rows[d, items], return_inverse=True)
                    gates = lstm.project_inputs(inputs[read[0]])
                    output[items] = lstm.run(gates, read[1], batch_sizes[steps], *states)
                if i and self.highways:
                    gate = self.highways[i - 1][d](inputs)
                    mark_overflow(gate)
                    output[:] = inputs + sigmoid(gate) * (output - inputs)
                elif i and self.config.use_skip_connections:
                    output += inputs

        # A task runs all layers of a direction. With joined directions, it runs a single layer.
        every = range(self.config.n_layers)
        for layers in [[i] for i in every] if mirror is not None else [every]:
            tasks = [partial(run, d, layers) for d in range(len(rows))]
            side_by_side(tasks, rows.shape[1] * self.n_weights * len(layers))
        return outputs, FrozenState(hidden, cell)
