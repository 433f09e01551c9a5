"""Reader and writer of the tensors in a `.safetensors` file, without PyTorch.

The format of a model in such a file is in `safetensors_file`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Optional, Union

import numpy as np
from safetensors import deserialize
from safetensors.numpy import save as write_tensors

from ..files import OpenedFile
from ..files.errors import shortened
from ..frozen.kernel.numpy_kernel import bfloat16_bits, to_bfloat16
from .archives import opened
from .layout import StoredArrays
from .limits import LARGEST_JSON

N_SIZE = 8  # Bytes of the number at the start of a file: the length of the header.
DTYPES = ("float32", "float16", "bfloat16")
# NumPy types, by the names of types in a file. bfloat16 has no NumPy type, see `load`.
_READ = {f"{kind.upper()}{8 * size}": f"<{kind}{size}" for kind in "fiu" for size in (1, 2, 4, 8)}


class StoredTensors(StoredArrays):
    """Tensors of a `.safetensors` file, as NumPy arrays."""

    def _checked_shape(self, name: str) -> tuple[int, ...]:
        values: np.ndarray = self[name]
        if values.dtype.kind != "f":
            what = f"{self.source}: tensor {shortened(name)}"
            raise ValueError(f"{what} contains {values.dtype}, not floats")
        return values.shape

    def read(self, name: str) -> np.ndarray:
        """Return a tensor, with float64 converted to float32."""
        values: np.ndarray = self[name]
        with np.errstate(over="ignore"):
            return values.astype("float32") if values.dtype == "float64" else values


def read_file(file: Union[Path, OpenedFile]) -> bytes:
    """Read the bytes of a `.safetensors` file, and check the size of its header first.

    RAISES (ValueError): The file cannot be read, or its header is too large.
    """
    with opened(file) as stream:
        start = stream.read(N_SIZE)
        size = header_size(start)
        if size > LARGEST_JSON:
            raise ValueError(
                f"{file}: not a readable .safetensors file: its header claims {size:,} bytes, but "
                f"at most {LARGEST_JSON:,} are allowed"
            )
        return start + stream.read()


def header_size(data: bytes) -> int:
    """Return the length of a file's header in bytes. The first 8 bytes of the file contain it."""
    return int.from_bytes(data[:N_SIZE], "little")


def load(data: bytes) -> dict[str, np.ndarray]:
    """Convert the content of a `.safetensors` file to tensors.

    RETURNS (Dict[str, numpy.ndarray]): bfloat16 is converted to float32.
    RAISES (SafetensorError): The content is broken.
    """
    tensors = {}
    for name, tensor in deserialize(data):
        kind, content = tensor["dtype"], tensor["data"]
        if kind == "BF16":
            # bfloat16 is the upper half of float32.
            bits = np.frombuffer(content, dtype="<u2").astype("uint32") << 16
            tensors[name] = bits.view("float32").reshape(tensor["shape"])
        elif kind in _READ:
            tensors[name] = np.frombuffer(content, dtype=_READ[kind]).reshape(tensor["shape"])
        else:
            # All readers refuse V1, because it is neither floats nor bytes.
            tensors[name] = np.frombuffer(content, dtype="V1")
    return tensors


def save(
    tensors: Mapping[str, np.ndarray],
    dtype: Optional[str] = None,
    metadata: Optional[dict[str, str]] = None,
) -> bytes:
    """Convert tensors to the content of a `.safetensors` file.

    dtype (Optional[str]): Type of floats on disk, one of `DTYPES`. Default: float16 for each tensor
        whose values are all float16 numbers, and float32 for the others. This loses nothing.
    RAISES (ValueError): A weight is too large for the type, or not finite.
    """
    floats = {name for name, values in tensors.items() if values.dtype.kind == "f"}
    stored = {**tensors, **{name: _cast(name, tensors[name], dtype) for name in floats}}
    content: bytes = write_tensors(stored, metadata=metadata)
    return _named_bfloat16(content, floats) if dtype == "bfloat16" else content


def _named_bfloat16(content: bytes, names: set[str]) -> bytes:
    """Set the dtype of the tensors `names` to bfloat16 in the header of a file's content.

    The content has them as integers with the same bits, because NumPy has no bfloat16.
    """
    end = N_SIZE + header_size(content)
    header = json.loads(content[N_SIZE:end])
    for name in names:
        header[name]["dtype"] = "BF16"
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % N_SIZE)  # The length of the header must be a multiple of 8.
    return len(text).to_bytes(N_SIZE, "little") + text + content[end:]


def rounded(values: np.ndarray, dtype: str) -> np.ndarray:
    """Round values to a float type, one of `DTYPES`. Return them in float32."""
    exact = np.asarray(values, dtype="float32")
    if dtype == "bfloat16":
        return to_bfloat16(exact)
    with np.errstate(over="ignore"):
        return exact.astype(dtype).astype("float32")


def _cast(name: str, values: np.ndarray, dtype: Optional[str]) -> np.ndarray:
    """Convert a weight to a type on disk. Raise a ValueError if its values do not fit.

    None means float16 or float32, see `save`. For bfloat16, which NumPy does not have, return
    integers with the same bits.
    """
    if not np.isfinite(values).all():
        raise ValueError(
            f"'{name}' contains NaN or infinity, so the model is not written. Train again with a "
            f"lower learn_rate"
        )
    if dtype is None:
        dtype = "float16" if np.array_equal(rounded(values, "float16"), values) else "float32"
    elif not np.isfinite(rounded(values, dtype)).all():
        raise ValueError(
            f"'{name}' contains {np.abs(values).max():.3g}, which is too large for {dtype}. "
            f"Use bfloat16 or float32"
        )
    if dtype == "bfloat16":
        return bfloat16_bits(np.asarray(values, dtype="float32"))
    return np.ascontiguousarray(values, dtype=dtype)
