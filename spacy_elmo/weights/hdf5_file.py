"""Safe reader of HDF5 files from untrusted sources."""

import math
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple, Optional

import h5py
import numpy as np

from ..files.errors import named_errors, shortened
from ..files.hdf5 import text_attribute
from .archives import Readable, opened
from .layout import StoredArrays
from .limits import LARGEST_JSON, MAX_CHUNKS, MAX_ENTRIES, MAX_LEVELS, largest_unpacked

_GZIP = h5py.h5z.FILTER_DEFLATE
_FLETCHER = h5py.h5z.FILTER_FLETCHER32
# With these filters, the unpacked size of each chunk can be checked. Other filters are refused. For
# some of them, HDF5 would load a plugin.
_FILTERS = {_GZIP, h5py.h5z.FILTER_SHUFFLE, _FLETCHER}
_CHECKSUM = 4  # Bytes that FLETCHER32 adds to a chunk.


class _Dataset(NamedTuple):
    """Dataset, and what HDF5 says about it. It is asked only once, because each answer takes long.

    shape (Optional[Tuple[int, ...]]): None if the dataset is empty, or its values are in another
        file.
    has_floats (bool): Whether the values are floats.
    is_elsewhere (bool): Whether the values are in another file, which this reader never opens.
    is_chunked (bool): Whether the values are in chunks, as they are with filters.
    n_chunks (int): Number of chunks; 0 if the values are in another file.
    chunk_bytes (int): Unpacked size of a chunk in bytes.
    """

    id: h5py.h5d.DatasetID
    shape: Optional[tuple[int, ...]]
    has_floats: bool
    is_elsewhere: bool
    is_chunked: bool
    n_chunks: int
    chunk_bytes: int

    @classmethod
    def of(cls, dataset: h5py.h5d.DatasetID) -> "_Dataset":
        """Describe a dataset."""
        creation, kind = dataset.get_create_plist(), dataset.get_type()
        has_floats, layout = kind.get_class() == h5py.h5t.FLOAT, creation.get_layout()
        if layout == h5py.h5d.VIRTUAL or creation.get_external_count():
            # Do not ask for the shape: HDF5 would open the other files of a virtual dataset.
            return cls(dataset, None, has_floats, True, False, 0, 0)
        is_chunked = layout == h5py.h5d.CHUNKED
        space, n_chunks, chunk_bytes = dataset.get_space(), 0, 0
        has_shape = space.get_simple_extent_type() != h5py.h5s.NULL
        shape = space.get_simple_extent_dims() if has_shape else None
        if shape is not None:
            chunk = creation.get_chunk() if is_chunked else shape
            n_chunks = math.prod(-(-size // step) for size, step in zip(shape, chunk) if step)
            chunk_bytes = kind.get_size() * math.prod(chunk)
        return cls(dataset, shape, has_floats, False, is_chunked, n_chunks, chunk_bytes)

    def filters(self) -> list[int]:
        """Return the numbers of the filters, such as compression, in the order of writing."""
        creation = self.id.get_create_plist()
        return [creation.get_filter(i)[0] for i in range(creation.get_nfilters())]


class HDF5Arrays(StoredArrays):
    """Datasets of an open HDF5 file.

    Soft and external links are ignored.
    """

    kind = "dataset"

    def __init__(self, file: h5py.File, source: str, n_bytes: int):
        self._file = file
        with _readable(source):
            super().__init__(dict(sorted(_datasets(file), key=lambda named: named[0])), source)
        claimed = sum(dataset.n_chunks * dataset.chunk_bytes for dataset in self.values())
        if claimed > largest_unpacked(n_bytes):
            raise ValueError(
                f"{source}: claims to contain {claimed:,} bytes, but the file has {n_bytes:,}"
            )
        n_chunks = sum(dataset.n_chunks for dataset in self.values())
        if n_chunks > MAX_CHUNKS:
            raise ValueError(f"{source}: {n_chunks:,} chunks, but at most {MAX_CHUNKS:,} allowed")

    def _checked_shape(self, name: str) -> tuple[int, ...]:
        dataset: _Dataset = self[name]
        what = f"{self.source}: dataset {shortened(name)}"
        with _readable(what):  # h5py raises an AssertionError for filters with many settings.
            filters = dataset.filters()
        if dataset.is_elsewhere or not _FILTERS.issuperset(filters) or not _is_gzip_last(filters):
            raise ValueError(f"{what} is in another file, or its compression is not gzip")
        if not dataset.has_floats:
            with _readable(what):  # Some types have no NumPy type.
                found = shortened(str(dataset.id.dtype))
            raise ValueError(f"{what} contains {found}, not floats")
        if dataset.shape is None:
            raise ValueError(f"{what} is empty")
        return dataset.shape

    def read(self, name: str) -> np.ndarray:
        """Return a dataset, converted to float32."""
        dataset: _Dataset = self[name]
        assert dataset.shape is not None  # `shape` was called first, and has checked it.
        # A float64 that is too large becomes infinite, which `read_parameters` reports by name.
        with _readable(self.source), np.errstate(over="ignore"):
            if dataset.is_chunked:
                _check_chunks(name, dataset)
            # HDF5 leaves out values that were never written, if the file has no value for them.
            values: np.ndarray = np.zeros(dataset.shape, dataset.id.dtype)
            dataset.id.read(h5py.h5s.ALL, h5py.h5s.ALL, values)
            return values.astype("float32", copy=False)

    def dtypes(self) -> set[str]:
        """Return the types of all datasets of floats, such as "float32"."""
        with _readable(self.source):
            return {str(dataset.id.dtype) for dataset in self.values() if dataset.has_floats}

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


def _datasets(file: h5py.File) -> Iterator[tuple[str, _Dataset]]:
    """Yield the name and the description of each dataset in all groups."""
    n_entries = 0
    known: dict[int, _Dataset] = {}  # Thousands of links can lead to one dataset.
    waiting: list[tuple[tuple[bytes, ...], h5py.h5g.GroupID]] = [((), file["/"].id)]
    while waiting:
        path, group = waiting.pop()
        n_entries += len(group)
        if n_entries > MAX_ENTRIES or len(path) >= MAX_LEVELS:
            raise ValueError(f"more than {MAX_ENTRIES:,} entries, or {MAX_LEVELS} levels of groups")
        for name in group:
            link, inner = group.links.get_info(name), (*path, name)
            if link.type != h5py.h5l.TYPE_HARD:
                continue
            if link.u not in known:
                item = h5py.h5o.open(group, name)
                if isinstance(item, h5py.h5g.GroupID):
                    waiting.append((inner, item))
                if not isinstance(item, h5py.h5d.DatasetID):
                    continue
                known[link.u] = _Dataset.of(item)
            yield b"/".join(inner).decode("utf8", "backslashreplace"), known[link.u]


def _is_gzip_last(filters: list[int]) -> bool:
    """Return whether gzip, if used, is used once and last, except for checksums.

    Then `_check_chunks` can unpack what is in the file. All programs write in this order.
    """
    others = [filter for filter in filters if filter != _FLETCHER]
    return _GZIP not in others[:-1]


def _check_chunks(name: str, dataset: _Dataset) -> None:
    """Raise an error if a chunk does not unpack to its declared size.

    HDF5 checks too late that it is not longer, and takes other memory for what a shorter one lacks.
    """
    filters, chunks = dataset.filters(), list[h5py.h5d.StoreInfo]()
    dataset.id.chunk_iter(chunks.append)
    for chunk in chunks:
        # A bit of the mask says that a filter was not used for this chunk.
        used = [filter for i, filter in enumerate(filters) if not chunk.filter_mask >> i & 1]
        is_packed, n_bytes = _GZIP in used, chunk.size
        if is_packed:
            used = used[: used.index(_GZIP)]
        expected = dataset.chunk_bytes + _CHECKSUM * used.count(_FLETCHER)
        if is_packed:
            _, packed = dataset.id.read_direct_chunk(chunk.chunk_offset)
            n_bytes = len(zlib.decompressobj().decompress(packed, expected + 1))
        if n_bytes != expected:
            raise ValueError(f"a chunk of {shortened(name)} does not have its declared size")


def _readable(source: object) -> AbstractContextManager[None]:
    """Return a context manager that turns errors of HDF5, of any type, into a ValueError."""
    return named_errors(f"{source}: not a readable HDF5 file", Exception)
