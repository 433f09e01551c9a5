"""Plan of the shards: which parts of the input belong to which shard.

The plan depends only on the input and the settings. So all processes make the same plan, and a
resumed run continues with it.
"""

import codecs
import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Optional

from ..files import progress_bar
from ..files.remote import reading
from ..text.chunks import BLOCK, ChunkReader
from ..text.reading import refuse
from .inputs import CONLL, CONLLU, DOCBIN, JSONL, PARQUET, TSV, TXT
from .parquet import check_pyarrow, group_bytes
from .pieces import InputPiece
from .settings import ExportSettings
from .text_input import CHUNK_SIZE, column_number, lines_of

Plan = list[list[InputPiece]]
ShardAt = Callable[[int], int]
Progress = Callable[[int], object]

CHUNKS = 8  # Chunks per shard. The size of a shard varies by one chunk.
# Bytes per shard of a single output file. A shard takes half a minute with en_small, and a quarter
# of an hour with the published original. Smaller shards cost time, because each shard starts with
# an empty cache.
SHARD_SIZE = 1 << 20
# More shards cost time, because each shard of a packed file unpacks the file from its start.
MAX_SHARDS = 1000
# Running text is cut at empty lines. After this number of bytes without an empty line, it is cut
# at the end of a line.
MAX_UNCUT = 1 << 20


