"""Parquet, for pandas, Spark and others that read Arrow."""

import json
from collections.abc import Iterable
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from ..embedding.batches import by_tokens
from .entries import Embedded
from .workplace import read_json

SUFFIXES = (".parquet",)
IS_FOLDER = False
SETTINGS = b"spacy_elmo"
ROW_GROUP_BYTES = 1 << 23  # of vectors; readers hold a row group at a time
ROW_GROUP_ROWS = 10_000


def check() -> None:
    """RAISES (ImportError): pyarrow is not installed."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"Parquet is written by pyarrow, which cannot be imported ({error}): "
            f'pip install "spacy-elmo[parquet]"'
        ) from error


def write(
    path: Path, entries: Iterable[Embedded], settings: dict[str, Any], *, index: bool
) -> None:
    """Write a file, a row an entry: `index`, `text`, `tokens`, and `vectors` or, of all
    layers, `layer_0`, `layer_1` and so on: a list of vectors, one a token.

    path (Path): The file.
    entries (Iterable[Embedded]): The entries.
    settings (dict): What they were made by; metadata of the file.
    index (bool): Whether to write the texts.
    """
    import pyarrow.parquet

    writer, first, schema = None, 0, None
    try:
        size = attrgetter("vectors.nbytes")
        for rows in by_tokens(entries, ROW_GROUP_BYTES, ROW_GROUP_ROWS, size):
            if writer is None:
                schema = _schema(rows[0].vectors, index, settings)
                writer = pyarrow.parquet.ParquetWriter(path, schema, use_dictionary=False)
            writer.write_batch(_batch(rows, first, schema))
            first += len(rows)
    finally:
        if writer is not None:
            writer.close()


def read_settings(path: Path) -> dict[str, Any]:
    """RETURNS (dict): The settings that `write` was given; none where it wrote no such file."""
    import pyarrow
    import pyarrow.parquet

    try:
        metadata = pyarrow.parquet.read_schema(path).metadata or {}
    except (OSError, pyarrow.ArrowException):
        return {}
    return read_json(metadata.get(SETTINGS))


def _names(vectors: np.ndarray) -> list[str]:
    return ["vectors"] if vectors.ndim == 2 else [f"layer_{i}" for i in range(len(vectors))]


def _schema(vectors: np.ndarray, index: bool, settings: dict[str, Any]) -> Any:
    import pyarrow as pa

    vector = pa.list_(pa.from_numpy_dtype(vectors.dtype), vectors.shape[-1])
    texts = [("text", pa.string())] if index else []
    tokens = ("tokens", pa.list_(pa.string()))
    columns = [(name, pa.list_(vector)) for name in _names(vectors)]
    schema = pa.schema([("index", pa.int64()), *texts, tokens, *columns])
    return schema.with_metadata({SETTINGS: json.dumps(settings)})


def _batch(rows: list[Embedded], first: int, schema: Any) -> Any:
    import pyarrow as pa

    lengths = [len(row.words) for row in rows]
    offsets = pa.array(np.cumsum([0, *lengths]), pa.int32())
    words = pa.array([word for row in rows for word in row.words], pa.string())
    columns = {
        "index": pa.array(range(first, first + len(rows)), pa.int64()),
        "text": pa.array([row.text for row in rows], pa.string()),
        "tokens": pa.ListArray.from_arrays(offsets, words),
    }
    for i, name in enumerate(_names(rows[0].vectors)):
        parts = [row.vectors if row.vectors.ndim == 2 else row.vectors[i] for row in rows]
        flat = pa.array(np.concatenate(parts).reshape(-1))
        vectors = pa.FixedSizeListArray.from_arrays(flat, parts[0].shape[-1])
        columns[name] = pa.ListArray.from_arrays(offsets, vectors)
    return pa.record_batch([columns[name] for name in schema.names], schema=schema)
