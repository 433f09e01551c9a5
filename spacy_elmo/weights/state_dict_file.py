"""Reader of PyTorch's state dicts, without PyTorch.

A file is either a zip archive or, from PyTorch before 1.6, a row of pickles. The tensors are views
of the bytes in the file, and their sizes are checked against these bytes. PyTorch's own readers
allocate or read what the pickle claims.
"""

import math
import zipfile
from io import BytesIO
from typing import Any, BinaryIO

import numpy as np

from ..files.errors import bounded, shortened
from .archives import Readable, check_directory, opened
from .layout import StoredArrays
from .limits import LARGEST_PICKLE, MAX_ENTRIES
from .state_dict_pickle import Refused, Storage, Tensor, check_size, read_pickle

PICKLE_FILE = "data.pkl"
ORDER_FILE = "byteorder"  # PyTorch before 2.1 does not write it.
_BYTE_ORDERS = {b"little": "<", b"big": ">"}
# The first two pickles of the old format.
_MAGIC_NUMBER, _OLD_VERSION = 0x1950A86A20F9469CFC6C, 1001
_N_SIZE = 8  # Bytes of the number before each storage of the old format: its size.


class StateDict(StoredArrays):
    """Tensors of a state dict of PyTorch, as NumPy arrays."""

    def _checked_shape(self, name: str) -> tuple[int, ...]:
        values: np.ndarray = self[name]
        return values.shape

    def read(self, name: str) -> np.ndarray:
        """Return a tensor, converted to float32."""
        values: np.ndarray = self[name]
        if values.dtype.kind == "u":  # The bits of bfloat16.
            return (values.astype("uint32") << 16).view("float32")
        with np.errstate(over="ignore"):
            return np.asarray(values, dtype="float32")


def read_state_dict(file: Readable) -> StateDict:
    """Read a state dict without running code from the file.

    RAISES (ValueError): The file is broken, not a state dict, or contains anything but floats.
    """
    with opened(file) as stream:
        try:
            is_archive = stream.read(4) == b"PK\x03\x04"
            content, parts = _read_archive(stream) if is_archive else _read_old(stream)
            tensors = {name: _array(name, tensor, parts) for name, tensor in content.items()}
        except Refused as error:
            raise ValueError(f"{file}: {error}. No code from this file was run.") from error
        except MemoryError:  # A lack of memory is no error of the file.
            raise
        except Exception as error:  # Broken files raise many types of errors.
            reason = bounded(error)
            raise ValueError(f"{file}: not a readable state dict of PyTorch: {reason}") from None
    return StateDict(tensors, str(file))


def _read_archive(stream: BinaryIO) -> tuple[dict[str, Tensor], dict[Storage, np.ndarray]]:
    """Return the tensors in the pickle of a zip archive, and the values of their storages."""
    n_bytes = stream.seek(0, 2)
    check_directory(stream)
    with zipfile.ZipFile(stream) as archive:
        members = archive.infolist()
        by_name = {member.filename: member for member in members}
        if len(members) > MAX_ENTRIES:
            raise Refused(f"it has {len(members):,} members")
        if len(by_name) < len(members):
            raise Refused("two of its members have the same name")
        if sum(member.file_size for member in members) > n_bytes:
            raise Refused("its members claim more bytes than the file has")
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise Refused("its members are compressed, but PyTorch does not compress them")
        pickles = [name for name in by_name if name.partition("/")[2] == PICKLE_FILE]
        if len(pickles) != 1:
            raise ValueError(f"{len(pickles)} members are named FOLDER/{PICKLE_FILE}")
        check_size(by_name[pickles[0]].file_size)
        folder = pickles[0].removesuffix(PICKLE_FILE)
        has_order = f"{folder}{ORDER_FILE}" in by_name
        order = archive.read(f"{folder}{ORDER_FILE}") if has_order else b"little"
        if order not in _BYTE_ORDERS:
            raise ValueError(f"the member {ORDER_FILE} is neither 'little' nor 'big'")
        content = _tensors(read_pickle(BytesIO(archive.read(pickles[0]))))
        parts = {}
        storages = _storages(content)
        _check_keys(storages, [key for key in storages if f"{folder}data/{key}" in by_name])
        for key, storage in storages.items():
            values = archive.read(f"{folder}data/{key}")
            parts[storage] = np.frombuffer(values, _BYTE_ORDERS[order] + storage.dtype)
    return content, parts


def _read_old(stream: BinaryIO) -> tuple[dict[str, Tensor], dict[Storage, np.ndarray]]:
    """Return the tensors in a file of the old format, and the values of their storages.

    The file has a pickle each for magic number, version, system, state dict and keys of storages.
    The storages follow in the order of these keys.
    """
    n_bytes = stream.seek(0, 2)
    stream.seek(0)
    pickles = BytesIO(stream.read(LARGEST_PICKLE + 1))
    magic, version, _, content, keys = (read_pickle(pickles) for _ in range(5))
    if magic != _MAGIC_NUMBER or version != _OLD_VERSION:
        raise ValueError("the magic number or the version is wrong")
    stream.seek(pickles.tell())
    tensors = _tensors(content)
    storages = _storages(tensors)
    _check_keys(storages, keys)
    parts = {}
    for key in keys:
        storage = storages[key]
        size = int.from_bytes(stream.read(_N_SIZE), "little") * np.dtype(storage.dtype).itemsize
        if size > n_bytes - stream.tell():
            raise ValueError(f"a storage claims to contain {size:,} bytes")
        parts[storage] = np.frombuffer(stream.read(size), f"<{storage.dtype}")
    return tensors, parts


def _tensors(content: Any) -> dict[str, Tensor]:
    """Return the content of a pickle, if it is a dict of tensors."""
    if type(content) is not dict or not {Tensor}.issuperset(map(type, content.values())):
        raise ValueError("not a state dict, which is a dict of tensors")
    return content


def _storages(tensors: dict[str, Tensor]) -> dict[str, Storage]:
    """Return the storages of all tensors, by their keys.

    RAISES (Refused): Two storages have the same key, so its values would be read more than once.
    """
    storages = {tensor.storage for tensor in tensors.values()}
    by_key = {storage.key: storage for storage in storages}
    if len(by_key) < len(storages):
        raise Refused("two of its storages have the same key")
    return by_key


def _check_keys(storages: dict[str, Storage], found: list[str]) -> None:
    """Raise ValueError if the values of a storage are missing, or belong to no tensor."""
    for key in sorted(storages.keys() ^ set(found)):
        state = "are missing" if key in storages else "belong to no tensor"
        raise ValueError(f"the values of storage {shortened(key)} {state}")


def _array(name: str, tensor: Tensor, parts: dict[Storage, np.ndarray]) -> np.ndarray:
    """Return the values of a tensor, as a view of its storage."""
    what = f"tensor {shortened(name)}"
    is_negative = any(number < 0 for number in (*tensor.shape, *tensor.strides))
    if is_negative or len(tensor.shape) != len(tensor.strides):
        raise ValueError(f"{what} has a wrong shape or wrong strides")
    values = parts[tensor.storage]
    n_bytes = math.prod(tensor.shape) * values.itemsize
    if n_bytes > values.nbytes or tensor.storage.size != values.size:
        raise ValueError(f"{what} claims to contain {n_bytes:,} bytes, but has fewer")
    strides = [step * values.itemsize for step in tensor.strides]
    # NumPy checks that all values are in the storage.
    return np.ndarray(tensor.shape, values.dtype, values, tensor.offset * values.itemsize, strides)
