"""AllenNLP's `sentence_to_index`, of any size, on disk."""

import errno
import hashlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAME = "sentence_to_index"
# What numpy holds in one string, and other programs in a 32-bit length.
MAX_BYTES = (1 << 31) - 1
BLOCK = 1 << 20


class SentenceIndex:
    """Collects sentences, and writes a JSON object from each to its index, as a string.
    Where a sentence occurs several times, it is the last index, as in AllenNLP. Memory
    holds none of them.

    folder (Path): Where to keep them.
    """

    def __init__(self, folder: Path):
        self.path = folder / "sentences.json"
        self._lines_path = folder / "sentences.lines"
        self._table_path = folder / "sentences.sqlite"
        for path in (self.path, self._lines_path, self._table_path):
            path.unlink(missing_ok=True)
        self._lines = self._lines_path.open("wb")
        self._table = sqlite3.connect(self._table_path, isolation_level=None)
        self._table.execute("PRAGMA journal_mode = OFF")
        self._table.execute("PRAGMA synchronous = OFF")
        self._table.execute("CREATE TABLE last (key BLOB PRIMARY KEY, i INTEGER) WITHOUT ROWID")
        self._table.execute("BEGIN")
        self._n = 0

    def add(self, sentence: str) -> None:
        """Add the next sentence."""
        encoded = json.dumps(sentence).encode("ascii")
        row = (_key(encoded), self._n)
        self._execute("INSERT OR REPLACE INTO last VALUES (?, ?)", row)
        self._lines.write(encoded + b"\n")
        self._n += 1

    def finish(self) -> int:
        """Write the object to `path`.

        RETURNS (int): Its bytes.
        RAISES (ValueError): It is too large for the formats that hold it.
        """
        self._lines.close()
        with self.path.open("wb") as file:
            separator = b"{"
            for sentence, i in self._last():
                file.write(b'%s%s: "%d"' % (separator, sentence, i))
                separator = b", "
            file.write(b"}" if separator != b"{" else b"{}")
            size = file.tell()
        self._table.close()
        self._lines_path.unlink()
        self._table_path.unlink()
        if size > MAX_BYTES:
            raise ValueError(
                f"{NAME} would have {size:,} bytes, more than the {MAX_BYTES:,} that readers "
                f"can hold. The same with --resume --forget-sentences leaves it out"
            )
        return size

    def _last(self) -> Iterator[tuple[bytes, int]]:
        """Each sentence once, where it occurs last."""
        with self._lines_path.open("rb") as lines:
            for i, line in enumerate(lines):
                sentence = line[:-1]
                found = self._execute(
                    "SELECT i FROM last WHERE key = ?", (_key(sentence),)
                ).fetchone()
                if found[0] == i:
                    yield sentence, i

    def _execute(self, statement: str, values: tuple) -> sqlite3.Cursor:
        try:
            return self._table.execute(statement, values)
        except sqlite3.OperationalError as error:
            number = errno.ENOSPC if "full" in str(error) else errno.EIO
            raise OSError(number, str(error), str(self._table_path)) from error

    def blocks(self) -> Iterator[bytes]:
        """YIELDS (bytes): The object, piece by piece."""
        with self.path.open("rb") as file:
            while block := file.read(BLOCK):
                yield block

    def __enter__(self) -> "SentenceIndex":
        return self

    def __exit__(self, *_: Any) -> None:
        self._lines.close()
        self._table.close()
        for path in (self.path, self._lines_path, self._table_path):
            path.unlink(missing_ok=True)


def _key(sentence: bytes) -> bytes:
    return hashlib.blake2b(sentence, digest_size=16).digest()
