"""Readers of text, JSON lines and tables of text, a chunk of lines at a time."""

import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import Optional

from ..frozen.config import listed
from ..text.chunks import Chunk, ChunkReader
from ..text.reading import NOT_UTF8, has_half_a_pair, read_record, refuse, sentences_of_lines
from .doc_reader import DocReader
from .entries import TextEntry, sentence
from .places import InputPiece

CHUNK_SIZE = 1 << 17  # bytes read at a time
DOCUMENT = "-DOCSTART-"  # first word of lines between documents in CoNLL-2003
CELLS = 10  # columns of CoNLL-U
SPACES = re.compile(" +")
# Comments of CoNLL-2012, CoNLL-U and MultiCoNER. Other lines that begin with "#" are words.
COMMENT = re.compile(r"#(begin|end) document|# (newdoc|newpar|id|\S+ =)(\s|$)")


def chunks_of(file: InputPiece, *, by_paragraph: bool) -> Iterator[Chunk]:
    """Read a file, gzipped or not, in pieces that end with a line.

    file (InputPiece): The file, or a part of it.
    by_paragraph (bool): Whether to cut at empty lines, if there are some.
    YIELDS (Chunk): Some lines.
    RAISES (ValueError): It is empty, or cannot be read to its end.
    """
    first_line = None if file.stop is None else file.first_line
    for chunk in ChunkReader([file], CHUNK_SIZE, [by_paragraph], first_line):
        yield chunk
        if chunk.problem is not None:
            refuse(file, *chunk.problem)


