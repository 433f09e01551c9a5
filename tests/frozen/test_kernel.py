"""Each kernel that this machine can run, against a loop in float64."""

import re
from distutils.core import run_setup
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from spacy_elmo.frozen import kernel as kernels
from spacy_elmo.frozen.kernel import (
    NUMPY,
    VARIABLE,
    available_kernels,
    find_kernel,
    numpy_kernel,
)
from spacy_elmo.frozen.kernel.compiled import PackedMatrix, load_compiled
from spacy_elmo.frozen.kernel.numpy_kernel import LSTMWeights

from helpers.kernel_calls import n_calls
from helpers.kernels import check_lstm, lstm_weights, stored

KERNELS = available_kernels()
FOLDER = Path(numpy_kernel.__file__).parent
# Sizes of the output, of the cell and of the input. Without projection there are no clips.
PROJECTED = [(1, 1, 1), (6, 10, 6), (16, 16, 16), (20, 33, 20), (128, 64, 128), (16, 144, 16)]
PLAIN = [(24, 24, 5), (24, 24, 48)]
BATCHES = [[1], [1] * 7, [5, 5, 3, 1], [13, 7, 7, 2], [100, 97, 1]]


def run(kernel, weights, inputs, batch_sizes, type="float32", clip=0.0):
    """Return outputs, hidden and cell state, from a state of zeros."""
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
def test_steps_equal_a_loop_in_float64(width, dim, n_inputs, batch_sizes, type):
    rng = np.random.default_rng(width)
    is_plain = (width, dim, n_inputs) in PLAIN
    clips = (0.0, 0.0) if is_plain else (0.6, 0.5)
    weights = lstm_weights(rng, width, dim, n_inputs, projected=not is_plain)
    n_rows = batch_sizes[0] + 2  # two that do not run
    inputs = rng.standard_normal((sum(batch_sizes), n_inputs)).astype("float32")
    hidden = rng.standard_normal((n_rows, width)).astype("float32").clip(-0.5, 0.5)
    cell = rng.standard_normal((n_rows, dim)).astype("float32").clip(-0.6, 0.6)
    _, reached = check_lstm(weights, type, clips, inputs, batch_sizes, (hidden, cell), atol=2e-6)
    assert dim == 1 or is_plain or np.isclose(np.abs(reached), 0.6, rtol=1e-6).any()  # it clips


@pytest.mark.parametrize("type", ["bfloat16", "int8"])
def test_steps_in_bfloat16_and_int8_equal_those_of_numpy(kernel, type):
    """Both kernels round weights and inputs, and sum in float32."""
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


@pytest.mark.parametrize("type", ["float32", "float16", "bfloat16", "int8"])
@pytest.mark.parametrize("name", [name for name in KERNELS if name != "numpy"])
def test_a_sequence_alone_equals_the_sequence_in_a_batch(name, type):
    """Steps of one row are computed in another order of blocks, but each sum in the same order."""
    rng = np.random.default_rng(0)
    weights = lstm_weights(rng, 32, 144, 32)
    inputs = rng.standard_normal((5, 13, 32)).astype("float32")
    together = run(find_kernel(name), weights, inputs.reshape(-1, 32), [13] * 5, type, 0.6)
    for i in range(13):
        alone = run(find_kernel(name), weights, inputs[:, i].copy(), [1] * 5, type, 0.6)
        np.testing.assert_array_equal(alone[0], together[0].reshape(5, 13, -1)[:, i])
        np.testing.assert_array_equal(alone[2][0], together[2][i])


@pytest.mark.parametrize("type", ["float32", "float16", "bfloat16", "int8"])
def test_weights_begin_at_a_cache_line(type):
    """A vector of weights in two cache lines takes two loads."""
    matrices = [PackedMatrix(np.ones((16, n), "float32"), type) for n in range(16, 160, 16)]
    assert [matrix.panels % 64 for matrix in matrices] == [0] * 9


