"""Compiled kernels. They are called with ctypes, which releases Python's lock during a call."""

import ctypes
from collections.abc import Sequence
from functools import cache, partial
from importlib.util import find_spec
from typing import Optional

import numpy as np

from .numpy_kernel import LSTMWeights, bfloat16_bits, quantize_rows

# The kernels, slowest first. A kernel has fast operations for these formats, fastest first, in
# addition to float32. setup.py contains the instruction sets of each kernel.
KERNELS: dict[str, tuple[str, ...]] = {
    "neon": ("int8",),
    "neon_dot": ("int8",),
    "avx2": ("int8",),
    "avx2_vnni": ("int8",),
    "avx512": ("int8",),
    "avx512_vnni": ("int8",),
    "avx512_bf16": ("bfloat16", "int8"),
    "amx": ("bfloat16", "int8"),
}
PANEL = 16
CHUNK = 96  # It must equal `CHUNK` in kernel.cpp.
TYPES = ("float32", "float16", "bfloat16", "int8")
CACHE_LINE = 64
# Number of consecutive inputs that are stored together for each output of a panel.
GROUPS = {"float32": 1, "float16": 1, "bfloat16": 2, "int8": 4}
# Maximum number of int8 products whose sum always fits in 32 bits.
MAX_INT8_INPUTS = (2**31 - 1) // 127**2


class _Matrix(ctypes.Structure):
    """Struct `Matrix` of `kernel.cpp`: a packed weight. Without a weight, `panels` is null."""

    _fields_ = (
        ("panels", ctypes.c_void_p),
        ("scales", ctypes.c_void_p),
        ("sums", ctypes.c_void_p),
        ("n_outputs", ctypes.c_int64),
        ("n_inputs", ctypes.c_int64),
        ("type", ctypes.c_int32),
    )


@cache
def load_compiled(name: str) -> Optional[ctypes.CDLL]:
    """Load a compiled kernel.

    name (str): One of `KERNELS`.
    RETURNS (Optional[ctypes.CDLL]): The library, or None if it was not built or the processor
        lacks its instructions.
    """
    found = find_spec(f"{__package__}._{name}") if name in KERNELS else None
    if found is None or found.origin is None:
        return None
    try:
        library = ctypes.CDLL(found.origin)
    except OSError:
        return None
    return library if library.elmo_is_supported() else None