def lines_of(chunk: Chunk) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a chunk with their numbers."""
    if chunk.data:
        yield from enumerate(chunk.data.removesuffix(b"\n").split(b"\n"), chunk.first_line)


def decode(file: InputPiece, number: int, line: bytes) -> str:
    """Decode a line.

    RAISES (ValueError): It is not UTF-8.
    """
    try:
        return line.decode("utf8").rstrip("\r")
    except UnicodeDecodeError:
        refuse(file, number, NOT_UTF8)


def read_text(file: InputPiece, reader: Optional[DocReader]) -> Iterator[TextEntry]:
    """Read a text file.

    A line is an entry with tokens separated by spaces. Empty lines count, so that the number of an
    entry is the number of its line. In running text a sentence is an entry.

    file (InputPiece): The file, or a part of it.
    reader (Optional[DocReader]): Splits running text; None if there is none.
    YIELDS (TextEntry): An entry.
    RAISES (ValueError): The file cannot be read.
    """
    for chunk in chunks_of(file, by_paragraph=reader is not None):
        lines, callback = lines_of(chunk), partial(refuse, file)
        with nullcontext() if reader is None else reader.nlp.memory_zone():
            numbered = sentences_of_lines(
                lines, False, reader is not None, lambda: reader, callback
            )
            entries = [sentence(words) for _, words in numbered]
        yield from entries


def read_records(file: InputPiece, reader: DocReader) -> Iterator[TextEntry]:
    """Read a `.jsonl` file. A line is an entry.

    Its `tokens` are one sentence; its `text` is a Doc of the pipeline.

    file (InputPiece): The file, or a part of it.
    reader (DocReader): Makes the Docs.
    YIELDS (TextEntry): An entry.
    RAISES (ValueError): The file cannot be read.
    """
    for chunk in chunks_of(file, by_paragraph=False):
        with reader.nlp.memory_zone():
            entries = [
                _record(file, number, line, reader)
                for number, line in lines_of(chunk)
                if line.strip()
            ]
        yield from entries


def _record(file: InputPiece, number: int, line: bytes, reader: DocReader) -> TextEntry:
    try:
        content = read_record(line.decode("utf8"))
        if isinstance(content, str):
            return reader.read(content)
        if any(map(has_half_a_pair, content)):
            raise ValueError("'tokens' hold half a surrogate pair, which cannot be written")
    except ValueError as error:
        refuse(file, number, str(error))
    return sentence(content)


def read_tsv(
    file: InputPiece, column: str, reader: DocReader, *, tokenize: bool
) -> Iterator[TextEntry]:
    """Read a column of a tab-separated file. Quotes have no meaning.

    A row is an entry, even if its text is empty: tokens separated by spaces, or a Doc of the
    pipeline.

    file (InputPiece): The file, or a part of it.
    column (str): The column's name, which is in the first line; or its number, from 1. With a
        number the first line is an entry, too.
    reader (DocReader): Makes the Docs.
    tokenize (bool): Whether it contains running text.
    YIELDS (TextEntry): An entry.
    RAISES (ValueError): There is no such column, or the file cannot be read.
    """
    place = _place(column)
    for chunk in chunks_of(file, by_paragraph=False):
        with reader.nlp.memory_zone():
            entries = []
            for number, line in lines_of(chunk):
                cells = decode(file, number, line).split("\t")
                if place is None:
                    place = _find(file, number, cells, column)
                    continue
                text = _cell(file, number, cells, place).strip()
                entries.append(reader.read(text) if tokenize else sentence(text.split()))
        yield from entries


def read_conll(file: InputPiece, column: Optional[str]) -> Iterator[TextEntry]:
    """Read a file with a word a line, as in CoNLL's shared tasks.

    Columns are separated by tabs or else by spaces, sentences by empty lines.

    file (InputPiece): The file, or a part of it.
    column (Optional[str]): Number of the column of words, from 1; None for the first.
    YIELDS (TextEntry): A sentence.
    RAISES (ValueError): A line has no such column, or the file cannot be read.
    """
    place = _place(column or "1")
    if place is None:
        raise ValueError(
            f"{file}: columns of .conll files have numbers, from 1, not '{column}'. Set `column` "
            f"to a number."
        )

    def words_of(number: int, line: str) -> list[str]:
        if line.startswith(DOCUMENT) or COMMENT.match(line):
            return []
        # Other white space is part of a word, such as U+00A0 in the French number "10 000".
        cells = line.split("\t") if "\t" in line else SPACES.split(line.strip(" "))
        return [_cell(file, number, cells, place).strip(" ")]

    return _sentences(file, words_of)


def read_conllu(file: InputPiece) -> Iterator[TextEntry]:
    """Read a CoNLL-U file (universaldependencies.org/format.html).

    Tokens are its words, whose ids are numbers. Multiword tokens and empty nodes are left out.

    file (InputPiece): The file, or a part of it.
    YIELDS (TextEntry): A sentence.
    RAISES (ValueError): It is not such a file.
    """

    def words_of(number: int, line: str) -> list[str]:
        if line.startswith("#"):
            return []
        cells = line.split("\t")
        is_word = cells[0].isdecimal()
        if len(cells) != CELLS or not (is_word or cells[0].replace(".", "-").count("-") == 1):
            refuse(file, number, f"not CoNLL-U, which has {CELLS} columns, the first one an id")
        return [cells[1]] if is_word else []

    return _sentences(file, words_of)


def _sentences(file: InputPiece, words_of: Callable[[int, str], list[str]]) -> Iterator[TextEntry]:
    """Collect the words of lines into sentences, which are separated by empty lines."""
    words: list[str] = []
    for chunk in chunks_of(file, by_paragraph=True):
        for number, line in lines_of(chunk):
            text = decode(file, number, line)
            if text.strip():
                words += words_of(number, text)
            elif words:
                yield sentence(words)
                words = []
    if words:
        yield sentence(words)


def column_number(file: InputPiece, line: bytes, column: str) -> str:
    """Find the number of the text column of a `.tsv` file, for parts without the first line.

    file (InputPiece): The file.
    line (bytes): Its first line.
    column (str): The column's name in this line, or its number, from 1.
    RETURNS (str): Its number.
    RAISES (ValueError): There is no such column.
    """
    if _place(column) is not None:
        return column
    return str(_find(file, 1, decode(file, 1, line).split("\t"), column) + 1)


def _place(column: str) -> Optional[int]:
    return int(column) - 1 if column.isdecimal() and int(column) else None


def _find(file: InputPiece, number: int, names: list[str], column: str) -> int:
    if column not in names:
        refuse(file, number, f"no column '{column}', but {listed(names)}. Set `column` to one")
    return names.index(column)


def _cell(file: InputPiece, number: int, cells: list[str], place: int) -> str:
    if place >= len(cells):
        refuse(file, number, f"no column {place + 1}: the line has {len(cells)}")
    return cells[place]
