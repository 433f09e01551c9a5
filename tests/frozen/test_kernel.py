"""Each kernel that this machine can run, against a loop in float64."""

import numpy as np
import pytest

from spacy_elmo.frozen.kernel import VARIABLE, available_kernels, find_kernel
from spacy_elmo.frozen.kernel.numpy_kernel import LSTMWeights

from helpers.kernels import lstm_weights, plain_lstm, stored

KERNELS = available_kernels()
# Sizes of the output, of the cell and of the input. Without projection there are no clips.
PROJECTED = [(1, 1, 1), (6, 10, 6), (16, 16, 16), (20, 33, 20), (128, 64, 128)]
PLAIN = [(24, 24, 5), (24, 24, 48)]
BATCHES = [[1], [1] * 7, [5, 5, 3, 1], [13, 7, 7, 2], [100, 97, 1]]


def run(kernel, weights, inputs, batch_sizes, type="float32", clip=0.0):
    """Outputs, hidden and cell, from zeros."""
    lstm = kernel.make_lstm(weights, type, cell_clip=clip, proj_clip=clip)
    hidden = np.zeros((batch_sizes[0], weights.state.shape[1]), "float32")
    cell = np.zeros((batch_sizes[0], len(weights.bias) // 4), "float32")
    outputs = lstm.run(lstm.project_inputs(inputs), None, batch_sizes, hidden, cell)
    return outputs, hidden, cell


@pytest.fixture(params=KERNELS)
def kernel(request):
    return find_kernel(request.param)


@pytest.mark.parametrize("type", ["float32", "float16"])
@pytest.mark.parametrize("batch_sizes", BATCHES, ids=lambda sizes: f"{sizes[0]}x{len(sizes)}")
@pytest.mark.parametrize(("width", "dim", "n_inputs"), PROJECTED + PLAIN)
def test_steps(width, dim, n_inputs, batch_sizes, type):
    rng = np.random.default_rng(width)
    is_plain = (width, dim, n_inputs) in PLAIN
    clips = (0.0, 0.0) if is_plain else (0.6, 0.5)
    weights = lstm_weights(rng, width, dim, n_inputs, projected=not is_plain)
    n_rows = batch_sizes[0] + 2  # two that do not run
    inputs = rng.standard_normal((sum(batch_sizes), n_inputs)).astype("float32")
    hidden = rng.standard_normal((n_rows, width)).astype("float32").clip(-0.5, 0.5)
    cell = rng.standard_normal((n_rows, dim)).astype("float32").clip(-0.6, 0.6)
    kinds = [type, type, "float32", type]  # the bias is not rounded
    exact = LSTMWeights(*(x if x is None else stored(x, kind) for x, kind in zip(weights, kinds)))
    after = hidden.astype("float64"), cell.astype("float64")
    expected = plain_lstm(exact, inputs.astype("float64"), batch_sizes, *after, *clips)
    assert dim == 1 or is_plain or np.isclose(np.abs(after[1]), 0.6, rtol=1e-6).any()  # it clips
    for kernel in map(find_kernel, KERNELS):
        lstm = kernel.make_lstm(weights, type, cell_clip=clips[0], proj_clip=clips[1])
        states = hidden.copy(), cell.copy()
        outputs = lstm.run(lstm.project_inputs(inputs), None, batch_sizes, *states)
        for found, wanted in zip((outputs, *states), (expected, *after)):
            np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-6, err_msg=kernel.name)


@pytest.mark.parametrize("type", ["bfloat16", "int8"])
def test_steps_with_fewer_digits(kernel, type):
    """The numpy kernel with the same type: both round weights and inputs, and sum in float32."""
    rng = np.random.default_rng(0)
    weights, batch_sizes = lstm_weights(rng, 24, 40, 24), [9, 8, 3, 1]
    inputs = rng.standard_normal((21, 24)).astype("float32")
    results = []
    for each in (kernel, find_kernel("numpy")):
        _, hidden, cell = run(each, weights, inputs, batch_sizes, type, clip=3.0)
        results.append(np.concatenate([hidden, cell], axis=1))
    # A sum that differs in its last digit may round to the other neighbor in the next step.
    assert np.abs(results[0] - results[1]).max() < {"bfloat16": 2e-3, "int8": 5e-3}[type]
    assert np.abs(results[0]).max() > 0.3


@pytest.mark.parametrize("scale", [1e-30, 1.0, 30.0, 1e4, 1e30])
def test_gates_far_from_zero(kernel, scale):
    """No overflow, no NaN: the gates are open or shut."""
    parts = np.full((64, 1), scale), np.zeros((64, 16)), np.zeros(64)
    weights = LSTMWeights(*(part.astype("float32") for part in parts), None)
    inputs = np.array([[1.0], [-1.0], [0.5]], "float32")
    outputs, _, _ = run(kernel, weights, inputs, [3])
    with np.errstate(over="ignore"):
        gate = 1 / (1 + np.exp(-scale * inputs.astype("float64")))
        expected = gate * np.tanh(gate * np.tanh(scale * inputs.astype("float64")))
    np.testing.assert_allclose(outputs, np.repeat(expected, 16, axis=1), rtol=0, atol=1e-6)


@pytest.mark.parametrize("type", ["float32", "float16", "bfloat16", "int8"])
@pytest.mark.parametrize(("n", "n_inputs", "n_outputs"), [(1, 1, 1), (7, 40, 33), (200, 16, 80)])
def test_linear(kernel, n, n_inputs, n_outputs, type):
    rng = np.random.default_rng(n)
    weight = rng.standard_normal((n_outputs, n_inputs)).astype("float32")
    bias = rng.standard_normal(n_outputs).astype("float32")
    inputs = rng.standard_normal((n, n_inputs)).astype("float32")
    # Of float16, only the weight is rounded.
    exact_inputs = stored(inputs, "float32" if type == "float16" else type)
    expected = exact_inputs @ stored(weight, type).T + bias
    found = kernel.make_linear(weight, bias, type)(inputs)
    # A quotient next to a half may round to the other integer: one step of 127 for an input.
    bound = 0.05 if type == "int8" else 1e-5
    np.testing.assert_allclose(found, expected, rtol=0, atol=bound)
    assert np.median(np.abs(found - expected)) < 1e-5
    nothing = kernel.make_linear(weight, None, type)(np.zeros((2, n_inputs), "float32"))
    assert not nothing.any()


@pytest.mark.parametrize(("width", "n_filters"), [(1, 16), (3, 48), (7, 128)])
def test_convolution(kernel, width, n_filters):
    rng = np.random.default_rng(width)
    table = rng.standard_normal((width, 30, n_filters)).astype("float32")
    index = rng.integers(30, size=(70, width + 4))
    found = kernel.convolve(table, index)
    for token, row in zip(found, index):
        windows = [
            sum(table[t, row[start + t]].astype("float64") for t in range(width))
            for start in range(5)
        ]
        np.testing.assert_allclose(token, np.max(windows, axis=0), rtol=1e-6, atol=1e-6)


def test_chosen_by_the_environment(monkeypatch):
    lacking = sorted({"neon", "avx2", "avx512"} - set(KERNELS))  # no processor has all of them
    wrong = {
        "mmx": "'mmx'. Set it to one of numpy, neon, avx2, avx512",
        lacking[0]: f"'{lacking[0]}', but.*Available: numpy",
    }
    for name in (*KERNELS, "", *wrong):
        monkeypatch.setenv(VARIABLE, name)
        find_kernel.cache_clear()
        if name in wrong:
            with pytest.raises(ValueError, match=wrong[name]):
                find_kernel()
        else:
            assert find_kernel().name == (name or KERNELS[-1])
    find_kernel.cache_clear()
