"""Parquet files and tables of Arrow: their rows as entries, and vectors as their columns."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..frozen.config import listed
from ..text.reading import refuse
from .entries import Embedded, Entry, sentence
from .making import DocMaker
from .pieces import Piece
from .text_input import Progress

BATCH_ROWS = 256  # of Parquet, read at a time


def check_pyarrow() -> None:
    """RAISES (ImportError): pyarrow is not installed."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"Parquet is read and written by pyarrow, which cannot be imported ({error}): "
            f'pip install "spacy-elmo[parquet]"'
        ) from error


def text_column(names: Sequence[str]) -> str:
    """RETURNS (str): Which column of a table holds text.
    RAISES (ValueError): None does."""
    for name in ("tokens", "text"):
        if name in names:
            return name
    raise ValueError(f"no column 'tokens' or 'text', but {listed(names) or 'none'}")


def table_entries(table: Any, maker: DocMaker, first: int = 0) -> Iterator[Entry]:
    """Read the rows of a table.

    table (Union[pyarrow.Table, pyarrow.RecordBatch]): It has a column `tokens`, of lists of
        strings, a sentence each; or else `text`, which the pipeline reads. A null is empty.
    maker (DocMaker): Makes the Docs.
    first (int): Number of the first row, for errors.
    YIELDS (Entry): A row.
    RAISES (ValueError): It has neither, or a row holds something else.
    """
    name = text_column(table.column_names)
    empty: Any = "" if name == "text" else []
    for number, cell in enumerate(table.column(name), first):
        value = cell.as_py() if cell.is_valid else empty
        if name == "text" and isinstance(value, str):
            yield maker.read(value)
        elif isinstance(value, list) and all(isinstance(token, str) for token in value):
            yield sentence(value)
        else:
            kind = "strings" if name == "text" else "lists of strings"
            null = ", with a null in it" if isinstance(value, list) and None in value else ""
            raise ValueError(
                f"row {number} (from 0): the column '{name}' must hold {kind}, got "
                f"{cell.type}{null}"
            )


def read_parquet(file: Piece, maker: DocMaker, progress: Progress) -> Iterator[Entry]:
    """Read the rows of a Parquet file: its column `tokens` (lists of strings), a sentence each, or
    else its column `text`, a Doc each as the pipeline reads it. A null is an empty entry.

    file (Piece): The file, or some row groups of it.
    maker (DocMaker): Makes the Docs.
    progress (Callable[[int], object]): Told how many bytes more were read.
    YIELDS (Entry): A row.
    RAISES (ValueError): It is no such file, or has no such column.
    """
    check_pyarrow()
    import pyarrow
    import pyarrow.parquet

    if file.row_groups is not None:
        file.open().close()  # which compares it with what was planned
    try:
        with file.open_file() as opened, pyarrow.parquet.ParquetFile(opened) as parquet:
            column = text_column(parquet.schema_arrow.names)
            groups = range(*(file.row_groups or (parquet.num_row_groups,)))
            metadata = parquet.metadata
            first = sum(metadata.row_group(group).num_rows for group in range(groups.start))
            for group in groups:
                batches = parquet.iter_batches(BATCH_ROWS, row_groups=[group], columns=[column])
                for batch in batches:
                    with maker.nlp.memory_zone():
                        entries = list(table_entries(batch, maker, first))
                    yield from entries
                    first += batch.num_rows
                start, stop = group_bytes(metadata.row_group(group))
                progress(stop - start)
    except (ValueError, OSError, pyarrow.ArrowException) as error:
        refuse(file, None, f"no Parquet file of text: {error}")


def group_bytes(group: Any) -> tuple[int, int]:
    """RETURNS (Tuple[int, int]): Where the data of a row group begin and end in their file."""
    columns = [group.column(i) for i in range(group.num_columns)]
    starts = [
        column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset
        for column in columns
    ]
    stops = (at + column.total_compressed_size for at, column in zip(starts, columns))
    return min(starts), max(stops)


def layer_names(vectors: np.ndarray) -> list[str]:
    """RETURNS (List[str]): The columns of an entry's vectors."""
    return ["vectors"] if vectors.ndim == 2 else [f"layer_{i}" for i in range(len(vectors))]


def columns_of(rows: Sequence[Embedded]) -> dict[str, Any]:
    """Make columns of entries.

    rows (Sequence[Embedded]): Entries, at least one.
    RETURNS (Dict[str, pyarrow.Array]): `tokens`, a column each of `layer_names`, and of what
        stands beside each vector.
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
    for name in rows[0].beside:
        values = pa.array([value for row in rows for value in row.beside[name]], beside_type(name))
        columns[name] = pa.ListArray.from_arrays(offsets, values)
    return columns


def beside_type(name: str) -> Any:
    """RETURNS (pyarrow.DataType): Of one number or string beside a vector, by its column."""
    import pyarrow as pa

    return {"starts": pa.int32(), "ends": pa.int32(), "labels": pa.string()}.get(name, pa.float32())


def add_columns(table: Any, rows: Sequence[Embedded]) -> Any:
    """Put tokens and vectors into a table. A vector is a list of any length, for Spark knows no
    other.

    table (Union[pyarrow.Table, pyarrow.RecordBatch]): The table.
    rows (Sequence[Embedded]): Its rows; an empty one where it has none.
    RETURNS (Union[pyarrow.Table, pyarrow.RecordBatch]): The table with the columns.
    """
    import pyarrow as pa

    new = {name: column[: table.num_rows] for name, column in columns_of(rows).items()}
    for name in layer_names(rows[0].vectors):
        number = new[name].type.value_type.value_type
        new[name] = new[name].cast(pa.list_(pa.list_(number)))
    return type(table).from_pydict({**dict(zip(table.column_names, table.columns)), **new})
