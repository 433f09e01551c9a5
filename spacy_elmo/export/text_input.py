"""Readers of text, JSON lines, TSV and CoNLL-U. They read one chunk of lines at a time."""

import re
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from typing import Optional, Union

from ..files.errors import listed
from ..files.input_files import decode
from ..text.chunks import Chunk, ChunkReader
from ..text.reading import has_half_a_pair, read_record, refuse, sentences_of_lines
from .doc_reader import DocReader
from .entries import TextEntry, sentence
from .pieces import InputPiece

# Number of the line in which an entry begins, and the entry.
NumberedEntries = Iterator[tuple[int, TextEntry]]

CHUNK_SIZE = 1 << 17  # Bytes that are read at a time.
CELLS = 10  # Number of columns in CoNLL-U.
NO_WORD = re.compile(r"\d+[-.]\d+")  # Id of a multiword token or an empty node.


def chunks_of(file: InputPiece, *, by_paragraph: bool) -> Iterator[Chunk]:
    """Read a text file or a `.gz` file in chunks of whole lines.

    file (InputPiece): The file, or a part of it.
    by_paragraph (bool): Whether a chunk ends at an empty line, if it contains one.
    YIELDS (Chunk): Some lines.
    RAISES (ValueError): The file is empty, or cannot be read to its end.
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


def decode_line(file: InputPiece, number: int, line: bytes) -> str:
    """Decode line `number` of a file, and remove a carriage return at its end.

    RAISES (ValueError): The line is not UTF-8.
    """
    try:
        return decode(line).rstrip("\r")
    except ValueError as error:
        refuse(file, number, str(error))


def read_text(file: InputPiece, reader: Optional[DocReader]) -> NumberedEntries:
    """Read a text file.

    Without a reader, each line is an entry, with tokens separated by spaces. Empty lines are
    entries, too, so entries have the numbers of their lines. With a reader, the file contains
    running text, and each sentence is an entry.

    file (InputPiece): The file, or a part of it.
    reader (Optional[DocReader]): Splits running text into sentences and tokens.
    YIELDS (Tuple[int, TextEntry]): Line number and entry.
    RAISES (ValueError): The file cannot be read.
    """
    for chunk in chunks_of(file, by_paragraph=reader is not None):
        lines, callback = lines_of(chunk), partial(refuse, file)
        with nullcontext() if reader is None else reader.nlp.memory_zone():
            found = sentences_of_lines(lines, False, reader is not None, lambda: reader, callback)
            entries = [(number, sentence(words)) for number, words in found]
        yield from entries


def read_records(file: InputPiece, reader: DocReader) -> NumberedEntries:
    """Read a `.jsonl` file. A line is an entry.

    A line with `tokens` is a sentence. A line with `text` is a Doc that the pipeline makes.

    file (InputPiece): The file, or a part of it.
    reader (DocReader): Converts text to entries.
    YIELDS (Tuple[int, TextEntry]): Line number and entry.
    RAISES (ValueError): The file cannot be read.
    """
    for chunk in chunks_of(file, by_paragraph=False):
        with reader.nlp.memory_zone():
            lines = [(number, line) for number, line in lines_of(chunk) if line.strip()]
            entries = [(number, _record(file, number, line, reader)) for number, line in lines]
        yield from entries


def _record(file: InputPiece, number: int, line: bytes, reader: DocReader) -> TextEntry:
    content = _content(file, number, line)
    if not isinstance(content, str):
        return sentence(content)
    try:
        return reader.read(content)
    except ValueError as error:
        refuse(file, number, str(error))


def _content(file: InputPiece, number: int, line: bytes) -> Union[str, list[str]]:
    text = decode_line(file, number, line)
    try:
        content = read_record(text)
        if not isinstance(content, str) and any(map(has_half_a_pair, content)):
            raise ValueError(
                "'tokens' contain a lone surrogate, which cannot be written. Remove it"
            )
    except ValueError as error:
        refuse(file, number, str(error))
    return content


def read_tsv(
    file: InputPiece, column: str, reader: DocReader, *, is_running: bool
) -> NumberedEntries:
    """Read a column of a tab-separated file. Quotes are plain characters.

    A row is an entry, even if its text is empty.

    file (InputPiece): The file, or a part of it.
    column (str): Name of the column in the first line, or number of the column, from 1. With a
        number, the first line is an entry, too.
    reader (DocReader): Converts text to entries.
    is_running (bool): Whether the column contains running text. Otherwise spaces separate tokens.
    YIELDS (Tuple[int, TextEntry]): Line number and entry.
    RAISES (ValueError): The column is missing, or the file cannot be read.
    """
    place = place_of(column)
    for chunk in chunks_of(file, by_paragraph=False):
        with reader.nlp.memory_zone():
            entries = []
            for number, line in lines_of(chunk):
                cells = decode_line(file, number, line).split("\t")
                if place is None:
                    place = _find(file, number, cells, column)
                    continue
                text = cell_of(file, number, cells, place).strip()
                entry = reader.read(text) if is_running else sentence(text.split())
                entries.append((number, entry))
        yield from entries


def read_conllu(file: InputPiece) -> NumberedEntries:
    """Read a CoNLL-U file (universaldependencies.org/format.html).

    The tokens of a sentence are its lines with a whole number as id. Multiword tokens and empty
    nodes are left out.

    file (InputPiece): The file, or a part of it.
    YIELDS (Tuple[int, TextEntry]): Number of a sentence's first line, and the sentence.
    RAISES (ValueError): The file is not in CoNLL-U.
    """
    words: list[str] = []
    first = 0
    for chunk in chunks_of(file, by_paragraph=True):
        for number, line in lines_of(chunk):
            text = decode_line(file, number, line)
            if text.strip():
                first = first if words else number
                words += _words_of(file, number, text, is_first=not words)
            elif words:
                yield first, sentence(words)
                words = []
    if words:
        yield first, sentence(words)


def _words_of(file: InputPiece, number: int, line: str, *, is_first: bool) -> list[str]:
    """Return the word of a line of CoNLL-U; empty if the line contains no word."""
    if line.startswith("#"):
        return []
    cells = line.split("\t")
    is_word = cells[0].isdecimal()
    if len(cells) != CELLS or not (is_word or NO_WORD.fullmatch(cells[0])):
        refuse(file, number, f"not CoNLL-U. A line has {CELLS} columns, first an id")
    if cells[0] == "1" and not is_first:
        refuse(file, number, "the id is 1 again. Put an empty line before each sentence")
    return [cells[1]] if is_word else []


def column_number(file: InputPiece, line: bytes, column: str) -> str:
    """Return the number of the text column of a `.tsv` file, for parts without the first line.

    file (InputPiece): The file.
    line (bytes): First line of the file.
    column (str): Name of the column in this line, or number of the column, from 1.
    RETURNS (str): Number of the column.
    RAISES (ValueError): The column is missing.
    """
    if place_of(column) is not None:
        return column
    return str(_find(file, 1, decode_line(file, 1, line).split("\t"), column) + 1)


def place_of(column: str) -> Optional[int]:
    """Return the index of a column that is given as a number from 1; None for a name."""
    return int(column) - 1 if column.isdecimal() and int(column) else None


def _find(file: InputPiece, number: int, names: list[str], column: str) -> int:
    if column not in names:
        refuse(file, number, f"no column '{column}', but {listed(names)}. Set `column` to one")
    if names.count(column) > 1:
        refuse(file, number, f"several columns have the name '{column}'. Set `column` to a number")
    return names.index(column)


def cell_of(file: InputPiece, number: int, cells: list[str], place: int) -> str:
    """Return the content of a column.

    RAISES (ValueError): The line has no such column.
    """
    if place >= len(cells):
        problem = f"no column {place + 1}: the line has {len(cells)} columns"
        if cells == [""]:
            problem += ". If the file has one word per line, its name must end in .conll"
        refuse(file, number, problem)
    return cells[place]
