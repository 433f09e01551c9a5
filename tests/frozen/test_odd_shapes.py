"""Kernels at sizes that no model has, against float64. `make sanitize` draws many more of them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spacy_elmo.frozen.kernel import available_kernels, find_kernel

from helpers.kernels import check_lstm, lstm_weights, stored
from helpers.profiles import few

KERNELS = available_kernels()
TYPES = st.sampled_from(["float32", "float16", "bfloat16", "int8"])
# Below, at and above the sizes of a panel (16), a tile and a chunk of rows (96).
SIZES = st.one_of(st.integers(1, 70), st.sampled_from([80, 95, 96, 97, 128, 129]))
ROWS = st.one_of(st.integers(0, 40), st.sampled_from([95, 96, 97, 193]))
BATCHES = st.lists(SIZES, min_size=1, max_size=4).map(lambda sizes: sorted(sizes, reverse=True))


@given(rows=ROWS, n_inputs=SIZES, n_outputs=SIZES, type=TYPES, has_bias=st.booleans())
def test_linear_of_any_shape_equals_float64(rows, n_inputs, n_outputs, type, has_bias):
    rng = np.random.default_rng([rows, n_inputs, n_outputs])
    weight = rng.standard_normal((n_outputs, n_inputs)).astype("float32")
    bias = rng.standard_normal(n_outputs).astype("float32") if has_bias else None
    inputs = rng.standard_normal((rows, n_inputs)).astype("float32")
    exact_inputs = stored(inputs, "float32" if type == "float16" else type)
    expected = exact_inputs @ stored(weight, type).T + (0 if bias is None else bias)
    # Error of a sum of n products in float32: n units of the sum of the sizes. int8: an input next
    # to a half may round to the other integer, one step of 127 times a weight.
    largest = np.abs(exact_inputs) @ np.abs(stored(weight, type)).T
    bound = 2**-23 * (n_inputs + 2) * (largest + 4)
    if type == "int8" and inputs.size:
        bound = bound + np.abs(inputs).max() / 127 * np.abs(weight).max()
    for kernel in map(find_kernel, KERNELS):
        found = kernel.make_linear(weight, bias, type)(inputs)
        assert found.shape == (rows, n_outputs)
        assert (np.abs(found - expected) <= bound).all(), kernel.name


@given(
    width=st.integers(1, 40),
    dim=st.integers(1, 40),
    n_inputs=st.integers(1, 40),
    batch_sizes=BATCHES,
    type=st.sampled_from(["float32", "float16"]),
    has_projection=st.booleans(),
    more_rows=st.integers(0, 2),
)
@few
def test_an_lstm_of_any_shape_equals_float64(
    width, dim, n_inputs, batch_sizes, type, has_projection, more_rows
):
    width = width if has_projection else dim
    rng = np.random.default_rng([width, dim, n_inputs, *batch_sizes])
    clips = (0.6, 0.5) if has_projection else (0.0, 0.0)
    weights = lstm_weights(rng, width, dim, n_inputs, projected=has_projection)
    inputs = rng.standard_normal((sum(batch_sizes), n_inputs)).astype("float32")
    n_rows = batch_sizes[0] + more_rows
    hidden = rng.uniform(-0.5, 0.5, (n_rows, width)).astype("float32")
    cell = rng.uniform(-0.5, 0.5, (n_rows, dim)).astype("float32")
    check_lstm(weights, type, clips, inputs, batch_sizes, (hidden, cell), atol=5e-6)


@given(
    n_tokens=st.integers(0, 40),
    positions=st.integers(1, 12),
    width=st.integers(1, 7),
    n_characters=st.integers(1, 50),
    n_filters=st.integers(1, 9).map(lambda panels: 16 * panels),
)
def test_convolution_of_any_shape_equals_float64(
    n_tokens, positions, width, n_characters, n_filters
):
    rng = np.random.default_rng([n_tokens, positions, width])
    table = rng.standard_normal((n_characters, width, n_filters)).astype("float32")
    index = rng.integers(n_characters, size=(n_tokens, positions + width - 1))
    exact = table.astype("float64")
    sums = sum(exact[index[:, t : t + positions], t] for t in range(width))
    for kernel in map(find_kernel, KERNELS):
        found = kernel.convolve(table, index)
        np.testing.assert_allclose(found, sums.max(axis=1), rtol=0, atol=1e-5, err_msg=kernel.name)
