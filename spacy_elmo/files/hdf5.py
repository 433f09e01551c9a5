"""HDF5 files on a disk that may be full, and attributes of HDF5 files from untrusted sources.

The HDF5 library ends the process if a write fails. So the library writes to a `GuardedFile`, whose
writes never fail. The error is raised after the library has returned.
"""

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
    """Context manager: create an HDF5 file that HDF5 libraries since 2008 can read.

    The file has no timestamps, so equal content gives equal bytes.

    path (Path): The file. It must not exist.
    oldest (int): Oldest version of the file format to use, as a constant of `h5py.h5f`.
    YIELDS (Tuple[h5py.File, Callable]): The file, and a function that raises an error if an
        earlier write has failed. Call it after each dataset.
    RAISES (OSError): A write failed.
    """
    with GuardedFile(path, "xb+") as guarded:
        with _create(guarded, oldest) as file:
            yield file, guarded.check
        guarded.check()


def text_attribute(file: h5py.File, name: str, max_bytes: int) -> Optional[str]:
    """Read an attribute of a file as text, after a check of its type and size.

    An array of a few bytes per element can name the same string a million times, and HDF5 makes a
    copy for each element. So an attribute must be one string. A string of variable length has only
    the bytes that are in the file.

    file (h5py.File): The file.
    name (str): Name of the attribute.
    max_bytes (int): Maximum size of the text.
    RETURNS (Optional[str]): The text; None if the attribute does not exist.
    RAISES (ValueError): The attribute is not one string, or it is too long.
    """
    if not h5py.h5a.exists(file.id, name.encode()):
        return None
    attribute = h5py.h5a.open(file.id, name.encode())
    kind = attribute.get_type()
    is_text = kind.get_class() == h5py.h5t.STRING
    if not is_text or attribute.get_space().get_simple_extent_type() != h5py.h5s.SCALAR:
        raise ValueError(f"the attribute '{name}' is not one string")
    if kind.is_variable_str() or kind.get_size() <= max_bytes:
        value = file.attrs[name]
        text = value.decode("utf8") if isinstance(value, bytes) else str(value)
        if len(text) <= max_bytes:
            return text
    raise ValueError(f"more than {max_bytes:,} characters in the attribute '{name}'")


def _create(guarded: "GuardedFile", oldest: int) -> h5py.File:
    # This is a function, so that no traceback keeps `access`. `guarded` keeps the error of a failed
    # write, and `access` keeps `guarded`. HDF5 would free both after Python has ended, and crash.
    properties = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    properties.set_obj_track_times(False)
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_libver_bounds(oldest, h5py.h5f.LIBVER_V18)
    access.set_fclose_degree(h5py.h5f.CLOSE_STRONG)
    access.set_fileobj_driver(h5py.h5fd.fileobj_driver, guarded)
    name = repr(guarded).encode("ascii", "replace")  # HDF5 needs a unique name.
    return h5py.File(h5py.h5f.create(name, h5py.h5f.ACC_TRUNC, properties, access))


class GuardedFile(io.FileIO):
    """File whose writes never fail.

    If the disk is full, data are kept in memory, so HDF5 can read them again. `check` raises the
    error. Call it often, so that the writer stops soon.

    path (Path): The file.
    mode (str): A mode of `open`.
    """

    def __init__(self, path: Path, mode: str):
        super().__init__(path, mode)
        self._error: Optional[OSError] = None
        self._kept: list[tuple[int, bytes]] = []

    def check(self) -> None:
        """Raise the error of an earlier write, if a write failed."""
        if self._error is not None:
            raise self._error

    def write(self, data: Any) -> int:
        """Write data to the file. If this or an earlier write fails, keep the data in memory."""
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
        """Read from the file. Data that could not be written to it are read from memory."""
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
        """Truncate the file. `check` raises the error if this fails."""
        try:
            if self._error is None:
                super().truncate(size)
        except OSError as error:
            self._error = error
        return self.tell() if size is None else size
