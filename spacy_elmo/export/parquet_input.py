"""Parquet, some rows at a time."""

from collections.abc import Iterator
from typing import Any

from ..text.reading import refuse
from .entries import Entry
from .making import DocMaker
from .pieces import Piece, Source
from .tables import check_pyarrow, table_entries, text_column
from .text_input import Progress

BATCH_ROWS = 256


def read_parquet(file: Source, maker: DocMaker, progress: Progress) -> Iterator[Entry]:
    """Read the rows of a Parquet file: its column `tokens` (lists of strings), a sentence each, or
    else its column `text`, a Doc each as the pipeline reads it. A null is an empty entry.

    file (Union[Path, Piece]): The file, or some row groups of it.
    maker (DocMaker): Makes the Docs.
    progress (Callable[[int], object]): Told how many bytes more were read.
    YIELDS (Entry): A row.
    RAISES (ValueError): It is no such file, or has no such column.
    """
    check_pyarrow()
    import pyarrow
    import pyarrow.parquet

    part = None
    if isinstance(file, Piece):
        part = file.row_groups
        file.open().close()  # which compares it with what was planned
    opened = file.open_file() if isinstance(file, Piece) else file.open("rb")
    try:
        with opened, pyarrow.parquet.ParquetFile(opened) as parquet:
            column = text_column(parquet.schema_arrow.names)
            for group in range(*(part or (parquet.num_row_groups,))):
                batches = parquet.iter_batches(BATCH_ROWS, row_groups=[group], columns=[column])
                for batch in batches:
                    with maker.nlp.memory_zone():
                        entries = list(table_entries(batch, maker))
                    yield from entries
                start, stop = group_bytes(parquet.metadata.row_group(group))
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