@pytest.mark.parametrize("scale", [1e-30, 1.0, 30.0, 1e4, 1e30])
def test_gates_far_from_zero_are_open_or_shut(kernel, scale):
    """There is no overflow and no NaN."""
    parts = np.full((64, 1), scale), np.zeros((64, 16)), np.zeros(64)
    weights = LSTMWeights(*(part.astype("float32") for part in parts), None)
    inputs = np.array([[1.0], [-1.0], [0.5]], "float32")
    outputs, _, _ = run(kernel, weights, inputs, [3])
    with np.errstate(over="ignore"):
        gate = 1 / (1 + np.exp(-scale * inputs.astype("float64")))
        expected = gate * np.tanh(gate * np.tanh(scale * inputs.astype("float64")))
    np.testing.assert_allclose(outputs, np.repeat(expected, 16, axis=1), rtol=0, atol=1e-6)


def test_activations_are_within_the_error_of_exp(kernel):
    """The sums have all sizes, and differ in each gate. Errors of exp and of divisions are below
    3e-7."""
    rng = np.random.default_rng(0)
    factors = rng.uniform(-3, 3, size=(64, 1)).astype("float32")
    weights = LSTMWeights(factors, np.zeros((64, 16), "float32"), np.zeros(64, "float32"), None)
    inputs = np.linspace(-16, 16, 4001, dtype="float32")[:, None]
    cells = rng.uniform(-1, 1, size=(len(inputs), 16)).astype("float32")
    cell, hidden = cells.copy(), np.zeros_like(cells)
    lstm = kernel.make_lstm(weights, "float32", cell_clip=0.0, proj_clip=0.0)
    lstm.run(lstm.project_inputs(inputs), None, [len(inputs)], hidden, cell)
    # The product rounds a sum once, as here.
    sums = (inputs * factors[:, 0]).astype("float64")
    i, j, f, o = np.split(sums, 4, axis=1)
    i, f, o = (1 / (1 + np.exp(-gate)) for gate in (i, f, o))
    expected = f * cells + i * np.tanh(j)
    np.testing.assert_allclose(cell, expected, rtol=0, atol=5e-7)
    np.testing.assert_allclose(hidden, o * np.tanh(expected), rtol=0, atol=5e-7)


def with_value(array, value):
    """Return a copy whose last number is replaced."""
    changed = np.array(array)
    changed.flat[-1] = value
    return changed


ALL_ONES = np.array(-1, "int32").view("float32")[()]  # a NaN whose bits overflow in rounding


@pytest.mark.parametrize("type", ["float32", "float16", "bfloat16", "int8"])
@pytest.mark.parametrize("value", [np.nan, ALL_ONES, np.inf, -np.inf])
@pytest.mark.parametrize("part", [*LSTMWeights._fields, "inputs", "hidden", "cell"])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_steps_keep_nan_and_infinity(kernel, part, value, type):
    """Gates and clips do not turn it into a finite number."""
    rng = np.random.default_rng(0)
    weights, batch_sizes = lstm_weights(rng, 24, 40, 24), [2, 2, 1]
    arrays = {
        "inputs": rng.standard_normal((5, 24)).astype("float32"),
        "hidden": rng.standard_normal((2, 24)).astype("float32"),
        "cell": rng.standard_normal((2, 40)).astype("float32"),
    }
    for value_of_part in (1.0, value):
        arrays |= {part: with_value({**weights._asdict(), **arrays}[part], value_of_part)}
        changed = LSTMWeights(*(arrays.get(name, kept) for name, kept in weights._asdict().items()))
        lstm = kernel.make_lstm(changed, type, cell_clip=3.0, proj_clip=3.0)
        states = arrays["hidden"].copy(), arrays["cell"].copy()
        gates = lstm.project_inputs(arrays["inputs"])
        outputs = lstm.run(gates, None, batch_sizes, *states)
        is_finite = np.isfinite(outputs).all()
        assert is_finite == (value_of_part == 1.0)


