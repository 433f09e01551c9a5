"""Kernel in NumPy: readable reference for the compiled kernels, and fallback.

The compiled kernels round their weights to bfloat16 and int8 with functions of this module.
"""

from collections.abc import Sequence
from typing import NamedTuple, Optional

import numpy as np

# Number of tokens that are convolved at a time. This limits the memory.
CONVOLVED_TOKENS = 64


class LSTMWeights(NamedTuple):
    """Weights of one LSTM layer in one direction.

    The order of the gates is i, j, f, o. The bias of f already includes `FORGET_BIAS`.

    input (numpy.ndarray): *Shape:* `(4D, n_inputs)`
    state (numpy.ndarray): *Shape:* `(4D, P)`
    bias (numpy.ndarray): *Shape:* `(4D,)`
    projection (Optional[numpy.ndarray]): *Shape:* `(P, D)`
    """

    input: np.ndarray
    state: np.ndarray
    bias: np.ndarray
    projection: Optional[np.ndarray]


class NumpyLinear:
    """Linear layer, `x W^T + b`.

    Weights are rounded to the type. "bfloat16" and "int8" also round the inputs. Sums are float32.

    weight (numpy.ndarray): *Shape:* `(n_outputs, n_inputs)`
    bias (Optional[numpy.ndarray]): *Shape:* `(n_outputs,)`
    type (str): "float32", "float16", "bfloat16" or "int8".
    """

    def __init__(self, weight: np.ndarray, bias: Optional[np.ndarray], type: str):
        self.type = type
        weight = np.asarray(weight, dtype="float32")
        if type == "float16":
            weight = weight.astype("float16").astype("float32")
        elif type == "bfloat16":
            weight = to_bfloat16(weight)
        elif type == "int8":
            weight = dequantized(*quantize_rows(weight))
        self.weight = np.ascontiguousarray(weight.T)
        self.bias = None if bias is None else np.array(bias, dtype="float32")

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        """Apply the layer to each row.

        inputs (numpy.ndarray): *Shape:* `(n, n_inputs)`
        RETURNS (numpy.ndarray): *Shape:* `(n, n_outputs)`
        """
        if self.type == "bfloat16":
            inputs = to_bfloat16(inputs)
        elif self.type == "int8":
            inputs = dequantized(*quantize_rows(inputs))
        product: np.ndarray = inputs @ self.weight
        return product if self.bias is None else product + self.bias


class NumpyLSTM:
    """LSTM layer in one direction, with projection and clips.

    weights (LSTMWeights): The weights.
    type (str): Type of the products: "float32", "float16", "bfloat16" or "int8".
    cell_clip (float): Limit of the cell state; 0 for no limit.
    proj_clip (float): Limit of the projected output; 0 for no limit.
    """

    def __init__(self, weights: LSTMWeights, type: str, *, cell_clip: float, proj_clip: float):
        self.cell_clip, self.proj_clip = cell_clip, proj_clip
        self.input_product = NumpyLinear(weights.input, weights.bias, type)
        self.state_product = NumpyLinear(weights.state, None, type)
        self.projection = None
        if weights.projection is not None:
            self.projection = NumpyLinear(weights.projection, None, type)

    def project_inputs(self, inputs: np.ndarray) -> np.ndarray:
        """Compute the part of the gates that depends on the inputs, `W x + b`.

        inputs (numpy.ndarray): *Shape:* `(n, n_inputs)`
        RETURNS (numpy.ndarray): *Shape:* `(n, 4D)`
        """
        return self.input_product(inputs)

    def run(
        self,
        gates: np.ndarray,
        rows: Optional[np.ndarray],
        batch_sizes: Sequence[int],
        hidden: np.ndarray,
        cell: np.ndarray,
    ) -> np.ndarray:
        """Run the LSTM over packed sequences, and change the state in place.

        The state of a sequence does not change after its last step.

        gates (numpy.ndarray): Result of `project_inputs`.
        rows (Optional[numpy.ndarray]): Index into `gates` for each packed item. None: row n belongs
            to item n.
        batch_sizes (Sequence[int]): Number of running sequences at each step, in non-increasing
            order.
        hidden (numpy.ndarray): Hidden state, changed in place. *Shape:* `(n_sequences, P)`
        cell (numpy.ndarray): Cell state, changed in place. *Shape:* `(n_sequences, D)`
        RETURNS (numpy.ndarray): The packed outputs. *Shape:* `(n_items, P)`
        """
        outputs = np.empty((sum(batch_sizes), hidden.shape[1]), dtype="float32")
        first, dim = 0, cell.shape[1]
        for size in batch_sizes:
            items = slice(first, first + size)
            all_gates = self.state_product(hidden[:size])
            all_gates += gates[items] if rows is None else gates[rows[items]]
            mark_overflow(all_gates)
            # Slices, because `np.split` and `np.clip` would take as long as the rest of a step.
            i, j, f, o = (all_gates[:, n * dim : (n + 1) * dim] for n in range(4))
            state = sigmoid(f) * cell[:size] + sigmoid(i) * np.tanh(j)
            mark_overflow(state)
            if self.cell_clip:
                _clip(state, self.cell_clip)
            output = sigmoid(o) * np.tanh(state)
            if self.projection is not None:
                output = self.projection(output)
                if self.proj_clip:
                    mark_overflow(output)
                    _clip(output, self.proj_clip)
            cell[:size], hidden[:size], outputs[items] = state, output, output
            first += size
        return outputs