class PackedMatrix(_Matrix):
    """Weight matrix in the layout that `kernel.cpp` reads: panels of 16 outputs.

    weight (numpy.ndarray): *Shape:* `(n_outputs, n_inputs)`
    type (str): "float32", "float16", "bfloat16" or "int8". A weight with more than
        `MAX_INT8_INPUTS` inputs is stored in "float32" instead of "int8".
    """

    def __init__(self, weight: np.ndarray, type: str):
        n_outputs, n_inputs = map(_padded, weight.shape)
        if type == "int8" and n_inputs > MAX_INT8_INPUTS:
            type = "float32"
        stored = np.zeros((n_outputs, n_inputs), dtype="float32")
        stored[: weight.shape[0], : weight.shape[1]] = weight
        scales = sums = None
        if type == "float16":
            stored = stored.astype("float16")
        elif type == "bfloat16":
            stored = bfloat16_bits(stored)
        elif type == "int8":
            stored, scales = quantize_rows(stored)
            sums = stored.sum(axis=1, dtype="int32")
        group = GROUPS[type]
        panels = stored.reshape(-1, PANEL, n_inputs // group, group).transpose(0, 2, 1, 3)
        # Keep the arrays alive, because the struct contains only their addresses.
        self._arrays = _in_cache_lines(panels), scales, sums
        super().__init__(*map(_address, self._arrays), n_outputs, n_inputs, TYPES.index(type))


class CompiledLinear:
    """Linear layer in a compiled kernel, with the interface of `NumpyLinear`."""

    def __init__(
        self, library: ctypes.CDLL, weight: np.ndarray, bias: Optional[np.ndarray], type: str
    ):
        self.library, self.n_outputs = library, len(weight)
        self.matrix = PackedMatrix(weight, type)
        self.bias = None if bias is None else _widened(bias, self.matrix.n_outputs)

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        """Apply the layer to each row.

        inputs (numpy.ndarray): *Shape:* `(n, n_inputs)`
        RETURNS (numpy.ndarray): *Shape:* `(n, n_outputs)`
        """
        return self._multiply(inputs, blocked=False)[:, : self.n_outputs]

    def blocks(self, inputs: np.ndarray) -> np.ndarray:
        """Apply the layer to each row, and return blocks of 64 outputs: the layout of LSTM gates.

        inputs (numpy.ndarray): *Shape:* `(n, n_inputs)`
        RETURNS (numpy.ndarray): The blocks. *Shape:* `(n_outputs / 64, n, 64)`
        """
        return self._multiply(inputs, blocked=True).reshape(-1, len(inputs), 64)

    def _multiply(self, inputs: np.ndarray, *, blocked: bool) -> np.ndarray:
        matrix = self.matrix
        inputs = _widened(inputs, matrix.n_inputs)
        outputs = np.empty((len(inputs), matrix.n_outputs), dtype="float32")
        space = np.empty(CHUNK * (matrix.n_inputs // 2 + 1), dtype="float32")
        self.library.elmo_product(
            ctypes.byref(matrix),
            *_pointers(inputs, self.bias),
            ctypes.c_int64(len(inputs)),
            ctypes.c_int(blocked),
            *_pointers(outputs, space),
        )
        return outputs


class CompiledLSTM:
    """LSTM layer in a compiled kernel, with the interface of `NumpyLSTM`."""

    def __init__(
        self,
        library: ctypes.CDLL,
        weights: LSTMWeights,
        type: str,
        *,
        cell_clip: float,
        proj_clip: float,
    ):
        self.library = library
        self.clips = ctypes.c_float(cell_clip), ctypes.c_float(proj_clip)
        bias = blocks_of_units(weights.bias[:, None])[:, 0]
        self.input_product = CompiledLinear(library, blocks_of_units(weights.input), bias, type)
        self.state_weight = PackedMatrix(blocks_of_units(weights.state), type)
        self.dim = self.state_weight.n_outputs // 4
        projection = weights.projection
        self.projection = _Matrix() if projection is None else PackedMatrix(projection, type)

    def project_inputs(self, inputs: np.ndarray) -> np.ndarray:
        """Compute the part of the gates that depends on the inputs. *Shape:* `(D / 16, n, 64)`."""
        return self.input_product.blocks(inputs)

    def run(
        self,
        gates: np.ndarray,
        rows: Optional[np.ndarray],
        batch_sizes: Sequence[int],
        hidden: np.ndarray,
        cell: np.ndarray,
    ) -> np.ndarray:
        """Run the LSTM over packed sequences. Arguments and result are those of `NumpyLSTM.run`."""
        sizes = np.asarray(batch_sizes, dtype="int64")
        width, n_rows = self.state_weight.n_inputs, int(sizes[0])
        h, c = _widened(hidden[:n_rows], width), _widened(cell[:n_rows], self.dim)
        outputs = np.empty((int(sizes.sum()), width), dtype="float32")
        space = np.empty(
            2 * n_rows * self.dim + max(n_rows, CHUNK) * (max(self.dim, width) // 2 + 1),
            dtype="float32",
        )
        rows = None if rows is None else np.ascontiguousarray(rows, dtype="int64")
        self.library.elmo_lstm(
            ctypes.byref(self.state_weight),
            ctypes.byref(self.projection),
            *_pointers(gates),
            ctypes.c_int64(gates.shape[1]),
            *_pointers(rows, sizes),
            ctypes.c_int64(len(sizes)),
            *self.clips,
            *_pointers(h, c, outputs, space),
        )
        for state, after in ((hidden, h), (cell, c)):
            if not np.may_share_memory(state, after):
                state[:n_rows] = after[:, : state.shape[1]]
        return outputs[:, : hidden.shape[1]]


class CompiledKernel:
    """Kernel in a compiled library, with the interface of `NumpyKernel`.

    name (str): One of `KERNELS`.
    library (ctypes.CDLL): Result of `load_compiled`.
    """

    def __init__(self, name: str, library: ctypes.CDLL):
        self.name, self.library = name, library
        self.fast_types = KERNELS[name]
        self.make_linear = partial(CompiledLinear, library)
        self.make_lstm = partial(CompiledLSTM, library)

    def convolve(self, table: np.ndarray, index: np.ndarray) -> np.ndarray:
        """Compute the maximum of each filter over the positions of each token.

        Arguments and result are the same as for `NumpyKernel.convolve`, except that the number of
        filters must be a multiple of 16.
        """
        _, width, n_filters = table.shape
        index = np.ascontiguousarray(index, dtype="int32")
        largest = np.empty((len(index), n_filters), dtype="float32")
        sizes = map(ctypes.c_int64, (*index.shape, width, n_filters))
        self.library.elmo_convolve(*_pointers(table, index), *sizes, *_pointers(largest))
        return largest


def blocks_of_units(weight: np.ndarray) -> np.ndarray:
    """Reorder the rows of an LSTM weight from the gates i, j, f, o to blocks of 16 units.

    A block has 64 rows: 16 rows of each of the gates o, i, f and j.

    weight (numpy.ndarray): *Shape:* `(4D, n)`
    RETURNS (numpy.ndarray): float32, with D padded to a multiple of 16. *Shape:* `(4D, n)`
    """
    gates = weight.reshape(4, -1, weight.shape[1])[[3, 0, 2, 1]]
    padded = np.zeros((4, _padded(gates.shape[1]), weight.shape[1]), dtype="float32")
    padded[:, : gates.shape[1]] = gates
    blocks = padded.reshape(4, -1, PANEL, weight.shape[1]).transpose(1, 0, 2, 3)
    return blocks.reshape(-1, weight.shape[1])


def _padded(size: int) -> int:
    return -(-size // PANEL) * PANEL


def _widened(values: np.ndarray, width: int) -> np.ndarray:
    """Return a contiguous float32 array, padded with zeros to a width. Copy only if needed."""
    if values.shape[-1] == width:
        return np.ascontiguousarray(values, dtype="float32")
    widened = np.zeros((*values.shape[:-1], width), dtype="float32")
    widened[..., : values.shape[-1]] = values
    return widened


def _in_cache_lines(values: np.ndarray) -> np.ndarray:
    """Return a contiguous copy that begins at a cache line, so that no vector is in two of them."""
    memory = np.empty(values.nbytes + CACHE_LINE, dtype="uint8")
    start = -memory.ctypes.data % CACHE_LINE
    copy = memory[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    copy[...] = values
    return copy


def _address(values: Optional[np.ndarray]) -> Optional[int]:
    return None if values is None else values.ctypes.data


def _pointers(*arrays: Optional[np.ndarray]) -> list[ctypes.c_void_p]:
    return [ctypes.c_void_p(_address(values)) for values in arrays]