@pytest.mark.parametrize("type", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("part", ["input", "state", "projection"])
@pytest.mark.filterwarnings("ignore:(invalid value|overflow):RuntimeWarning")
def test_sums_that_overflow_are_not_clipped(kernel, part, type):
    """All numbers of the sums are finite."""
    parts = lstm_weights(np.random.default_rng(0), 16, 16, 16)._asdict()
    weights = LSTMWeights(**{**parts, part: np.full_like(parts[part], 3e38)})
    lstm = kernel.make_lstm(weights, type, cell_clip=3.0, proj_clip=3.0)
    gates = lstm.project_inputs(np.ones((1, 16), "float32"))
    outputs = lstm.run(gates, None, [1], *np.ones((2, 1, 16), "float32"))
    assert not np.isfinite(outputs).any()


@pytest.mark.parametrize("value", [np.nan, ALL_ONES, np.inf, -np.inf])
@pytest.mark.parametrize("type", ["float32", "float16", "bfloat16", "int8"])
@pytest.mark.parametrize("n", [1, 20])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_linear_keeps_nan_and_infinity(kernel, n, type, value):
    """NaN reaches the output of its weight, or all outputs of its row of inputs, and no other."""
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((20, 40)).astype("float32")
    inputs = rng.standard_normal((n, 40)).astype("float32")
    found = kernel.make_linear(with_value(weight, value), None, type)(inputs)
    np.testing.assert_array_equal(np.isfinite(found), [[True] * 19 + [False]] * n)
    found = kernel.make_linear(weight, None, type)(with_value(inputs, value))
    np.testing.assert_array_equal(np.isfinite(found), [[True] * 20] * (n - 1) + [[False] * 20])


def test_int8_sums_fit_their_integers(kernel):
    """The sums have the largest products: as many as 32 bits can hold, and more."""
    most = (2**31 - 1) // 127**2
    for n_inputs in (most // 16 * 16, most + 7000):
        weight, inputs = np.ones((1, n_inputs), "float32"), np.ones((6, n_inputs), "float32")
        found = kernel.make_linear(weight, None, "int8")(inputs)
        np.testing.assert_allclose(found, n_inputs, rtol=1e-5)


@pytest.mark.parametrize("largest", [1e-45, 1e-38, 1e-35])
def test_int8_keeps_tiny_numbers(kernel, largest):
    """The scale of these numbers has no inverse in float32."""
    inputs = np.array([[largest, -largest, 0.0]], "float32")
    found = kernel.make_linear(np.eye(3, dtype="float32"), None, "int8")(inputs)
    np.testing.assert_allclose(found, inputs, rtol=0, atol=1e-36)


@pytest.mark.parametrize("type", ["float32", "float16", "bfloat16", "int8"])
@pytest.mark.parametrize(
    ("n", "n_inputs", "n_outputs"), [(1, 1, 1), (1, 40, 200), (7, 40, 33), (200, 16, 80)]
)
def test_linear_equals_the_product_in_float64(kernel, n, n_inputs, n_outputs, type):
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
def test_convolution_equals_a_loop(kernel, width, n_filters):
    rng = np.random.default_rng(width)
    table = rng.standard_normal((30, width, n_filters)).astype("float32")
    index = rng.integers(30, size=(70, width + 4))
    found = kernel.convolve(table, index)
    for token, row in zip(found, index):
        windows = [
            sum(table[row[start + t], t].astype("float64") for t in range(width))
            for start in range(5)
        ]
        np.testing.assert_allclose(token, np.max(windows, axis=0), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("place", [0, 3, 6])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_convolution_keeps_nan_and_infinity(kernel, place, value):
    """The value comes before, between and after larger numbers of other positions."""
    table = np.random.default_rng(0).standard_normal((9, 2, 16)).astype("float32")
    table[8, 1, 15] = value
    index = np.arange(8).reshape(1, -1).repeat(2, axis=0)
    index[1, place + 1] = 8
    expected = np.ones((2, 16), bool)
    expected[1, 15] = False
    np.testing.assert_array_equal(np.isfinite(kernel.convolve(table, index)), expected)


def test_the_environment_chooses_the_kernel(monkeypatch):
    worthwhile = (name for name in KERNELS[:0:-1] if load_compiled(name).elmo_is_worthwhile())
    default = next(worthwhile, NUMPY)
    lacking = sorted({"neon", "avx2", "avx512"} - set(KERNELS))  # no processor has all of them
    wrong = {
        "mmx": "'mmx'. Set it to one of numpy, neon, neon_dot, avx2, avx2_vnni, avx512",
        lacking[0]: f"'{lacking[0]}', but.*Available: numpy",
    }
    for name in (*KERNELS, "", *wrong):
        monkeypatch.setenv(VARIABLE, name)
        find_kernel.cache_clear()
        if name in wrong:
            with pytest.raises(ValueError, match=wrong[name]):
                find_kernel()
        else:
            assert find_kernel().name == (name or default)
    find_kernel.cache_clear()


class Library:
    """Stand-in of a kernel's library on a processor where it is a good default, or is not."""

    def __init__(self, worthwhile):
        self.elmo_is_worthwhile = lambda: worthwhile


@pytest.mark.parametrize(
    ("worthwhile", "expected"),
    [
        ({"avx512_vnni": True, "avx512_bf16": False}, "avx512_vnni"),
        ({"avx512_vnni": True, "avx512_bf16": True}, "avx512_bf16"),
        ({"avx512_bf16": False}, "numpy"),
    ],
)
def test_the_default_is_worthwhile(monkeypatch, worthwhile, expected):
    libraries = {name: Library(value) for name, value in worthwhile.items()}
    monkeypatch.setattr(kernels, "load_compiled", libraries.get)
    monkeypatch.setattr(kernels, "CompiledKernel", lambda name, _: SimpleNamespace(name=name))
    monkeypatch.delenv(VARIABLE, raising=False)
    find_kernel.cache_clear()
    assert find_kernel().name == expected
    assert find_kernel("avx512_bf16").name == "avx512_bf16"  # A user can still choose it.
    find_kernel.cache_clear()


# Names of instruction sets in /proc/cpuinfo that differ from the names of the compiler's options.
OF_LINUX = {"avxvnni": "avx_vnni", "avx512vnni": "avx512_vnni", "avx512bf16": "avx512_bf16"}


@pytest.fixture(scope="module")
def instruction_sets():
    """Return the instruction sets for which setup.py compiles each kernel, on x86."""
    setup = FOLDER.parents[2] / "setup.py"
    if not setup.exists():
        pytest.skip("this is no checkout")
    extensions = run_setup(str(setup), stop_after="init").ext_modules or []
    sets = {
        extension.name.rpartition("._")[2]: {
            flag[2:] for flag in extension.extra_compile_args if flag.startswith("-m")
        }
        for extension in extensions
    }
    if "avx2" not in sets:
        pytest.skip("this is no x86")
    return sets


def test_every_instruction_set_is_checked(instruction_sets):
    """A virtual machine can mask any instruction set that a kernel needs."""
    compiled_for = set().union(*instruction_sets.values())
    source = (FOLDER / "processor.h").read_text("utf8")
    asked_for = set(re.findall(r'^    {"([a-z][\w-]+)", \d', source, re.MULTILINE))
    assert asked_for >= compiled_for >= {"avx2", "fma", "f16c", "avxvnni", "avx512bf16"}


def test_kernels_are_those_that_the_processor_can_run(instruction_sets):
    """They are all kernels that were built and whose instructions Linux reports."""
    if not Path("/proc/cpuinfo").exists():
        pytest.skip("this is not Linux")
    flags = re.search(r"^flags\s*:(.*)", Path("/proc/cpuinfo").read_text("utf8"), re.MULTILINE)
    reported = set(flags[1].split())
    for name, sets in instruction_sets.items():
        if any(FOLDER.glob(f"_{name}.*")):
            has_all = reported >= {OF_LINUX.get(each, each.replace("-", "_")) for each in sets}
            # Linux can refuse the tile registers of AMX to a process.
            assert name in KERNELS or not has_all or name == "amx"
            assert has_all or name not in KERNELS


def test_each_call_is_noted(kernel):
    """`make test` repeats only tests that called a kernel with the other kernels."""
    weights = lstm_weights(np.random.default_rng(0), 8, 8, 8)
    inputs, state = np.zeros((2, 8), "float32"), np.zeros((2, 8), "float32")
    linear = kernel.make_linear(np.zeros((16, 8), "float32"), None, "float32")
    lstm = kernel.make_lstm(weights, "float32", cell_clip=0.0, proj_clip=0.0)
    gates = lstm.project_inputs(inputs)
    for call in (
        lambda: linear(inputs),
        lambda: lstm.project_inputs(inputs),
        lambda: lstm.run(gates, None, [2], state, state.copy()),
        lambda: kernel.convolve(np.zeros((3, 2, 16), "float32"), np.zeros((1, 5), "int32")),
    ):
        before = n_calls()
        call()
        assert n_calls() > before
