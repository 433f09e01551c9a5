"""Cache of layers in an SQLite file, which later runs and other processes can read.

The file can be damaged by a crash, or belong to another program. So each entry has a checksum: a
damaged entry counts as missing and its layers are computed again. If the file cannot be written,
training continues without storing more. Only a file that cannot be opened is an error.
"""

import os
import sqlite3
import threading
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional, Union

import numpy as np
from thinc.types import Floats3d

from ..files import PathSetting, user_path
from ..registry import registry
from .features import MB, check_cache_settings, logger, warn_full

LARGEST_BLOB = 900 * MB  # Larger layers are not stored. SQLite's limit is about 1 GB.
WAIT = 30.0  # Seconds to wait while another process writes.
CHECKSUM = 4  # Bytes of the checksum, which follows the layers.


class DiskFeatures:
    """Cache of layers in an SQLite file, which later runs and other processes can read.

    Each entry has a checksum, and damaged layers are computed again.

    path (Union[str, int, Path]): The file. The first use creates the file and its folder.
    size (float): Maximum size in MB. When the file is full, no more entries are added: the layers
        of other sequences are computed in every epoch.
    dtype (str): "float32", or "float16" for half the space.
    RAISES (ValueError): A setting is invalid. The first use of the cache raises a ValueError if the
        file is not such a cache.
    """

    def __init__(self, path: PathSetting, size: float = 10240.0, dtype: str = "float32"):
        self.path = user_path(path)
        self._given_path = str(path)
        self.size, self.dtype = size, check_cache_settings(size, dtype)
        self._lock = threading.Lock()
        self._connection: Optional[sqlite3.Connection] = None
        self._process = 0
        self._n_bytes = 0
        self._is_closed_to_more = False
        self._is_damaged = False

    def use_model(self, model: str) -> None:
        """Do nothing, because the file can contain the layers of several models."""

    def get(self, keys: Sequence[bytes], shapes: Sequence[tuple]) -> list[Optional[Floats3d]]:
        """Return the layers of each key; None if the entry is missing or damaged."""
        with self._lock:
            connection = self._open()
            return [self._read(connection, key, shape) for key, shape in zip(keys, shapes)]

    def add(self, keys: Sequence[bytes], layers: Sequence[Floats3d]) -> None:
        """Store layers under their keys, until the cache is full."""
        rows = []
        for key, values in zip(keys, layers):
            name, data = self._name(key), np.array(values, dtype=self.dtype).tobytes()
            rows.append((name, data + _checksum(name, data)))
        with self._lock:
            if not self._is_closed_to_more:
                self._write(self._open(), [row for row in rows if len(row[1]) <= LARGEST_BLOB])

    def config(self) -> dict[str, Any]:
        """Return the config block that makes this cache."""
        settings = {"path": self._given_path, "size": self.size, "dtype": self.dtype}
        return {"@feature_caches": "spacy-elmo.disk.v1", **settings}

    def close(self) -> None:
        """Close the file, until the next use opens it again."""
        # SQLite forbids to use or close a connection of the parent process after a fork.
        if self._connection is not None and self._process == os.getpid():
            self._connection.close()
        self._connection = None

    def _name(self, key: bytes) -> bytes:
        return self.dtype.encode() + key

    def _open(self) -> sqlite3.Connection:
        """Return the connection to the file, which each forked process opens itself."""
        if self._connection is None or self._process != os.getpid():
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._connection, self._n_bytes = _connect(self.path)
            except (OSError, sqlite3.Error) as error:
                raise ValueError(
                    f"{self.path}: cannot be opened as a cache of features ({error}). If the file "
                    f"is damaged or belongs to another program, delete it or give another path."
                ) from error
            self._process = os.getpid()
        return self._connection

    def _read(self, connection: sqlite3.Connection, key: bytes, shape: tuple) -> Optional[Floats3d]:
        """Return the layers of one key; None if the entry is missing or damaged."""
        name = self._name(key)
        try:
            row = connection.execute("SELECT data FROM features WHERE key = ?", (name,)).fetchone()
            return None if row is None else _unpack(name, row[0], self.dtype, shape)
        except (sqlite3.Error, ValueError) as error:
            if not self._is_damaged:
                self._is_damaged = True
                logger.warning(
                    "%s is damaged (%s). Layers that cannot be read are computed again. Delete the "
                    "file: the next run creates a new one.",
                    *(self.path, error),
                )
            return None

    def _write(self, connection: sqlite3.Connection, rows: list[tuple[bytes, bytes]]) -> None:
        """Write entries. If the cache or the disk is full, write nothing from then on."""
        added = sum(len(data) for _, data in rows)
        if self._n_bytes + added > self.size * MB:
            self._is_closed_to_more = True
            warn_full(f"{self.size:g} MB in {self.path}")
            return
        try:
            with connection:
                # REPLACE, because the entry may be damaged, or another process may have added it.
                connection.executemany("INSERT OR REPLACE INTO features VALUES (?, ?)", rows)
            self._n_bytes += added
        except sqlite3.Error as error:
            self._is_closed_to_more = True
            logger.warning("no more layers are stored in %s: %s", self.path, error)

    def __reduce__(self) -> tuple:
        return type(self), (str(self.path), self.size, self.dtype)


make_disk = registry.feature_caches("spacy-elmo.disk.v1")(DiskFeatures)


def _checksum(name: bytes, data: Union[bytes, memoryview]) -> bytes:
    # The key is included: an entry that is under a wrong key counts as damaged.
    return zlib.crc32(data, zlib.crc32(name)).to_bytes(CHECKSUM, "little")


def _unpack(name: bytes, data: Any, dtype: str, shape: tuple) -> Floats3d:
    # An entry with a wrong length is damaged. It is not from another model, because the layers of
    # other models have other keys.
    n_values = int(np.prod(shape))
    size = n_values * np.dtype(dtype).itemsize
    is_whole = isinstance(data, bytes) and len(data) == size + CHECKSUM
    if not is_whole or _checksum(name, memoryview(data)[:size]) != data[size:]:
        raise ValueError("a checksum is wrong")
    packed = np.frombuffer(data, dtype, count=n_values)
    layers: Floats3d = packed.reshape(shape).astype("float32")
    return layers


def _connect(path: Path) -> tuple[sqlite3.Connection, int]:
    """Open the file. Return the connection, and the size of all entries in bytes."""
    # Other threads may use the connection, because a lock protects each use.
    connection = sqlite3.connect(path, timeout=WAIT, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")  # A killed run does not damage the file.
        # A power cut may lose the last entries, which are then computed again. In return, an update
        # does not wait for the disk.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS features (key BLOB PRIMARY KEY, data BLOB NOT NULL)"
        )
        total = connection.execute("SELECT total(length(data)) FROM features").fetchone()[0]
    except sqlite3.Error:
        connection.close()
        raise
    return connection, int(total)
