"""HDF5 files that anybody may have written."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Optional, Union

import h5py
import numpy as np

from .archives import LARGEST_RATIO, SMALL, File, opened

# Filters that HDF5 and h5py bring along; for others HDF5 would load a plugin.
_FILTERS = {1, 2, 3, 4, 32000}  # gzip, shuffle, fletcher32, szip, lzf


class _Description(NamedTuple):
    shape: Optional[tuple[int, ...]]
    dtype: np.dtype
    n_bytes: int
    is_inside: bool


class HDF5Arrays:
    """The datasets of an open file.

    file (h5py.File): The file.
    source (str): Its name in messages.
    n_bytes (int): Its size.
    """

    kind = "dataset"

    def __init__(self, file: h5py.File, source: str, n_bytes: int):
        self.source = source
        self._file = file
        self._datasets: dict[str, h5py.Dataset] = {}
        with _named_errors(source):
            file.visititems(self._add)
            described = {name: _describe(item) for name, item in self._datasets.items()}
        self._described = described
        claimed = sum(dataset.n_bytes for dataset in described.values())
        if claimed > SMALL + LARGEST_RATIO * n_bytes:
            raise ValueError(f"{source}: claims to hold {claimed:,} bytes in a file of {n_bytes:,}")

    def __contains__(self, name: object) -> bool:
        return name in self._described

    def __iter__(self) -> Iterator[str]:
        return iter(self._described)

    def shape(self, name: str) -> Optional[tuple[int, ...]]:
        """As `StoredArrays` says."""
        described = self._described.get(name)
        if described is None:
            return None
        what = f"{self.source}: dataset '{name}'"
        if described.dtype.kind != "f":
            raise ValueError(f"{what} holds {described.dtype}, not floats")
        if described.shape is None:
            raise ValueError(f"{what} holds nothing")
        if not described.is_inside:
            raise ValueError(f"{what} is in another file, or needs a plugin of HDF5")
        return described.shape

    def read(self, name: str) -> np.ndarray:
        """As `StoredArrays` says."""
        with _named_errors(self.source), np.errstate(over="ignore"):
            return np.asarray(self._datasets[name][()], dtype="float32")

    def dtypes(self) -> set[str]:
        """RETURNS (Set[str]): The types of all datasets."""
        return {str(described.dtype) for described in self._described.values()}

    def attribute(self, name: str) -> Optional[str]:
        """RETURNS (Optional[str]): An attribute of the file, as text; None if there is none."""
        with _named_errors(self.source):
            value = self._file.attrs.get(name)
        return None if value is None else str(value)

    def _add(self, name: Union[str, bytes], item: object) -> None:
        if isinstance(name, bytes):  # not UTF-8
            name = name.decode("utf8", "backslashreplace")
        if isinstance(item, h5py.Dataset):
            self._datasets[name] = item


@contextmanager
def open_hdf5(file: File) -> Iterator[HDF5Arrays]:
    """Open a file for the time of the context.

    file (Union[Path, zipfile.Path]): The file.
    YIELDS (HDF5Arrays): Its datasets.
    RAISES (ValueError): The file is broken.
    """
    with opened(file) as stream:
        n_bytes = stream.seek(0, 2)
        with _named_errors(str(file)):
            # HDF5 reads a file by itself faster than through Python.
            content = h5py.File(file if isinstance(file, Path) else stream, "r")
        with content:
            yield HDF5Arrays(content, str(file), n_bytes)


def _describe(dataset: h5py.Dataset) -> _Description:
    creation = dataset.id.get_create_plist()
    filters = {creation.get_filter(i)[0] for i in range(creation.get_nfilters())}
    is_elsewhere = dataset.is_virtual or creation.get_external_count() > 0
    return _Description(
        None if dataset.shape is None else tuple(dataset.shape),
        dataset.dtype,
        dataset.nbytes,
        not is_elsewhere and filters <= _FILTERS,
    )


@contextmanager
def _named_errors(source: str) -> Iterator[None]:
    """HDF5's errors, of which there are many kinds, with the name of the file."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"{source}: not a readable HDF5 file: {error}") from error