class NumpyKernel:
    """Kernel in NumPy: linear layers, LSTMs and convolutions of frozen weights."""

    name = "numpy"
    fast_types: tuple[str, ...] = ()
    make_linear = NumpyLinear
    make_lstm = NumpyLSTM

    @staticmethod
    def convolve(table: np.ndarray, index: np.ndarray) -> np.ndarray:
        """Compute the maximum of each filter over the positions of each token.

        table (numpy.ndarray): Products of each character's embedding with each tap (column of
            weights) of each filter. *Shape:* `(n_characters, width, n_filters)`
        index (numpy.ndarray): Index into the table for each character of each token. `n_positions`
            is at least `width`. *Shape:* `(n_tokens, n_positions)`
        RETURNS (numpy.ndarray): *Shape:* `(n_tokens, n_filters)`
        """
        width = table.shape[1]
        n_windows = index.shape[1] - width + 1
        largest = np.empty((len(index), table.shape[2]), dtype="float32")
        for start in range(0, len(index), CONVOLVED_TOKENS):
            part = index[start : start + CONVOLVED_TOKENS]
            sums = table[part[:, :n_windows], 0]
            for tap in range(1, width):
                sums += table[part[:, tap : tap + n_windows], tap]
            sums.max(axis=1, out=largest[start : start + len(part)])
        return largest


def sigmoid(values: np.ndarray) -> np.ndarray:
    """Compute the logistic function without overflow."""
    return 0.5 * np.tanh(0.5 * values) + 0.5


def mark_overflow(values: np.ndarray) -> None:
    """Replace infinity by NaN, in place.

    An infinite sum overflowed, so its true value is unknown. Gates, clips and ReLU would make it a
    finite number, and the caller could not see that the weights are too large.
    """
    finite = np.isfinite(values)
    if not finite.all():
        values[~finite] = np.nan


def _clip(values: np.ndarray, bound: float) -> None:
    np.minimum(values, bound, out=values)
    np.maximum(values, -bound, out=values)


def bfloat16_bits(values: np.ndarray) -> np.ndarray:
    """Round float32 to the nearest bfloat16 (ties to even), and return the bits.

    values (numpy.ndarray): float32.
    RETURNS (numpy.ndarray): The upper 16 bits of each number, uint16, in the same shape.
    """
    bits = np.ascontiguousarray(values, dtype="float32").view("uint32")
    rounded = ((bits + (0x7FFF + ((bits >> 16) & 1))) >> 16).astype("uint16")
    # Rounding would turn a NaN with many digits into zero.
    rounded[np.isnan(values)] = 0x7FC0
    return rounded


def to_bfloat16(values: np.ndarray) -> np.ndarray:
    """Round float32 values to bfloat16, and return them as float32."""
    return (bfloat16_bits(values).astype("uint32") << 16).view("float32")


def quantize_rows(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Round each row to int8, with one scale per row.

    The result of a row does not depend on other rows.

    values (numpy.ndarray): *Shape:* `(n, width)`
    RETURNS (Tuple[numpy.ndarray, numpy.ndarray]): The integers, int8, and the scales, float32.
        *Shapes:* `(n, width)`, `(n,)`
    """
    # The largest int8 value is 127. -128 is not used, so the range is symmetric around 0.
    scales = np.abs(values).max(axis=1, initial=0.0).astype("float32") / np.float32(127.0)
    divisors = np.where(scales > 0.0, scales, np.float32(1.0))
    return np.rint(values / divisors[:, None]).astype("int8"), scales


def dequantized(integers: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Convert the result of `quantize_rows` back to float32."""
    return integers.astype("float32") * scales[:, None]
