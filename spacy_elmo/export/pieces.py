"""Input files, on this machine or at URLs, and the planned parts of them."""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Optional

from ..files.compression import compression_of, kind_of, unpack
from ..files.errors import temporary_files
from ..files.input_files import BLOCK
from ..files.remote import RemoteFile, is_url, reading


@dataclass(frozen=True)
class InputPiece:
    """Input file, or a planned part of it.

    source (str): Path or URL of the file.
    input (int): Index of the file in the list of input files.
    start (int): Index of the part's first byte in the file.
    stop (Optional[int]): Index after its last byte; None for the whole file.
    sha256 (Optional[str]): Checksum of the part.
    first_line (int): Number of the first line, from 1.
    entries (Optional[int]): Number of entries, if the plan knows it.
    column (Optional[str]): Number of the text column, if the line with the column names is in an
        earlier part.
    row_groups (Optional[Tuple[int, int]]): For a part of a Parquet file: index of its first row
        group, and index after its last row group.
    unpacked (Optional[bool]): Whether `start` and `stop` are positions in the unpacked content of
        a compressed file.
    input_format (Optional[str]): Format of the file, if its suffix names none.
    given (Optional[str]): The path or URL at the first run, if the file has moved since.
    """

    source: str
    input: int = 0
    start: int = 0
    stop: Optional[int] = None
    sha256: Optional[str] = None
    first_line: int = 1
    entries: Optional[int] = None
    column: Optional[str] = None
    row_groups: Optional[tuple[int, int]] = None
    unpacked: Optional[bool] = None
    input_format: Optional[str] = None
    given: Optional[str] = None

    def __str__(self) -> str:
        return self.source

    @property
    def label(self) -> str:
        """Path or URL for the output, as at the first run, in valid Unicode."""
        return os.fsencode(self.given or self.source).decode("utf8", "replace")

    @property
    def kind(self) -> str:
        """Format of the file, as a suffix in lower case, such as ".txt"."""
        return kind_of(self.name, self.input_format)

    @property
    def name(self) -> str:
        """Name of the file."""
        return (PurePosixPath if is_url(self.source) else Path)(self.source).name

    @property
    def compression(self) -> str:
        """Suffix of a compressed file; "" if `open` returns content that is not compressed."""
        return "" if self.unpacked else compression_of(self.name)

    def absolute(self) -> "InputPiece":
        """Return the piece with an absolute path, for processes in other working directories."""
        if is_url(self):
            return self
        return replace(self, source=str(Path(self.source).absolute()), given=self.source)

    def size(self) -> int:
        """Return the size of the whole file in bytes.

        RAISES (ValueError): The file cannot be read.
        """
        if is_url(self.source):
            return RemoteFile(self.source).size()
        with reading(self.source):
            return Path(self.source).stat().st_size

    def open_file(self) -> BinaryIO:
        """Open the whole file.

        RAISES (ValueError): The file cannot be read.
        """
        if is_url(self.source):
            return RemoteFile(self.source).open()
        with reading(self.source):
            return Path(self.source).open("rb")

    def open(self, *_: Any, **__: Any) -> BinaryIO:
        """Open the piece. A part of a file is first copied to a temporary file.

        RETURNS (BinaryIO): The open piece. Closing deletes the temporary file.
        RAISES (ValueError): The file cannot be read, or has changed since it was planned.
        """
        if self.stop is None:
            return self.open_file()
        digest = hashlib.sha256()
        with temporary_files():
            copy = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  (the caller closes it)
        for block in self.blocks(self.start, self.stop):
            digest.update(block)
            with temporary_files():
                _write_all(copy, block)
        if digest.hexdigest() != self.sha256:
            copy.close()
            raise self._has_changed()
        copy.seek(0)
        return copy

    def check_unchanged(self) -> None:
        """Compare a planned part of a file with its checksum.

        RAISES (ValueError): The part has changed since it was planned, or cannot be read.
        """
        if self.stop is not None and self.digest(self.start, self.stop) != self.sha256:
            raise self._has_changed()

    def _has_changed(self) -> ValueError:
        return ValueError(
            f"{self.source} has changed since the shards were planned. Restore the file, or begin "
            f"again with `force=True`."
        )

    def blocks(self, start: int, stop: int) -> Iterator[bytes]:
        """Read a range of the file's bytes in blocks.

        start (int): Index of the first byte.
        stop (int): Index after the last byte. If the file is shorter, read to its end.
        YIELDS (bytes): A block.
        RAISES (ValueError): The file cannot be read.
        """
        with ExitStack() as stack:
            file: Any = stack.enter_context(self.open_file())
            with reading(self.source):
                if self.unpacked:
                    file = stack.enter_context(unpack(file, compression_of(self.name)))
                    skipped = 0
                    while block := file.read(min(start - skipped, BLOCK)):
                        skipped += len(block)
                else:
                    file.seek(start)
            while start < stop:
                with reading(self.source):
                    block = file.read(min(stop - start, BLOCK))
                if not block:
                    break
                yield block
                start += len(block)

    def digest(self, start: int, stop: int) -> str:
        """Compute the SHA-256 of the file's bytes from `start` to `stop`, without `stop`."""
        digest = hashlib.sha256()
        for block in self.blocks(start, stop):
            digest.update(block)
        return digest.hexdigest()

    def read_bytes(self) -> bytes:
        """Read the piece into memory.

        RAISES (ValueError): The file cannot be read, or the server does not send its size.
        """
        if self.stop is None:
            self.size()  # Without a known size, a server could send bytes until the memory is full.
        with self.open() as file:
            return file.read()


def _write_all(file: Any, block: bytes) -> None:
    """Write to a file without a buffer, so that a full disk is not noticed only at its end."""
    left = memoryview(block)
    while left:
        left = left[file.write(left) :]
