"""Chunks: files of any length, cut at line ends into pieces of some megabytes."""

import codecs
import hashlib
import io
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Optional

from ..files.compression import UNPACK_ERRORS, compression_of, is_broken, not_text, unpack
from ..files.errors import FullTemporaryFolder
from ..files.input_files import BLOCK, MAX_LINE


@dataclass(frozen=True)
class Chunk:
    """Piece of a file that consists of whole lines.

    file (int): Index of the file in `ChunkReader.files`.
    first_line (int): Number of the first line in its file, from 1.
    data (bytes): The lines.
    n_read (int): Bytes of the file that were read for this chunk, before unpacking.
    problem (Optional[Tuple[Optional[int], str]]): A problem after these lines: the number of the
        wrong line (None if no single line is wrong), and a description. Default: no problem.
    """

    file: int
    first_line: int
    data: bytes
    n_read: int
    problem: Optional[tuple[Optional[int], str]] = None


@dataclass
class ChunkReader:
    """Reader that iterates over the chunks of files, and computes the checksum of each file.

    files (Sequence[Path]): The files, or objects with a method `open`. Compressed
        files are unpacked.
    chunk_size (int): Maximum bytes of a chunk. A longer line is a larger chunk.
    by_paragraph (Sequence[bool]): For each file: whether a chunk ends at an empty line, if it
        contains one.
    first_line (Optional[int]): If each file is a part of a longer file: the number of the part's
        first line. A part may be blank. Default: the files are whole, and must contain text.
    """

    files: Sequence[Any]
    chunk_size: int
    by_paragraph: Sequence[bool]
    first_line: Optional[int] = None
    checksums: list[str] = field(default_factory=list, init=False)

    def __iter__(self) -> Iterator[Chunk]:
        for number, path in enumerate(self.files):
            try:
                file = path.open("rb", buffering=0)
            except FullTemporaryFolder:
                raise
            except OSError as error:
                yield Chunk(number, 1, b"", 0, (None, f"cannot be read: {error.strerror}"))
                self.checksums.append("")
                continue
            with file:
                raw = _Counted(file)
                yield from self._chunks_of(path, number, raw)
                with suppress(OSError):
                    while raw.read(BLOCK):  # The checksum also covers the bytes after a damage.
                        pass
                self.checksums.append(raw.checksum.hexdigest())

    def _chunks_of(self, path: Any, number: int, raw: "_Counted") -> Iterator[Chunk]:
        # `InputPiece.open` returns the unpacked content of some compressed files.
        compression = getattr(path, "compression", compression_of(path.name))
        try:
            unpacked = unpack(raw, compression) if compression else nullcontext(raw)
        except ValueError as error:
            yield Chunk(number, 1, b"", 0, (None, str(error)))
            return
        with unpacked as stream:
            yield from _Cutter(self, number, raw).chunks(stream)


class _Counted(io.RawIOBase):
    """File that counts and hashes its bytes while they are read.

    file (BinaryIO): The file.
    """

    def __init__(self, file: Any):
        self.file = file
        self.checksum = hashlib.sha256()
        self.n_read = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        n: int = self.file.readinto(buffer)
        self.checksum.update(memoryview(buffer)[:n])
        self.n_read += n
        return n


class _Cutter:
    """Cutter of one file into chunks. The same content and settings always give the same chunks."""

    def __init__(self, reader: ChunkReader, number: int, raw: _Counted):
        self.reader = reader
        self.number = number
        self.max_line = max(MAX_LINE, reader.chunk_size)
        self.raw = raw
        self.line = reader.first_line or 1
        self.n_given = 0

    def chunks(self, stream: Any) -> Iterator[Chunk]:
        buffer = bytearray()
        # `read1` returns the bytes before a damage in a compressed file. `read` would lose them.
        read = getattr(stream, "read1", stream.read)
        is_blank, problem = True, None
        is_start = self.reader.first_line in (None, 1)
        try:
            for block in iter(partial(read, BLOCK), b""):
                if is_start and (problem := not_text(block)):
                    break
                is_start = False
                is_blank = is_blank and not block.strip()
                buffer += block
                yield from self._whole_chunks(buffer)
        except UNPACK_ERRORS as error:
            del buffer[buffer.rfind(b"\n") + 1 :]  # The last line is incomplete.
            line = self.line + buffer.count(b"\n") - 1
            what = "the compressed file is broken" if is_broken(error) else "cannot be read"
            problem = f"{what} after line {line}: {error}"
        if problem is None and is_blank and self.reader.first_line is None:
            problem = "contains no text"
        if len(buffer) > self.max_line and buffer.find(b"\n", 0, self.max_line) < 0:
            yield self._too_long_line()
            buffer.clear()
        yield self._chunk(buffer, len(buffer), None if problem is None else (None, problem))

    def _whole_chunks(self, buffer: bytearray) -> Iterator[Chunk]:
        while len(buffer) >= self.reader.chunk_size:
            end = self._end(buffer)
            if end == 0:
                # If the line is too long, the rest of it is not needed.
                del buffer[self.max_line + 1 :]
                return
            if buffer.find(b"\n", 0, self.max_line) < 0:
                yield self._too_long_line()
                del buffer[:end]
            else:
                yield self._chunk(buffer, end)

    def _end(self, buffer: bytearray) -> int:
        """Return the size of the first chunk in a buffer; 0 if the buffer has no whole line.

        The chunk ends with the last line that fits into it. With `by_paragraph`, it ends with the
        last paragraph that fits, if there is one. A first line that does not fit is a chunk.
        """
        for mark in (b"\n\n", b"\n\r\n") if self.reader.by_paragraph[self.number] else ():
            end = buffer.rfind(mark, 0, self.reader.chunk_size) + len(mark)
            if end >= len(mark):
                return end
        end = buffer.rfind(b"\n", 0, self.reader.chunk_size) + 1
        return end or buffer.find(b"\n", self.reader.chunk_size) + 1

    def _chunk(
        self, buffer: bytearray, end: int, problem: Optional[tuple[Optional[int], str]] = None
    ) -> Chunk:
        data = bytes(buffer[:end])
        del buffer[:end]
        first_line, n_given = self.line, self.n_given
        self.line += data.count(b"\n")
        self.n_given = self.raw.n_read
        if first_line == 1:
            data = data.removeprefix(codecs.BOM_UTF8)
        return Chunk(self.number, first_line, data, self.n_given - n_given, problem)

    def _too_long_line(self) -> Chunk:
        problem = (self.line, f"a line of more than {self.max_line:,} bytes")
        self.line += 1
        return Chunk(self.number, self.line, b"", 0, problem)
