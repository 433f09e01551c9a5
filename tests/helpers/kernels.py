"""LSTMs step by step in float64, and the numbers that a kernel stores of a weight."""

import numpy as np

from spacy_elmo.frozen.kernel import available_kernels, find_kernel, numpy_kernel
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


def check_lstm(weights, type, clips, inputs, batch_sizes, states, *, atol):
    """Compare the outputs and states of every kernel of this machine with the formula.

    RETURNS (Tuple[numpy.ndarray, numpy.ndarray]): Hidden and cell state after the steps, exact.
    """
    kinds = [type, type, "float32", type]  # the bias is not rounded
    exact = LSTMWeights(*(x if x is None else stored(x, kind) for x, kind in zip(weights, kinds)))
    after = states[0].astype("float64"), states[1].astype("float64")
    expected = plain_lstm(exact, inputs.astype("float64"), batch_sizes, *after, *clips)
    for kernel in map(find_kernel, available_kernels()):
        lstm = kernel.make_lstm(weights, type, cell_clip=clips[0], proj_clip=clips[1])
        reached = states[0].copy(), states[1].copy()
        outputs = lstm.run(lstm.project_inputs(inputs), None, batch_sizes, *reached)
        for found, wanted in zip((outputs, *reached), (expected, *after)):
            np.testing.assert_allclose(found, wanted, rtol=0, atol=atol, err_msg=kernel.name)
    return after
