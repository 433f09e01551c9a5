"""Files that stay open, so that their content can be read after they are deleted or replaced."""

import io
import os
import weakref
from pathlib import Path
from typing import Any, BinaryIO, cast

_AT_A_TIME = 2**30  # Bytes per read. The system reads at most 2 GB at once.


class OpenedFile:
    """File that stays readable after it is deleted, renamed or replaced, because it is open.

    Threads and forked processes can read it at the same time.

    path (Path): The file.
    RAISES (OSError): The file cannot be opened.
    """

    def __init__(self, path: Path):
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._descriptor)
        self._seen = self._traces()

    def __str__(self) -> str:
        return str(self.path)

    def is_at_its_path(self) -> bool:
        """Return whether the path still leads to this file."""
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self._descriptor))
        except OSError:
            return False

    def open(self) -> BinaryIO:
        """Return a new reader at the beginning of the file.

        RAISES (ValueError): Another process has written to the file.
        """
        self.check()
        return cast(BinaryIO, io.BufferedReader(_Reader(self._descriptor, self._seen[0])))

    def check(self) -> None:
        """Check that the file has not changed since it was opened.

        RAISES (ValueError): Another process has written to the file.
        """
        if self._traces() != self._seen:
            raise ValueError(
                f"{self.path}: something has written to this file since the model was loaded, so "
                f"its weights are lost. Load the model again; to replace a file, write a new one "
                f"and rename it."
            )

    def _traces(self) -> tuple[int, int]:
        status = os.fstat(self._descriptor)
        return status.st_size, status.st_mtime_ns


class _Reader(io.RawIOBase):
    """Reader with its own position, because a descriptor has one position for all its users."""

    def __init__(self, descriptor: int, size: int):
        self._descriptor, self._size, self._place = descriptor, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = os.preadv(self._descriptor, [memoryview(buffer)[:_AT_A_TIME]], self._place)
        self._place += found
        return found

    def readall(self) -> bytes:
        content = bytearray(max(0, self._size - self._place))
        found = 0
        while n_bytes := self.readinto(memoryview(content)[found:]):
            found += n_bytes
        return bytes(content[:found])

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._place = offset + {os.SEEK_CUR: self._place, os.SEEK_END: self._size}.get(whence, 0)
        return self._place
