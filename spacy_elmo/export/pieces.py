"""Inputs that may be elsewhere, and parts of them."""

import hashlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Optional

from ..files.checksum import BLOCK
from ..files.remote import RemoteFile, is_url, reading


@dataclass(frozen=True)
class Piece:
    """An input file, or a part of it that was planned.

    source (str): Path or URL of the file.
    start (int): Where the part begins, in bytes.
    stop (Optional[int]): Where it ends; None where this is the file as it is now.
    sha256 (Optional[str]): Checksum of the part.
    first_line (int): Number of its first line, from 1.
    entries (Optional[int]): How many entries it holds, where that is known before.
    column (Optional[str]): Number of the column of text, where its name stands before the part.
    row_groups (Optional[Tuple[int, int]]): Of a Parquet file, the first row group and the one
        after the last.
    """

    source: str
    start: int = 0
    stop: Optional[int] = None
    sha256: Optional[str] = None
    first_line: int = 1
    entries: Optional[int] = None
    column: Optional[str] = None
    row_groups: Optional[tuple[int, int]] = None

    def __str__(self) -> str:
        return self.source

    @property
    def name(self) -> str:
        """RETURNS (str): The file's name."""
        return (PurePosixPath if is_url(self.source) else Path)(self.source).name

    @property
    def suffix(self) -> str:
        """RETURNS (str): The end of the file's name."""
        return PurePosixPath(self.name).suffix

    def absolute(self) -> "Piece":
        """RETURNS (Piece): The same, whatever folder a process stands in."""
        return self if is_url(self) else replace(self, source=str(Path(self.source).absolute()))

    def size(self) -> int:
        """RETURNS (int): Bytes of the whole file.
        RAISES (ValueError): It cannot be read."""
        if is_url(self.source):
            return RemoteFile(self.source).size()
        with reading(self.source):
            return Path(self.source).stat().st_size

    def open_file(self) -> BinaryIO:
        """RETURNS (BinaryIO): The whole file.
        RAISES (ValueError): It cannot be read."""
        if is_url(self.source):
            return RemoteFile(self.source).open()
        with reading(self.source):
            return Path(self.source).open("rb")

    def open(self, *_: Any, **__: Any) -> BinaryIO:
        """Open what is to be read; of a part a copy on this machine, which goes when it is closed.

        RETURNS (BinaryIO): It.
        RAISES (ValueError): It cannot be read, or is another one than was planned.
        """
        if self.stop is None:
            return self.open_file()
        digest = hashlib.sha256()
        copy = tempfile.TemporaryFile()  # noqa: SIM115  (the caller closes it)
        for block in self.blocks(self.start, self.stop):
            digest.update(block)
            copy.write(block)
        if digest.hexdigest() != self.sha256:
            copy.close()
            raise ValueError(f"{self.source} has changed since the shards were planned")
        copy.seek(0)
        return copy

    def blocks(self, start: int, stop: int) -> Iterator[bytes]:
        """Read a part of the file.

        start (int): Where it begins, in bytes.
        stop (int): Where it ends; fewer are read where the file ends before.
        YIELDS (bytes): Some of it.
        RAISES (ValueError): It cannot be read.
        """
        with self.open_file() as file:
            with reading(self.source):
                file.seek(start)
            while start < stop:
                with reading(self.source):
                    block = file.read(min(stop - start, BLOCK))
                if not block:
                    break
                yield block
                start += len(block)

    def read_bytes(self) -> bytes:
        """RETURNS (bytes): What is to be read.
        RAISES (ValueError): It cannot be read, or nobody knows its size."""
        if self.stop is None:
            self.size()  # A server that does not say it may send bytes until the memory is full.
        with self.open() as file:
            return file.read()
