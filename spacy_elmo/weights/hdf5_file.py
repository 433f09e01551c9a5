"""Reader of HDF5 files from untrusted sources."""

import math
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple, Optional

import h5py
import numpy as np

from ..files.errors import named_errors
from ..frozen.config import shortened
from .archives import Readable, opened
from .limits import LARGEST_JSON, MAX_CHUNKS, MAX_ENTRIES, MAX_LEVELS, largest_unpacked

_GZIP = h5py.h5z.FILTER_DEFLATE
# Only these filters are safe: their unpacked size can be checked per chunk. For some others HDF5
# would load a plugin.
_FILTERS = {_GZIP, h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32}
_CHECKSUM = 4  # Bytes that FLETCHER32 adds to a chunk.


class _Description(NamedTuple):
    """Description of a dataset; one in another file has no size, as that file is not opened."""

    is_inside: bool
    is_float: bool
    n_chunks: int = 0
    chunk_bytes: int = 0
    is_packed: bool = False

    @property
    def n_bytes(self) -> int:
        """Unpacked size."""
        return self.n_chunks * self.chunk_bytes


class HDF5Arrays(dict[str, h5py.Dataset]):
    """Datasets of an open file by name, as `StoredArrays`.

    Soft and external links are not followed.

    file (h5py.File): The file.
    source (str): Its name in error messages.
    n_bytes (int): Its size.
    """

    kind = "dataset"

    def __init__(self, file: h5py.File, source: str, n_bytes: int):
        self.source = source
        self._file = file
        with _readable(source):
            super().__init__(sorted(_datasets(file), key=lambda named: named[0]))
            self._described = {name: _describe(item) for name, item in self.items()}
        described = self._described.values()
        claimed = sum(dataset.n_bytes for dataset in described)
        if claimed > largest_unpacked(n_bytes):
            raise ValueError(
                f"{source}: claims to contain {claimed:,} bytes in a file of {n_bytes:,}"
            )
        n_chunks = sum(dataset.n_chunks for dataset in described)
        if n_chunks > MAX_CHUNKS:
            raise ValueError(f"{source}: {n_chunks:,} chunks, at most {MAX_CHUNKS:,} are allowed")

    def shape(self, name: str) -> Optional[tuple[int, ...]]:
        """Return the shape of a dataset; None if there is none."""
        described = self._described.get(name)
        if described is None:
            return None
        what = f"{self.source}: dataset {shortened(name)}"
        if not described.is_inside:
            raise ValueError(f"{what} is in another file, or its compression is not gzip")
        if not described.is_float:
            kind = shortened(str(self[name].dtype))
            raise ValueError(f"{what} contains {kind}, not floats")
        shape: Optional[tuple[int, ...]] = self[name].shape
        if shape is None:
            raise ValueError(f"{what} is empty")
        return shape

    def read(self, name: str) -> np.ndarray:
        """Read a dataset in float32."""
        with _readable(self.source), np.errstate(over="ignore"):
            if self._described[name].is_packed:
                _check_chunks(self[name], self._described[name].chunk_bytes)
            return np.asarray(self[name][()], dtype="float32")

    def dtypes(self) -> set[str]:
        """Return the types of all datasets of floats."""
        return {str(self[name].dtype) for name in self if self._described[name].is_float}

    def attribute(self, name: str) -> Optional[str]:
        """Return an attribute of the file, as text; None if there is none."""
        with _readable(self.source):
            if name not in self._file.attrs:
                return None
            text = str(self._file.attrs[name])
        if len(text) > LARGEST_JSON:
            raise ValueError(f"{self.source}: more than {LARGEST_JSON:,} characters in '{name}'")
        return text


@contextmanager
def open_hdf5(file: Readable) -> Iterator[HDF5Arrays]:
    """Open an HDF5 file.

    file (Union[Path, zipfile.Path, OpenedFile]): The file.
    YIELDS (HDF5Arrays): Its datasets.
    RAISES (ValueError): The file is broken.
    """
    with opened(file) as stream:
        n_bytes = stream.seek(0, 2)
        try:
            with _readable(file):
                # HDF5 reads a path faster than a Python stream.
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
    """Yield the name of every dataset, and the dataset."""
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


def _describe(dataset: h5py.Dataset) -> _Description:
    creation = dataset.id.get_create_plist()
    filters = [creation.get_filter(i)[0] for i in range(creation.get_nfilters())]
    is_elsewhere = dataset.is_virtual or creation.get_external_count() > 0
    is_inside = not is_elsewhere and set(filters) <= _FILTERS and filters.count(_GZIP) <= 1
    kind = dataset.id.get_type()
    is_float = kind.get_class() == h5py.h5t.FLOAT
    if is_elsewhere or dataset.shape is None:
        return _Description(is_inside, is_float)
    chunk = creation.get_chunk() if creation.get_layout() == h5py.h5d.CHUNKED else dataset.shape
    return _Description(
        is_inside,
        is_float,
        n_chunks=math.prod(-(-size // step) for size, step in zip(dataset.shape, chunk) if step),
        chunk_bytes=kind.get_size() * math.prod(chunk),
        is_packed=_GZIP in filters,
    )


def _check_chunks(dataset: h5py.Dataset, chunk_bytes: int) -> None:
    """Check that no chunk unpacks to more than its size; HDF5 only checks after unpacking."""
    for i in range(dataset.id.get_num_chunks()):
        chunk = dataset.id.get_chunk_info(i).chunk_offset
        mask, packed = dataset.id.read_direct_chunk(chunk)
        unpacking = zlib.decompressobj()
        n_bytes = 0 if mask else len(unpacking.decompress(packed, chunk_bytes + _CHECKSUM + 1))
        if n_bytes > chunk_bytes + _CHECKSUM:
            raise ValueError(f"a chunk of {shortened(dataset.name)} is longer than declared")


def _readable(source: object) -> AbstractContextManager[None]:
    """Name the file in errors of HDF5, which have many types."""
    return named_errors(f"{source}: not a readable HDF5 file", Exception)
