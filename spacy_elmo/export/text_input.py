"""Text and JSON, some lines at a time."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import Optional

from ..text.chunks import Chunk, ChunkReader
from ..text.reading import NOT_UTF8, has_half_a_pair, read_record, refuse, sentences_of_lines
from .entries import Entry, sentence
from .making import DocMaker
from .pieces import Piece

CHUNK_SIZE = 1 << 17  # bytes that are read at a time

Progress = Callable[[int], object]


def chunks_of(file: Piece, progress: Progress, *, by_paragraph: bool) -> Iterator[Chunk]:
    """Read a file, gzipped or not, in pieces that end with a line.

    file (Piece): The file, or a part of it.
    progress (Callable[[int], object]): Told how many bytes more were read.
    by_paragraph (bool): Whether to cut at empty lines, where there are some.
    YIELDS (Chunk): Some lines.
    RAISES (ValueError): It holds nothing, or cannot be read to its end.
    """
    first_line = None if file.stop is None else file.first_line
    for chunk in ChunkReader([file], CHUNK_SIZE, [by_paragraph], first_line):
        yield chunk
        progress(chunk.n_read)
        if chunk.problem is not None:
            refuse(file, *chunk.problem)


def lines_of(chunk: Chunk) -> Iterator[tuple[int, bytes]]:
    """YIELDS (Tuple[int, bytes]): The lines with their numbers."""
    if chunk.data:
        yield from enumerate(chunk.data.removesuffix(b"\n").split(b"\n"), chunk.first_line)


def decode(file: Piece, number: int, line: bytes) -> str:
    """RETURNS (str): A line.
    RAISES (ValueError): It is not UTF-8."""
    try:
        return line.decode("utf8").rstrip("\r")
    except UnicodeDecodeError:
        refuse(file, number, NOT_UTF8)


def read_text(file: Piece, maker: Optional[DocMaker], progress: Progress) -> Iterator[Entry]:
    """Read a text file. A line is an entry, its tokens separated by spaces, an empty
    line as well: numbers of entries are numbers of lines. Of running text a sentence
    is an entry.

    file (Piece): The file, or a part of it.
    maker (Optional[DocMaker]): Splits running text; None if there is none.
    progress (Callable[[int], object]): Told how many bytes more were read.
    YIELDS (Entry): An entry.
    RAISES (ValueError): The file cannot be read.
    """
    for chunk in chunks_of(file, progress, by_paragraph=maker is not None):
        lines, callback = lines_of(chunk), partial(refuse, file)
        with nullcontext() if maker is None else maker.nlp.memory_zone():
            numbered = sentences_of_lines(lines, False, maker is not None, lambda: maker, callback)
            entries = [sentence(words) for _, words in numbered]
        yield from entries


def read_records(file: Piece, maker: DocMaker, progress: Progress) -> Iterator[Entry]:
    """Read a `.jsonl` file. A line is an entry: its `tokens` one sentence, its `text` a
    Doc as the pipeline reads it.

    file (Piece): The file, or a part of it.
    maker (DocMaker): Makes the Docs.
    progress (Callable[[int], object]): Told how many bytes more were read.
    YIELDS (Entry): An entry.
    RAISES (ValueError): The file cannot be read.
    """
    for chunk in chunks_of(file, progress, by_paragraph=False):
        with maker.nlp.memory_zone():
            entries = [
                _record(file, number, line, maker)
                for number, line in lines_of(chunk)
                if line.strip()
            ]
        yield from entries


def _record(file: Piece, number: int, line: bytes, maker: DocMaker) -> Entry:
    try:
        content = read_record(line.decode("utf8"))
        if isinstance(content, str):
            return maker.read(content)
        if any(map(has_half_a_pair, content)):
            raise ValueError("'tokens' hold half a surrogate pair, which cannot be written")
    except ValueError as error:
        refuse(file, number, str(error))
    return sentence(content)
