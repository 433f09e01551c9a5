"""A file for libraries that do not bear a full disk: HDF5's may end the process."""

import io
from pathlib import Path
from typing import Any, Optional


class GuardedFile(io.RawIOBase):
    """A new file whose writing never fails. What there was no room for is kept in
    memory, where it can be read; `check` raises the error, for the writer to stop soon.

    path (Path): The file.
    """

    def __init__(self, path: Path):
        self._file = path.open("wb+", buffering=0)
        self._error: Optional[OSError] = None
        self._kept: list[tuple[int, bytes]] = []
        self._position = 0

    def check(self) -> None:
        """RAISES (OSError): Something could not be written."""
        if self._error is not None:
            raise self._error

    def write(self, data: Any) -> int:
        start, size = self._position, len(data)
        self._position += size
        try:
            if self._error is None:
                self._write(start, memoryview(data))
        except OSError as error:
            self._error = error
        if self._error is not None:
            self._kept.append((start, bytes(data)))
        return size

    def _write(self, start: int, data: memoryview) -> None:
        self._file.seek(start)
        while data:
            data = data[self._file.write(data) :]

    def readinto(self, buffer: Any) -> int:
        start, view = self._position, memoryview(buffer).cast("B")
        self._position += len(view)
        self._file.seek(start)
        found = self._file.read(len(view)) or b""
        view[:] = found + bytes(len(view) - len(found))
        for offset, data in self._kept:
            first, last = max(start, offset), min(start + len(view), offset + len(data))
            if first < last:
                view[first - start : last - start] = data[first - offset : last - offset]
        return len(view)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_END:
            offset += self._file.seek(0, io.SEEK_END)
        self._position = offset + (self._position if whence == io.SEEK_CUR else 0)
        return self._position

    def tell(self) -> int:
        return self._position

    def truncate(self, size: Optional[int] = None) -> int:
        size = self._position if size is None else size
        try:
            if self._error is None:
                self._file.truncate(size)
        except OSError as error:
            self._error = error
        return size

    def close(self) -> None:
        self._file.close()
        super().close()
