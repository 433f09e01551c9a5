"""Parquet, for pandas, Spark and others that read Arrow."""

import json
from collections.abc import Iterable
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, Optional

from ..embedding.batches import by_tokens
from .entries import Embedded
from .tables import beside_type, columns_of, layer_names
from .workplace import read_json

SUFFIXES = (".parquet",)
IS_FOLDER = False
SETTINGS = b"spacy_elmo"
ROW_GROUP_BYTES = 1 << 23  # of vectors; readers hold a row group at a time
ROW_GROUP_ROWS = 10_000


def write(
    path: Path,
    entries: Iterable[Embedded],
    settings: dict[str, Any],
    *,
    index: bool,
    first: int = 0,
    empty: Optional[Embedded] = None,
) -> None:
    """Write a file, a row an entry: `index`, `text`, `tokens`, and `vectors` or, of all
    layers, `layer_0`, `layer_1` and so on: a list of vectors, one a token; and lists of what
    stands beside each vector.

    path (Path): The file.
    entries (Iterable[Embedded]): The entries.
    settings (dict): What they were made by; metadata of the file.
    index (bool): Whether to write the texts.
    first (int): Number of the first entry.
    empty (Optional[Embedded]): An empty entry, whose columns there are where there is no entry.
    """
    import pyarrow.parquet

    size = attrgetter("vectors.nbytes")
    groups = by_tokens(entries, ROW_GROUP_BYTES, ROW_GROUP_ROWS, size)
    first_rows = next(groups, [])
    like = first_rows[0] if first_rows else empty
    if like is None:
        return
    schema = _schema(like, index, settings)
    # Parquet has no type of one byte: numbers of a dictionary take one.
    names = layer_names(like.vectors) if like.vectors.dtype == "int8" else []
    dictionaries = [f"{name}.list.element.list.element" for name in names]
    with pyarrow.parquet.ParquetWriter(path, schema, use_dictionary=dictionaries) as writer:
        for rows in chain([first_rows] if first_rows else [], groups):
            writer.write_batch(_batch(rows, first, schema))
            first += len(rows)


def read_settings(path: Path) -> dict[str, Any]:
    """RETURNS (dict): The settings that `write` was given; none where it wrote no such file."""
    import pyarrow
    import pyarrow.parquet

    try:
        metadata = pyarrow.parquet.read_schema(path).metadata or {}
    except (OSError, pyarrow.ArrowException):
        return {}
    return read_json(metadata.get(SETTINGS))


def _schema(like: Embedded, index: bool, settings: dict[str, Any]) -> Any:
    import pyarrow as pa

    vectors = like.vectors
    vector = pa.list_(pa.from_numpy_dtype(vectors.dtype), vectors.shape[-1])
    texts = [("text", pa.string())] if index else []
    tokens = ("tokens", pa.list_(pa.string()))
    columns = [(name, pa.list_(vector)) for name in layer_names(vectors)]
    columns += [(name, pa.list_(beside_type(name))) for name in like.beside]
    schema = pa.schema([("index", pa.int64()), *texts, tokens, *columns])
    return schema.with_metadata({SETTINGS: json.dumps(settings)})


def _batch(rows: list[Embedded], first: int, schema: Any) -> Any:
    import pyarrow as pa

    columns = {
        "index": pa.array(range(first, first + len(rows)), pa.int64()),
        "text": pa.array([row.text for row in rows], pa.string()),
        **columns_of(rows),
    }
    return pa.record_batch([columns[name] for name in schema.names], schema=schema)
