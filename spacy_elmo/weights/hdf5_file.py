"""Safe reader of HDF5 files from untrusted sources."""

import math
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Optional

import h5py
import numpy as np

from ..files.errors import named_errors, shortened
from ..files.hdf5 import text_attribute
from .archives import Readable, opened
from .layout import StoredArrays
from .limits import LARGEST_JSON, MAX_CHUNKS, MAX_ENTRIES, MAX_LEVELS, largest_unpacked

_GZIP = h5py.h5z.FILTER_DEFLATE
# With these filters, the unpacked size of each chunk can be checked. Other filters are refused. For
# some of them, HDF5 would load a plugin.
_FILTERS = {_GZIP, h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32}
_CHECKSUM = 4  # Bytes that FLETCHER32 adds to a chunk.


class HDF5Arrays(StoredArrays):
    """Datasets of an open HDF5 file.

    Soft and external links are ignored.
    """

    kind = "dataset"

    def __init__(self, file: h5py.File, source: str, n_bytes: int):
        self._file = file
        with _readable(source):
            super().__init__(dict(sorted(_datasets(file), key=lambda named: named[0])), source)
            chunks = [_chunks(dataset) for dataset in self.values()]
        claimed = sum(number * size for number, size in chunks)
        if claimed > largest_unpacked(n_bytes):
            raise ValueError(
                f"{source}: claims to contain {claimed:,} bytes, but the file has {n_bytes:,}"
            )
        n_chunks = sum(number for number, _ in chunks)
        if n_chunks > MAX_CHUNKS:
            raise ValueError(f"{source}: {n_chunks:,} chunks, but at most {MAX_CHUNKS:,} allowed")

    def _checked_shape(self, name: str) -> tuple[int, ...]:
        dataset = self[name]
        what = f"{self.source}: dataset {shortened(name)}"
        filters = _filters(dataset)
        if _is_elsewhere(dataset) or not _FILTERS.issuperset(filters) or filters.count(_GZIP) > 1:
            raise ValueError(f"{what} is in another file, or its compression is not gzip")
        if not _has_floats(dataset):
            with _readable(what):  # Some types have no NumPy type.
                found = shortened(str(dataset.dtype))
            raise ValueError(f"{what} contains {found}, not floats")
        if dataset.shape is None:
            raise ValueError(f"{what} is empty")
        return tuple(dataset.shape)

    def read(self, name: str) -> np.ndarray:
        """Return a dataset, converted to float32."""
        # A float64 that is too large becomes infinite, which `read_parameters` reports by name.
        with _readable(self.source), np.errstate(over="ignore"):
            if _GZIP in _filters(self[name]):
                _check_chunks(self[name])
            return np.asarray(self[name][()], dtype="float32")

    def dtypes(self) -> set[str]:
        """Return the types of all datasets of floats, such as "float32"."""
        with _readable(self.source):
            return {str(dataset.dtype) for dataset in self.values() if _has_floats(dataset)}

    def attribute(self, name: str) -> Optional[str]:
        """Return an attribute of the file as text; None if it does not exist."""
        with _readable(self.source):
            return text_attribute(self._file, name, LARGEST_JSON)


@contextmanager
def open_hdf5(file: Readable) -> Iterator[HDF5Arrays]:
    """Context manager: open an HDF5 file for reading.

    RAISES (ValueError): The file is broken.
    """
    with opened(file) as stream:
        n_bytes = stream.seek(0, 2)
        try:
            with _readable(file):
                # HDF5 reads faster from a path than from a Python stream.
                content = h5py.File(file if isinstance(file, Path) else stream, "r")
        except ValueError as error:
            if not isinstance(error.__cause__, BlockingIOError):
                raise
            raise ValueError(
                f"{file}: another process is writing to this file. Try again when it is done"
            ) from error
        with content:
            yield HDF5Arrays(content, str(file), n_bytes)


def _datasets(file: h5py.File) -> Iterator[tuple[str, h5py.Dataset]]:
    """Yield the name and the object of each dataset in all groups."""
    n_entries = 0
    waiting: list[tuple[tuple[bytes, ...], h5py.h5g.GroupID]] = [((), file["/"].id)]
    while waiting:
        path, group = waiting.pop()
        n_entries += len(group)
        if n_entries > MAX_ENTRIES or len(path) >= MAX_LEVELS:
            raise ValueError(f"more than {MAX_ENTRIES:,} entries, or {MAX_LEVELS} levels of groups")
        for name in group:
            if group.links.get_info(name).type != h5py.h5l.TYPE_HARD:
                continue
            item, inner = h5py.h5o.open(group, name), (*path, name)
            if isinstance(item, h5py.h5g.GroupID):
                waiting.append((inner, item))
            elif isinstance(item, h5py.h5d.DatasetID):
                yield b"/".join(inner).decode("utf8", "backslashreplace"), h5py.Dataset(item)


def _filters(dataset: h5py.Dataset) -> list[int]:
    creation = dataset.id.get_create_plist()
    return [creation.get_filter(i)[0] for i in range(creation.get_nfilters())]


def _has_floats(dataset: h5py.Dataset) -> bool:
    return bool(dataset.id.get_type().get_class() == h5py.h5t.FLOAT)


def _is_elsewhere(dataset: h5py.Dataset) -> bool:
    return bool(dataset.is_virtual or dataset.id.get_create_plist().get_external_count())


def _chunks(dataset: h5py.Dataset) -> tuple[int, int]:
    """Return the number of chunks of a dataset, and the unpacked size of a chunk in bytes.

    If the values of the dataset are in another file, return (0, 0), because this reader never opens
    another file.
    """
    if _is_elsewhere(dataset) or dataset.shape is None:
        return 0, 0
    creation = dataset.id.get_create_plist()
    chunk = creation.get_chunk() if creation.get_layout() == h5py.h5d.CHUNKED else dataset.shape
    number = math.prod(-(-size // step) for size, step in zip(dataset.shape, chunk) if step)
    return number, dataset.id.get_type().get_size() * math.prod(chunk)


def _check_chunks(dataset: h5py.Dataset) -> None:
    """Raise an error if a chunk unpacks to more than its declared size. HDF5 checks too late."""
    _, chunk_bytes = _chunks(dataset)
    for i in range(dataset.id.get_num_chunks()):
        chunk = dataset.id.get_chunk_info(i).chunk_offset
        mask, packed = dataset.id.read_direct_chunk(chunk)
        unpacking = zlib.decompressobj()
        n_bytes = 0 if mask else len(unpacking.decompress(packed, chunk_bytes + _CHECKSUM + 1))
        if n_bytes > chunk_bytes + _CHECKSUM:
            raise ValueError(f"a chunk of {shortened(dataset.name)} is longer than declared")


def _readable(source: object) -> AbstractContextManager[None]:
    """Return a context manager that turns errors of HDF5, of any type, into a ValueError."""
    return named_errors(f"{source}: not a readable HDF5 file", Exception)
