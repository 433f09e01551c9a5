"""Parquet and Arrow: rows of text as input, and vectors as columns of the output."""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from ..embedding.embed import by_tokens
from ..files.errors import FullTemporaryFolder, listed, named_errors
from ..files.optional import import_optional
from ..text.reading import CONTENT, refuse, tokens_or_text
from .doc_reader import DocReader
from .entries import Embedded, TextEntry, WriteOptions, parse_settings, sentence
from .pieces import InputPiece

SUFFIXES = (".parquet",)
IS_FOLDER = False
SETTINGS = b"spacy_elmo"
BATCH_ROWS = 256  # Rows that are read at a time.
ROW_GROUP_BYTES = 1 << 23  # Bytes of vectors in a row group. Readers keep one row group in memory.
ROW_GROUP_ROWS = 10_000


def check_pyarrow() -> None:
    """Check that pyarrow is installed.

    RAISES (ImportError): pyarrow is not installed.
    """
    import_optional("pyarrow.parquet", "Parquet")


def text_columns(names: Sequence[str]) -> list[str]:
    """Return the names of the columns with the text: "tokens", "text", or both.

    RAISES (ValueError): The table has no such column, or two with the same name.
    """
    found = [name for name in CONTENT if name in names]
    for name in found:
        if names.count(name) > 1:
            raise ValueError(f"several columns have the name '{name}'. Rename all but one")
    if found:
        return found
    raise ValueError(
        f"no column 'tokens' or 'text', but {listed(names) or 'none'}. Rename the text column."
    )


def table_entries(table: Any, reader: DocReader, first: int = 0) -> Iterator[TextEntry]:
    """Convert the rows of a table to entries.

    table (Union[pyarrow.Table, pyarrow.RecordBatch]): A table with a column `tokens` (a list of
        strings is a sentence) or `text` (for the pipeline). If it has both, `text` is read in rows
        without `tokens`. A null is an empty row.
    reader (DocReader): Converts text to entries.
    first (int): Index of the first row, for error messages.
    YIELDS (TextEntry): The entry of a row.
    RAISES (ValueError): The table has neither column, or a row has a wrong type.
    """
    names = text_columns(table.column_names)
    for number, cells in enumerate(zip(*map(table.column, names)), first):
        with named_errors(f"row {number} (from 0)", UnicodeDecodeError):
            record = {name: cell.as_py() for name, cell in zip(names, cells)}
        try:
            content = tokens_or_text(record)
        except ValueError as error:
            raise ValueError(_problem(number, cells[0], names[0], error)) from error
        yield reader.read(content) if isinstance(content, str) else sentence(content)


def _problem(number: int, cell: Any, name: str, error: ValueError) -> str:
    """Describe a row without tokens and text. `cell` is its cell in the column `name`."""
    value = cell.as_py()
    if isinstance(value, str) and name == "text":
        return f"row {number} (from 0): {error}"
    kind = "strings" if name == "text" else "lists of strings"
    null = ", with a null in it" if isinstance(value, list) and None in value else ""
    return f"row {number} (from 0): the column '{name}' must contain {kind}, got {cell.type}{null}"


def read_parquet(file: InputPiece, reader: DocReader) -> Iterator[tuple[int, TextEntry]]:
    """Read a Parquet file.

    A row of the column `tokens` (lists of strings) is a sentence. Without that column, and where
    `tokens` is null, the pipeline reads each row of `text` as a Doc. A null is an empty entry.

    file (InputPiece): The file, or some of its row groups.
    reader (DocReader): Converts text to entries.
    YIELDS (Tuple[int, TextEntry]): Number of a row, from 1, and its entry.
    RAISES (ValueError): The file is not a Parquet file, or has neither column.
    """
    check_pyarrow()
    import pyarrow
    import pyarrow.parquet

    if file.row_groups is not None:
        file.open().close()  # Check that the file has not changed since the plan.
    try:
        with file.open_file() as opened, pyarrow.parquet.ParquetFile(opened) as parquet:
            columns = text_columns(parquet.schema_arrow.names)
            groups = range(*(file.row_groups or (parquet.num_row_groups,)))
            rows = (parquet.metadata.row_group(group).num_rows for group in range(groups.start))
            first = sum(rows)
            for group in groups:
                for batch in parquet.iter_batches(BATCH_ROWS, row_groups=[group], columns=columns):
                    with reader.nlp.memory_zone():
                        entries = list(table_entries(batch, reader, first))
                    yield from enumerate(entries, first + 1)
                    first += batch.num_rows
    except FullTemporaryFolder:
        raise
    except (ValueError, OSError, pyarrow.ArrowException) as error:
        refuse(file, None, f"not a Parquet file of text: {error}")


def group_bytes(group: Any) -> tuple[int, int]:
    """Return the positions in a file at which a row group starts and ends, in bytes.

    They are 0 for a table without columns.
    """
    columns = [group.column(i) for i in range(group.num_columns)]
    starts = [
        column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset
        for column in columns
    ]
    stops = (at + column.total_compressed_size for at, column in zip(starts, columns))
    return min(starts, default=0), max(stops, default=0)


