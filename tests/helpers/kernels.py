"""LSTMs step by step in float64, and the numbers that a kernel stores of a weight."""

import numpy as np

from spacy_elmo.frozen.kernel import numpy_kernel
from spacy_elmo.frozen.kernel.numpy_kernel import LSTMWeights

# The numbers that a weight of a type stands for.
STORED = {
    "float32": lambda weight: weight,
    "float16": lambda weight: weight.astype("float16"),
    "bfloat16": numpy_kernel.to_bfloat16,
    "int8": lambda weight: numpy_kernel.dequantized(*numpy_kernel.quantize_rows(weight)),
}


def stored(weight, type):
    return STORED[type](weight).astype("float64")


def lstm_weights(rng, width, dim, n_inputs, projected=True):
    def normal(*shape):
        return (rng.standard_normal(shape) * shape[-1] ** -0.5).astype("float32")

    weights = (normal(*shape) for shape in ((4 * dim, n_inputs), (4 * dim, width), (4 * dim,)))
    return LSTMWeights(*weights, 2 * normal(width, dim) if projected else None)


def plain_lstm(weights, inputs, batch_sizes, hidden, cell, cell_clip, proj_clip):
    """Row by row, by the formula."""
    outputs, first = [], 0
    for size in batch_sizes:
        for row in range(size):
            gates = weights.input @ inputs[first + row] + weights.bias + weights.state @ hidden[row]
            i, j, f, o = gates.reshape(4, -1)
            i, f, o = (1 / (1 + np.exp(-gate)) for gate in (i, f, o))
            state = f * cell[row] + i * np.tanh(j)
            if cell_clip:
                state = state.clip(-cell_clip, cell_clip)
            output = o * np.tanh(state)
            if weights.projection is not None:
                output = weights.projection @ output
                if proj_clip:
                    output = output.clip(-proj_clip, proj_clip)
            cell[row], hidden[row] = state, output
            outputs.append(output)
        first += size
    return np.array(outputs)
