"""Frozen features in a file, for later runs and for other processes."""

import os
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional, Union

import numpy as np
from thinc.types import Floats3d

from ..registry import registry
from .features import MB, FeatureCache, check_settings, config_block, logger, pack, warn_full

LARGEST_BLOB = 900 * MB  # below SQLite's own limit
WAIT = 30.0  # seconds, for another process that writes


class DiskFeatures:
    """Keeps layers in a file (SQLite), for later runs and other processes, too.

    path (Union[str, Path]): The file; it and its folder are made when first needed.
    size (float): Most MB to keep, as `MemoryFeatures`.
    dtype (str): "float32", or "float16" for half the space.
    RAISES (ValueError): A setting is impossible; later on, the file is no such file.
    """

    def __init__(self, path: Union[str, Path], size: float, dtype: str):
        self.path = Path(path)
        self.size, self.dtype = size, check_settings(size, dtype)
        self._lock = threading.Lock()
        self._connection: Optional[sqlite3.Connection] = None
        self._process = 0
        self._n_bytes = 0
        self._is_closed_to_more = False

    def use_model(self, model: str) -> None:
        """Layers of several models are kept side by side."""

    def get(self, keys: Sequence[bytes], shapes: Sequence[tuple]) -> list[Optional[Floats3d]]:
        with self._lock:
            connection = self._open()
            found = [self._read(connection, key) for key in keys]
        return [_unpack(data, self.dtype, shape) for data, shape in zip(found, shapes)]

    def add(self, keys: Sequence[bytes], layers: Sequence[Floats3d]) -> None:
        rows = [
            (self._name(key), pack(values, self.dtype).tobytes())
            for key, values in zip(keys, layers)
        ]
        with self._lock:
            if not self._is_closed_to_more:
                self._write(self._open(), [row for row in rows if len(row[1]) <= LARGEST_BLOB])

    def config(self) -> dict[str, Any]:
        """RETURNS (dict): The config block that makes this cache."""
        settings = {"path": str(self.path), "size": self.size, "dtype": self.dtype}
        return config_block("spacy-elmo.disk.v1", **settings)

    def close(self) -> None:
        """Close the file; it is opened again when needed."""
        if self._connection is not None and self._process == os.getpid():
            self._connection.close()
        self._connection = None

    def _name(self, key: bytes) -> bytes:
        return self.dtype.encode() + key

    def _open(self) -> sqlite3.Connection:
        """A connection must not be used in a forked process."""
        if self._connection is None or self._process != os.getpid():
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._connection = _connect(self.path)
            except (OSError, sqlite3.Error) as error:
                raise ValueError(
                    f"the features cannot be kept in {self.path} ({error}): if it is another "
                    f"program's file or damaged, delete it or give another path"
                ) from error
            self._process = os.getpid()
            total = self._connection.execute("SELECT total(length(data)) FROM features")
            self._n_bytes = int(total.fetchone()[0])
        return self._connection

    def _read(self, connection: sqlite3.Connection, key: bytes) -> Optional[bytes]:
        try:
            row = connection.execute(
                "SELECT data FROM features WHERE key = ?", (self._name(key),)
            ).fetchone()
        except sqlite3.Error as error:
            raise ValueError(
                f"the features in {self.path} cannot be read ({error}): delete the file"
            ) from error
        return row[0] if row else None

    def _write(self, connection: sqlite3.Connection, rows: list[tuple[bytes, bytes]]) -> None:
        """All rows or none; a full disk ends the keeping, not the training."""
        added = sum(len(data) for _, data in rows)
        if self._n_bytes + added > self.size * MB:
            self._is_closed_to_more = True
            warn_full(f"{self.size:g} MB in {self.path}")
            return
        try:
            with connection:
                connection.executemany("INSERT OR REPLACE INTO features VALUES (?, ?)", rows)
            self._n_bytes += added
        except sqlite3.Error as error:
            self._is_closed_to_more = True
            logger.warning("no more features are kept in %s: %s", self.path, error)

    def __reduce__(self) -> tuple:
        return type(self), (str(self.path), self.size, self.dtype)


@registry.feature_caches("spacy-elmo.disk.v1")
def make_disk(path: str, size: float = 10240.0, dtype: str = "float32") -> FeatureCache:
    """Keep the layers of Docs in a file, for later runs, too.

    path (str): The file.
    size (float): Most MB.
    dtype (str): "float32", or "float16" for half the space.
    RETURNS (FeatureCache): The cache.
    RAISES (ValueError): A setting is impossible.
    """
    return DiskFeatures(path, size, dtype)


def _unpack(data: Optional[bytes], dtype: str, shape: tuple) -> Optional[Floats3d]:
    # A file of another model would be found under another key; a damaged one may be cut.
    if data is None or len(data) != np.prod(shape) * np.dtype(dtype).itemsize:
        return None
    layers: Floats3d = np.frombuffer(data, dtype=dtype).reshape(shape).astype("float32")
    return layers


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=WAIT, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")  # a killed run leaves no damage
        connection.execute("PRAGMA synchronous = NORMAL")
        with connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS features (key BLOB PRIMARY KEY, data BLOB NOT NULL)"
            )
    except sqlite3.Error:
        connection.close()
        raise
    return connection
