"""HDF5 files on a disk that may be full, which HDF5 does not bear: it ends the process."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Optional

import h5py


@contextmanager
def guarded_hdf5(
    path: Path, oldest: int = h5py.h5f.LIBVER_EARLIEST
) -> Iterator[tuple[h5py.File, Callable[[], None]]]:
    """Make a file that libraries from 2008 on can read. It has no times, so that equal content
    gives equal bytes.

    path (Path): The file.
    oldest (int): The oldest version of the format to make use of.
    YIELDS (Tuple[h5py.File, Callable]): The file, and what to call after each dataset:
        it raises what the writing could not.
    RAISES (OSError): Something could not be written.
    """
    with GuardedFile(path, "wb+") as guarded:
        with _create(guarded, oldest) as file:
            yield file, guarded.check
        guarded.check()


def _create(guarded: "GuardedFile", oldest: int) -> h5py.File:
    properties = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    properties.set_obj_track_times(False)
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_libver_bounds(oldest, h5py.h5f.LIBVER_V18)
    access.set_fclose_degree(h5py.h5f.CLOSE_STRONG)
    access.set_fileobj_driver(h5py.h5fd.fileobj_driver, guarded)
    name = repr(guarded).encode("ascii", "replace")  # it only needs to be another's than others'
    return h5py.File(h5py.h5f.create(name, h5py.h5f.ACC_TRUNC, properties, access))


class GuardedFile(io.FileIO):
    """A file whose writing never fails. What there was no room for is kept in memory,
    where it can be read; `check` raises the error, for the writer to stop soon.

    path (Path): The file.
    mode (str): As `open` takes it.
    """

    def __init__(self, path: Path, mode: str):
        super().__init__(path, mode)
        self._error: Optional[OSError] = None
        self._kept: list[tuple[int, bytes]] = []

    def check(self) -> None:
        """Raise the error of an earlier write, if there was one."""
        if self._error is not None:
            raise self._error

    def write(self, data: Any) -> int:
        start, left = self.tell(), memoryview(data)
        try:
            while left and self._error is None:
                left = left[super().write(left) :]
        except OSError as error:
            self._error = error
        if self._error is not None:
            self._kept.append((start, bytes(data)))
            self.seek(start + len(data))
        return len(data)

    def readinto(self, buffer: Any) -> int:
        start, view = self.tell(), memoryview(buffer).cast("B")
        found = super().readinto(view)
        view[found:] = bytes(len(view) - found)
        for offset, data in self._kept:
            first, last = max(start, offset), min(start + len(view), offset + len(data))
            if first < last:
                view[first - start : last - start] = data[first - offset : last - offset]
        self.seek(start + len(view))
        return len(view)

    def truncate(self, size: Optional[int] = None) -> int:
        try:
            if self._error is None:
                super().truncate(size)
        except OSError as error:
            self._error = error
        return self.tell() if size is None else size
