"""The two stacks of LSTMs of frozen weights, over packed sequences."""

from collections.abc import Callable, Sequence
from typing import Any, Optional

import numpy as np

from .config import BiLMConfig
from .encoder import Weights
from .kernel import Kernel
from .kernel.numpy_kernel import LSTMWeights, sigmoid
from .packing import mirrored, windows

FORGET_BIAS = 1.0  # Added when the model runs, never stored.
# Rows whose input products are kept at a time: a bound of the working memory, and few enough to
# stay in a processor's caches until the steps read them.
TOKEN_TYPES = 2048
LAYER_ITEMS = 256
TypeOf = Callable[[np.ndarray], str]


class FrozenStacks:
    """The LSTM layers of every direction.

    config (BiLMConfig): The sizes.
    weights (Mapping[str, numpy.ndarray]): By their names in `BiLM.state_dict()`.
    kernel (Kernel): Computes products and steps.
    type_of (Callable[[numpy.ndarray], str]): The type that a weight is kept in.
    """

    def __init__(self, config: BiLMConfig, weights: Weights, kernel: Kernel, type_of: TypeOf):
        self.config = config
        directions = range(config.n_directions)
        self.layers = [
            [_make_lstm(config, weights, f"stacks.{d}.{i}", kernel, type_of) for d in directions]
            for i in range(config.n_layers)
        ]
        self.highways: list[list[Any]] = []
        if config.connections == "highway":
            self.highways = [
                [_make_gate(weights, f"highways.{d}.{i}.gate", kernel, type_of) for d in directions]
                for i in range(config.n_layers - 1)
            ]

    def run(
        self,
        vectors: np.ndarray,
        rows: np.ndarray,
        batch_sizes: Sequence[int],
        hidden: np.ndarray,
        cell: np.ndarray,
    ) -> list[np.ndarray]:
        """Run over packed sequences. The state is changed in place: a row that has ended keeps
        what it had.

        vectors (numpy.ndarray): Token vectors, x. *Shape:* `(n_types, P)`
        rows (numpy.ndarray): Row of `vectors` for every packed item, in the running order of each
            direction. *Shape:* `(n_directions, n_items)`
        batch_sizes (Sequence[int]): Sequences running at each step, never rising.
        hidden (numpy.ndarray): *Shape:* `(n_directions, L, n_sequences, P)`
        cell (numpy.ndarray): *Shape:* `(n_directions, L, n_sequences, D)`
        RETURNS (List[numpy.ndarray]): The output of each layer, packed.
            *Shape:* `(n_directions, n_items, P)`
        """
        outputs: list[np.ndarray] = []
        mirror = mirrored(batch_sizes) if self.config.joined_directions else None
        for i, lstms in enumerate(self.layers):
            output = np.empty((*rows.shape, vectors.shape[1]), dtype="float32")
            for d, lstm in enumerate(lstms):
                state = hidden[d, i], cell[d, i]
                if not i:
                    _run_tokens(lstm, vectors, rows[d], batch_sizes, *state, output[d])
                    continue
                inputs = outputs[-1][d]
                if mirror is not None:
                    pair = [outputs[-1][d], outputs[-1][1 - d][mirror]]
                    inputs = np.concatenate(pair if d == 0 else pair[::-1], axis=1)
                _run_layer(lstm, inputs, batch_sizes, *state, output[d])
                if self.highways:
                    gate = sigmoid(self.highways[i - 1][d](inputs))
                    output[d] = inputs + gate * (output[d] - inputs)
                elif self.config.use_skip_connections:
                    output[d] += inputs
            outputs.append(output)
        return outputs


def _run_tokens(
    lstm: Any,
    vectors: np.ndarray,
    rows: np.ndarray,
    batch_sizes: Sequence[int],
    hidden: np.ndarray,
    cell: np.ndarray,
    outputs: np.ndarray,
) -> None:
    """Run the lowest layer: the product of a token is computed once for all its occurrences."""
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
    config: BiLMConfig, weights: Weights, name: str, kernel: Kernel, type_of: TypeOf
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
    return kernel.make_lstm(parts, type_of(state_weight), **clips)


def _make_gate(weights: Weights, name: str, kernel: Kernel, type_of: TypeOf) -> Optional[Any]:
    weight = weights[f"{name}.weight"]
    return kernel.make_linear(weight, weights[f"{name}.bias"], type_of(weight))
