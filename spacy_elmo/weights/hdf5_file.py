"""HDF5 files that anybody may have written."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Optional

import h5py
import numpy as np

from .archives import LARGEST_RATIO, SMALL, File, opened

# Filters that HDF5 and h5py bring along; for others HDF5 would load a plugin.
_FILTERS = {1, 2, 3, 4, 32000}  # gzip, shuffle, fletcher32, szip, lzf


class HDF5Arrays:
    """The datasets of an open file.

    file (h5py.File): The file.
    source (str): Its name in messages.
    n_bytes (int): Its size.
    """

    kind = "dataset"

    def __init__(self, file: h5py.File, source: str, n_bytes: int):
        self.source = source
        self._datasets: dict[str, h5py.Dataset] = {}
        file.visititems(self._add)
        claimed = sum(dataset.nbytes for dataset in self._datasets.values())
        if claimed > SMALL + LARGEST_RATIO * n_bytes:
            raise ValueError(f"{source}: claims to hold {claimed:,} bytes in a file of {n_bytes:,}")

    def __contains__(self, name: object) -> bool:
        return name in self._datasets

    def __iter__(self) -> Iterator[str]:
        return iter(self._datasets)

    def shape(self, name: str) -> Optional[tuple[int, ...]]:
        """As `StoredArrays` says."""
        dataset = self._datasets.get(name)
        if dataset is None:
            return None
        what = f"{self.source}: dataset '{name}'"
        if dataset.dtype.kind != "f":
            raise ValueError(f"{what} holds {dataset.dtype}, not floats")
        if dataset.shape is None:
            raise ValueError(f"{what} holds nothing")
        creation = dataset.id.get_create_plist()
        filters = {creation.get_filter(i)[0] for i in range(creation.get_nfilters())}
        if dataset.is_virtual or creation.get_external_count() or not filters <= _FILTERS:
            raise ValueError(f"{what} is in another file, or needs a plugin of HDF5")
        return tuple(dataset.shape)

    def read(self, name: str) -> np.ndarray:
        """As `StoredArrays` says."""
        return np.asarray(self._datasets[name][()], dtype="float32")

    def _add(self, name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            self._datasets[name] = item


@contextmanager
def open_hdf5(file: File) -> Iterator[HDF5Arrays]:
    """Open a file for the time of the context.

    file (Union[Path, zipfile.Path]): The file.
    YIELDS (HDF5Arrays): Its datasets.
    RAISES (ValueError): The file is broken, here or later in the context.
    """
    with opened(file) as stream:
        n_bytes = stream.seek(0, 2)
        try:
            # HDF5 reads a file by itself faster than through Python.
            with h5py.File(file if isinstance(file, Path) else stream, "r") as content:
                yield HDF5Arrays(content, str(file), n_bytes)
        except (OSError, RuntimeError, KeyError, TypeError) as error:
            raise ValueError(f"{file}: not a readable HDF5 file: {error}") from error