def layer_names(vectors: np.ndarray) -> list[str]:
    """Return the names of the columns with vectors: "vectors", or "layer_0", "layer_1"..."""
    return ["vectors"] if vectors.ndim == 2 else [f"layer_{i}" for i in range(len(vectors))]


def columns_of(rows: Sequence[Embedded]) -> dict[str, Any]:
    """Convert entries to the columns of a table.

    rows (Sequence[Embedded]): Entries, at least one.
    RETURNS (Dict[str, pyarrow.Array]): `tokens`, the columns of `layer_names`, and the other
        columns of the entries.
    """
    import pyarrow as pa

    offsets = pa.array(np.cumsum([0, *(len(row.words) for row in rows)]), pa.int32())
    words = pa.array([word for row in rows for word in row.words], pa.string())
    columns = {"tokens": pa.ListArray.from_arrays(offsets, words)}
    for i, name in enumerate(layer_names(rows[0].vectors)):
        parts = [row.vectors if row.vectors.ndim == 2 else row.vectors[i] for row in rows]
        flat = pa.array(np.concatenate(parts).reshape(-1))
        vectors = pa.FixedSizeListArray.from_arrays(flat, parts[0].shape[-1])
        columns[name] = pa.ListArray.from_arrays(offsets, vectors)
    types = {"starts": pa.int32(), "ends": pa.int32(), "labels": pa.string()}
    for name in rows[0].beside:
        beside = [value for row in rows for value in row.beside[name]]
        values = pa.array(beside, types.get(name, pa.float32()))
        columns[name] = pa.ListArray.from_arrays(offsets, values)
    return columns


def add_columns(table: Any, rows: Sequence[Embedded]) -> Any:
    """Add tokens and vectors to a table.

    Vectors are lists of variable length, because Spark does not support fixed-size lists.

    table (Union[pyarrow.Table, pyarrow.RecordBatch]): The table.
    rows (Sequence[Embedded]): One entry per row. If the table has no rows: one entry without
        tokens, for the types of the columns.
    RETURNS (Union[pyarrow.Table, pyarrow.RecordBatch]): The table with the new columns. The new
        `tokens` replace the column that was read.
    RAISES (ValueError): The table has another column with the name of a new column.
    """
    import pyarrow as pa

    new = {name: column[: table.num_rows] for name, column in columns_of(rows).items()}
    taken = [name for name in table.column_names if name in new and name != "tokens"]
    if taken:
        raise ValueError(
            f"the table has a column '{taken[0]}', which the vectors would replace. Rename it."
        )
    for name in layer_names(rows[0].vectors):
        number = new[name].type.value_type.value_type
        new[name] = new[name].cast(pa.list_(pa.list_(number)))
    return type(table).from_pydict({**dict(zip(table.column_names, table.columns)), **new})


def write(
    path: Path, entries: Iterable[Embedded], settings: dict[str, Any], options: WriteOptions
) -> None:
    """Write a Parquet file with a row for each entry.

    The columns are `index`, `file` and `line` (the place of the entry in the input), `text`,
    `tokens` and `vectors`: a list with one vector per token. With all layers, the columns
    `layer_0`, `layer_1` and so on replace `vectors`. Other columns with one value per vector
    follow, such as `scales`.

    path (Path): The file.
    entries (Iterable[Embedded]): The entries.
    settings (dict): Settings of the run. They become metadata of the file.
    options (WriteOptions): Options of the format.
    """
    import pyarrow.parquet

    groups = by_tokens(entries, ROW_GROUP_BYTES, ROW_GROUP_ROWS, attrgetter("vectors.nbytes"))
    first_rows, first = next(groups, []), options.first
    like = first_rows[0] if first_rows else options.empty
    schema = _batch([like], first, options).schema
    schema = schema.with_metadata({SETTINGS: json.dumps(settings)})
    # Parquet has no one-byte type, but dictionary indices can take one byte.
    names = layer_names(like.vectors) if like.vectors.dtype == "int8" else []
    dictionaries = ["file", *(f"{name}.list.element.list.element" for name in names)]
    with (
        path.open("xb") as file,  # ParquetWriter would follow a link in its place.
        pyarrow.parquet.ParquetWriter(file, schema, use_dictionary=dictionaries) as writer,
    ):
        for rows in chain([first_rows] if first_rows else [], groups):
            writer.write_batch(_batch(rows, first, options))
            first += len(rows)


def read_settings(path: Path) -> dict[str, Any]:
    """Read the settings that `write` stored; empty if another program wrote the file."""
    import pyarrow
    import pyarrow.parquet

    try:
        metadata = pyarrow.parquet.read_schema(path).metadata or {}
    except (OSError, pyarrow.ArrowException):
        return {}
    return parse_settings(metadata.get(SETTINGS))


def _batch(rows: Sequence[Embedded], first: int, options: WriteOptions) -> Any:
    import pyarrow as pa

    columns = {
        "index": pa.array(range(first, first + len(rows)), pa.int64()),
        "file": pa.array([row.source.file for row in rows], pa.string()),
        "line": pa.array([row.source.line for row in rows], pa.int64()),
    }
    if options.texts == "index":
        columns["text"] = pa.array([row.text for row in rows], pa.string())
    return pa.RecordBatch.from_pydict(columns | columns_of(rows))
