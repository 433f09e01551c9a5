"""AllenNLP's `sentence_to_index`, of any size, on disk."""

import errno
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAME = "sentence_to_index"
# What numpy holds in one string, and other programs in a 32-bit length.
MAX_BYTES = (1 << 31) - 1


class SentenceIndex:
    """A JSON object from each sentence to its index, as a string. Where a sentence occurs
    several times, it is the last index, as in AllenNLP. Memory holds none of them.

    folder (Path): Where to keep them.
    """

    def __init__(self, folder: Path):
        self._path = folder / "sentences.sqlite"
        self._path.unlink(missing_ok=True)
        self._table = sqlite3.connect(self._path, isolation_level=None)
        self._table.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN;"
            "CREATE TABLE last (sentence TEXT PRIMARY KEY, i INTEGER) WITHOUT ROWID"
        )

    def add(self, sentence: str, i: int) -> None:
        """Add the next sentence and its index."""
        row = json.dumps(sentence), i
        try:
            self._table.execute("INSERT OR REPLACE INTO last VALUES (?, ?)", row)
        except sqlite3.OperationalError as error:
            number = errno.ENOSPC if "full" in str(error) else errno.EIO
            raise OSError(number, str(error), str(self._path)) from error

    def size(self) -> int:
        """RETURNS (int): Bytes of the object.
        RAISES (ValueError): It is too large for the formats that hold it."""
        size = sum(map(len, self.blocks()))
        if size > MAX_BYTES:
            raise ValueError(
                f"{NAME} would have {size:,} bytes, more than the {MAX_BYTES:,} that readers "
                f"can hold. The same with `resume=True` and `sentence_index=False` leaves it out"
            )
        return size

    def blocks(self) -> Iterator[bytes]:
        """YIELDS (bytes): The object, piece by piece."""
        separator = "{"
        for sentence, i in self._table.execute("SELECT sentence, i FROM last"):
            yield f'{separator}{sentence}: "{i}"'.encode("ascii")
            separator = ", "
        yield b"}" if separator != "{" else b"{}"

    def __enter__(self) -> "SentenceIndex":
        return self

    def __exit__(self, *_: Any) -> None:
        self._table.close()
        self._path.unlink()
