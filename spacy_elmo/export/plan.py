"""Which part of the input belongs to which shard."""

import codecs
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Optional

from ..files import progress_bar
from ..files.remote import reading
from ..text.chunks import BLOCK, Chunk, ChunkReader
from ..text.reading import refuse
from .columns_input import column_number
from .inputs import CONLL, CONLLU, DOCBIN, JSONL, PARQUET, TSV
from .pieces import Piece
from .tables import check_pyarrow, group_bytes
from .text_input import Progress, lines_of

Plan = list[list[tuple[int, Piece]]]
ShardAt = Callable[[int], int]

CHUNKS = 8  # of a shard; it may be by one larger or smaller than others
# Bytes of running text without an empty line, after which it is cut at the end of a line.
MAX_UNCUT = 1 << 20


def make_plan(
    sources: Sequence[Piece], n_shards: int, *, tokenize: bool, column: Optional[str]
) -> Plan:
    """Cut the input into shards of about the same number of bytes: text at the ends of lines,
    where a sentence may have several at empty lines, Parquet between row groups; what is
    compressed, and Docs, not at all. The same input makes the same plan. It is read once.

    sources (Sequence[Piece]): The whole files.
    n_shards (int): Most shards.
    tokenize (bool): Whether text files hold running text.
    column (Optional[str]): Column of `.tsv` files.
    RETURNS (List[List[Tuple[int, Piece]]]): The shards; of each the numbers of files, and parts
        of them.
    RAISES (ValueError): A file cannot be read, or holds nothing.
    """
    sizes = [source.size() for source in sources]
    total, offset = max(sum(sizes), 1), 0
    chunk_size = min(max(total // (CHUNKS * n_shards), 1), BLOCK)
    shards: dict[int, list[tuple[int, Piece]]] = {}
    with progress_bar(total, "Planning", "B") as bar:
        for number, (source, size) in enumerate(zip(sources, sizes)):

            def shard_at(position: int, offset: int = offset) -> int:
                return (offset + position) * n_shards // total

            if source.name.endswith(PARQUET):
                pieces = _cut_parquet(source, shard_at, bar.update)
            elif source.name.endswith(DOCBIN):
                pieces = iter([_part(source, 0, size)])
            else:
                cutter = _LineCutter(source, tokenize=tokenize, column=column)
                pieces = cutter.cut(size, shard_at, chunk_size, bar.update)
            for piece in pieces:
                if piece.entries != 0:
                    shards.setdefault(shard_at(piece.start), []).append((number, piece))
            offset += size
    return [shards[shard] for shard in sorted(shards)]


class _LineCutter:
    """Cuts a file of lines, and counts its entries where a line is one."""

    def __init__(self, source: Piece, *, tokenize: bool, column: Optional[str]):
        name = source.name
        is_table, is_jsonl = name.endswith(TSV), name.endswith(JSONL)
        has_sentences = name.endswith((*CONLL, *CONLLU))
        is_running = tokenize and not (is_table or is_jsonl or has_sentences)
        self.source = source
        self.column = column if is_table else None
        self.by_paragraph = has_sentences or is_running
        self.max_uncut = MAX_UNCUT if is_running else None
        self.may_be_blank = not is_jsonl

    def cut(
        self, size: int, shard_at: ShardAt, chunk_size: int, progress: Progress
    ) -> Iterator[Piece]:
        """YIELDS (Piece): The parts, in order."""
        chunks = ChunkReader([self.source], chunk_size, [self.by_paragraph])
        is_packed = self.source.suffix == ".gz"
        mark = b"".join(self.source.blocks(0, len(codecs.BOM_UTF8)))
        stop = len(mark) if mark == codecs.BOM_UTF8 else 0
        digest = hashlib.sha256(mark[:stop])
        part, safe, place, end = replace(self.source, entries=0), 0, None, b""
        for chunk in chunks:
            if chunk.problem is not None:
                refuse(self.source, *chunk.problem)
            if chunk.first_line == 1 and self.column is not None:
                place = column_number(self.source, chunk.data.split(b"\n", 1)[0], self.column)
            digest.update(chunk.data)
            stop += len(chunk.data)
            end = (end + chunk.data)[-3:]
            part = replace(part, entries=self._count(part, chunk, place))
            if not is_packed and self._may_cut(end, stop - safe):
                safe = stop
                if shard_at(stop) != shard_at(part.start):
                    yield replace(part, stop=stop, sha256=digest.hexdigest())
                    line = chunk.first_line + chunk.data.count(b"\n")
                    part = Piece(self.source.source, stop, None, None, line, 0, place)
                    digest = hashlib.sha256()
            progress(chunk.n_read)
        if is_packed:
            yield replace(part, stop=size, sha256=chunks.checksums[0])
        elif stop > part.start:
            yield replace(part, stop=stop, sha256=digest.hexdigest())

    def _may_cut(self, end: bytes, n_bytes: int) -> bool:
        """Whether the file can be cut after this end, so many bytes from where it last could."""
        if not self.by_paragraph or end.endswith((b"\n\n", b"\n\r\n")):
            return end.endswith(b"\n")
        return self.max_uncut is not None and n_bytes > self.max_uncut and end.endswith(b"\n")

    def _count(self, part: Piece, chunk: Chunk, place: Optional[str]) -> Optional[int]:
        """The entries of a part with some lines more."""
        if self.by_paragraph or part.entries is None:
            return None
        n_lines = sum(self.may_be_blank or bool(line.strip()) for _, line in lines_of(chunk))
        has_names = chunk.first_line == 1 and chunk.data and place != self.column
        return part.entries + n_lines - bool(has_names)


def _cut_parquet(source: Piece, shard_at: ShardAt, progress: Progress) -> Iterator[Piece]:
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
            part = _part(source, start, stop)
            yield replace(part, entries=n_rows, row_groups=(first, number))
            progress(stop - start)
            first, n_rows = number, 0


def _part(source: Piece, start: int, stop: int) -> Piece:
    """A part with its checksum."""
    digest = hashlib.sha256()
    for block in source.blocks(start, stop):
        digest.update(block)
    return replace(source, start=start, stop=stop, sha256=digest.hexdigest())