def make_plan(
    sources: Sequence[InputPiece], n_shards: Optional[int], settings: ExportSettings
) -> Plan:
    """Cut the input into shards of about the same number of bytes.

    Files with one sentence per line are cut at the ends of lines. CoNLL files and running text are
    cut at empty lines, and Parquet files between row groups. `.spacy` files are not cut. The same
    input gives the same plan. The input is read once.

    sources (Sequence[InputPiece]): The whole files. If they have checksums, the content must
        match.
    n_shards (Optional[int]): Maximum number of shards. If it is set, compressed files are not cut.
        Default: shards of `SHARD_SIZE` bytes.
    settings (ExportSettings): How to read the files.
    RETURNS (List[List[InputPiece]]): For each shard, the files and parts of files that it reads.
    RAISES (ValueError): A file cannot be read, or is empty.
    """
    sizes = [source.size() for source in sources]
    total, offset = max(sum(sizes), 1), 0
    if n_shards is None:
        # Use the chunks of the readers, because a reader ends a paragraph of running text with its
        # chunk.
        n_cuts, per, chunk_size = 1, max(SHARD_SIZE, total // MAX_SHARDS), CHUNK_SIZE
    else:
        n_cuts, per = n_shards, total
        chunk_size = min(max(total // (CHUNKS * n_shards), 1), BLOCK)
    cut_lines = partial(
        _cut_lines,
        settings=settings,
        cuts_packed=n_shards is None,
        least_packed=total // MAX_SHARDS,
    )
    shards: dict[int, list[InputPiece]] = {}
    with progress_bar(total, "Planning", "B") as bar:
        for number, (source, size) in enumerate(zip(sources, sizes)):

            def shard_at(position: int, offset: int = offset) -> int:
                return (offset + position) * n_cuts // per

            source = replace(source, input=number)
            if source.kind == PARQUET:
                pieces = _cut_parquet(source, shard_at, bar.update)
            elif source.kind == DOCBIN:
                sha256 = source.sha256 or source.digest(0, size)
                pieces = iter([replace(source, stop=size, sha256=sha256)])
            else:
                pieces = cut_lines(source, size, shard_at, chunk_size, bar.update)
            end = size
            for piece in pieces:
                end = max(end, piece.stop or 0)  # Unpacked text is longer than the file.
                if piece.entries != 0:
                    shards.setdefault(shard_at(piece.start), []).append(piece)
            offset += end
    return [shards[shard] for shard in sorted(shards)]


def _cut_lines(
    source: InputPiece,
    size: int,
    shard_at: ShardAt,
    chunk_size: int,
    progress: Progress,
    *,
    settings: ExportSettings,
    cuts_packed: bool,
    least_packed: int,
) -> Iterator[InputPiece]:
    """Cut a text file into parts, and yield them in order.

    If each line of the file is an entry, a part contains its number of entries.

    source (InputPiece): The file.
    size (int): Size of the file in bytes.
    shard_at (Callable[[int], int]): Returns the index of the shard for a position in the file.
    chunk_size (int): Number of bytes to read at a time. Cuts are only between chunks.
    progress (Callable[[int], object]): Called with the number of bytes of each chunk.
    settings (ExportSettings): How to read the file.
    cuts_packed (bool): Whether to cut compressed files by their unpacked content.
    least_packed (int): Minimum number of packed bytes of a part. The unpacked size is not known in
        advance, so only this limits the number of parts.
    """
    is_table, is_jsonl = source.kind == TSV, source.kind == JSONL
    has_sentences = source.kind in (CONLL, CONLLU)
    is_running = settings.format == "text" and source.kind == TXT
    column = settings.column
    by_paragraph = has_sentences or is_running
    is_packed = source.compression != ""
    n_entries, place = None if by_paragraph else 0, None
    part = replace(source, entries=n_entries, unpacked=True if is_packed and cuts_packed else None)
    mark, end = b"", b""
    with suppress(ValueError):  # Reading the first chunk reports the error.
        mark = b"".join(part.blocks(0, len(codecs.BOM_UTF8)))
    n_packed = 0  # Packed bytes since the last cut.
    safe, stop = 0, len(mark) if mark == codecs.BOM_UTF8 else 0
    digest = hashlib.sha256(mark[:stop])
    chunks = ChunkReader([source], chunk_size, [by_paragraph])
    for chunk in chunks:
        if chunk.problem is not None:
            refuse(source, *chunk.problem)
        if chunk.first_line == 1 and is_table and column is not None:
            place = column_number(source, chunk.data.split(b"\n", 1)[0], column)
        digest.update(chunk.data)
        stop += len(chunk.data)
        n_packed += chunk.n_read
        end = (end + chunk.data)[-3:]
        if not by_paragraph:
            n_lines = sum(not is_jsonl or bool(line.strip()) for _, line in lines_of(chunk))
            has_names = chunk.first_line == 1 and chunk.data and place not in (None, column)
            part = replace(part, entries=(part.entries or 0) + n_lines - bool(has_names))
        is_gap = not by_paragraph or end.endswith((b"\n\n", b"\n\r\n"))
        may_cut = end.endswith(b"\n") and (is_gap or (is_running and stop - safe > MAX_UNCUT))
        if may_cut and (cuts_packed or not is_packed):
            safe = stop
            is_large = not is_packed or n_packed >= least_packed
            if is_large and shard_at(stop) != shard_at(part.start):
                n_packed = 0
                yield replace(part, stop=stop, sha256=digest.hexdigest())
                line = chunk.first_line + chunk.data.count(b"\n")
                part = replace(part, start=stop, first_line=line, entries=n_entries, column=place)
                digest = hashlib.sha256()
        progress(chunk.n_read)
    if source.sha256 not in (None, chunks.checksums[0]):
        raise ValueError(f"{source} has changed while it was read. Run it again.")
    if is_packed and not cuts_packed:
        yield replace(part, stop=size, sha256=chunks.checksums[0])
    elif stop > part.start:
        yield replace(part, stop=stop, sha256=digest.hexdigest())


def _cut_parquet(source: InputPiece, shard_at: ShardAt, progress: Progress) -> Iterator[InputPiece]:
    check_pyarrow()
    import pyarrow.parquet

    with source.open_file() as file, reading(str(source)):
        metadata = pyarrow.parquet.read_metadata(file)
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    stops = [group_bytes(group)[1] for group in groups]
    first, n_rows = 0, 0
    for number, (group, stop) in enumerate(zip(groups, stops), 1):
        start = group_bytes(groups[first])[0]
        n_rows += group.num_rows
        if number == len(groups) or shard_at(stop) != shard_at(start):
            part = replace(source, start=start, stop=stop, sha256=source.digest(start, stop))
            yield replace(part, entries=n_rows, row_groups=(first, number))
            progress(stop - start)
            first, n_rows = number, 0
