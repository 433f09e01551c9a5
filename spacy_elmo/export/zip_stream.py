"""Zip archives of any number of members. Python's own writer keeps half a kilobyte of
memory for each; this one keeps its table of contents in a file.

Format: PKWARE's APPNOTE.TXT, sections 4.3 and 4.5.3; stored, not compressed."""

import shutil
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

NEW_YEAR_1980 = 1 << 5 | 1  # no time: the same content, the same bytes
LIMIT_16, LIMIT_32 = 0xFFFF, 0xFFFFFFFF


class ZipStream:
    """Writes an archive.

    path (Path): The file.
    """

    def __init__(self, path: Path):
        self._contents_path = path.with_name(path.name + ".contents")
        self._file = path.open("wb")
        self._contents = self._contents_path.open("wb+")
        self._n = 0

    def add(self, name: str, data: bytes) -> None:
        """Add a member."""
        self.add_blocks(name, [data], len(data), zlib.crc32(data))

    def add_blocks(self, name: str, blocks: Iterable[bytes], size: int, crc: int) -> None:
        """Add a member in pieces.

        name (str): Its name, in ASCII.
        blocks (Iterable[bytes]): Its content.
        size (int): Bytes of the content.
        crc (int): CRC-32 of the content.
        RAISES (ValueError): It is too large.
        """
        if size >= LIMIT_32:
            raise ValueError(
                f"'{name}' has {size:,} bytes, and a member of a zip file at most 4 GB"
            )
        encoded, offset = name.encode("ascii"), self._file.tell()
        is_far = offset >= LIMIT_32
        extra = struct.pack("<HHQ", 1, 8, offset) if is_far else b""
        version = 45 if is_far else 20
        known = (0, 0, 0, NEW_YEAR_1980, crc, size, size, len(encoded))
        self._file.write(struct.pack("<4s5H3I2H", b"PK\3\4", version, *known, 0) + encoded)
        self._file.writelines(blocks)
        record = struct.pack("<4s6H3I5H2I", b"PK\1\2", version, version, *known, len(extra), 0, 0,
                             0, 0, min(offset, LIMIT_32))  # fmt: skip
        self._contents.write(record + encoded + extra)
        self._n += 1

    def close(self, comment: bytes = b"") -> None:
        """Finish the archive.

        comment (bytes): Of the archive; at most 64 KB.
        """
        start, size = self._file.tell(), self._contents.tell()
        self._contents.seek(0)
        shutil.copyfileobj(self._contents, self._file, 1 << 20)
        if self._n >= LIMIT_16 or start + size >= LIMIT_32:
            end = self._file.tell()
            counts = (0, 0, self._n, self._n, size, start)
            self._file.write(struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, *counts))
            self._file.write(struct.pack("<4sIQI", b"PK\6\7", 0, end, 1))
        n, size, start = min(self._n, LIMIT_16), min(size, LIMIT_32), min(start, LIMIT_32)
        last = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, n, n, size, start, len(comment))
        self._file.write(last + comment)
        self._file.close()

    def __enter__(self) -> "ZipStream":
        return self

    def __exit__(self, *_: Any) -> None:
        self._file.close()
        self._contents.close()
        self._contents_path.unlink(missing_ok=True)
