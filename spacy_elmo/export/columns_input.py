"""Tables of text: tab-separated files, a text a row, and CoNLL's files, a word a row."""

import re
from collections.abc import Callable, Iterator
from typing import Optional

from ..frozen.config import listed
from ..text.reading import refuse
from .entries import Entry, sentence
from .making import DocMaker
from .pieces import Piece
from .text_input import Progress, chunks_of, decode, lines_of

DOCUMENT = "-DOCSTART-"  # begins the lines of CoNLL-2003 that are no words
CELLS = 10  # of a line of CoNLL-U
SPACES = re.compile(" +")
# Comments of CoNLL-2012, CoNLL-U and MultiCoNER. Other lines that begin with "#" are words.
COMMENT = re.compile(r"#(begin|end) document|# (newdoc|newpar|id|\S+ =)(\s|$)")


def read_tsv(
    file: Piece, column: str, maker: DocMaker, progress: Progress, *, tokenize: bool
) -> Iterator[Entry]:
    """Read a column of a tab-separated file; quotes have no meaning. A row is an entry, also
    where its text is empty: tokens separated by spaces, or a Doc as the pipeline reads it.

    file (Piece): The file, or a part of it.
    column (str): The column's name, which the first line has then; or its number, from 1,
        and then the first line is a row like all.
    maker (DocMaker): Makes the Docs.
    progress (Callable[[int], object]): Told how many bytes more were read.
    tokenize (bool): Whether it holds running text.
    YIELDS (Entry): An entry.
    RAISES (ValueError): There is no such column, or the file cannot be read.
    """
    place = _place(column)
    for chunk in chunks_of(file, progress, by_paragraph=False):
        with maker.nlp.memory_zone():
            entries = []
            for number, line in lines_of(chunk):
                cells = decode(file, number, line).split("\t")
                if place is None:
                    place = _find(file, number, cells, column)
                    continue
                text = _cell(file, number, cells, place).strip()
                entries.append(maker.read(text) if tokenize else sentence(text.split()))
        yield from entries


def read_conll(file: Piece, column: Optional[str], progress: Progress) -> Iterator[Entry]:
    """Read a file of columns, a word a line, as of CoNLL's shared tasks: separated by tabs, or
    else by spaces; empty lines stand between sentences.

    file (Piece): The file, or a part of it.
    column (Optional[str]): Number of the column of words, from 1; None for the first.
    progress (Callable[[int], object]): Told how many bytes more were read.
    YIELDS (Entry): A sentence.
    RAISES (ValueError): A line has no such column, or the file cannot be read.
    """
    place = _place(column or "1")
    if place is None:
        raise ValueError(f"{file}: columns of .conll files have numbers, from 1, not '{column}'")

    def words_of(number: int, line: str) -> list[str]:
        if line.startswith(DOCUMENT) or COMMENT.match(line):
            return []
        # Other white space is part of a word, such as U+00A0 in "10 000" of French numbers.
        cells = line.split("\t") if "\t" in line else SPACES.split(line.strip(" "))
        return [_cell(file, number, cells, place).strip(" ")]

    return _sentences(file, words_of, progress)


def read_conllu(file: Piece, progress: Progress) -> Iterator[Entry]:
    """Read a file of CoNLL-U (universaldependencies.org/format.html). Tokens are its words, with
    numbers as ids: what stands for several words, and words that are not in the text, are left
    out.

    file (Piece): The file, or a part of it.
    progress (Callable[[int], object]): Told how many bytes more were read.
    YIELDS (Entry): A sentence.
    RAISES (ValueError): It is no such file.
    """

    def words_of(number: int, line: str) -> list[str]:
        if line.startswith("#"):
            return []
        cells = line.split("\t")
        is_word = cells[0].isdecimal()
        if len(cells) != CELLS or not (is_word or cells[0].replace(".", "-").count("-") == 1):
            refuse(file, number, f"no line of CoNLL-U, which has {CELLS} columns, the first an id")
        return [cells[1]] if is_word else []

    return _sentences(file, words_of, progress)


def _sentences(
    file: Piece, words_of: Callable[[int, str], list[str]], progress: Progress
) -> Iterator[Entry]:
    """Sentences of the words of lines, with empty lines between them."""
    words: list[str] = []
    for chunk in chunks_of(file, progress, by_paragraph=True):
        for number, line in lines_of(chunk):
            text = decode(file, number, line)
            if text.strip():
                words += words_of(number, text)
            elif words:
                yield sentence(words)
                words = []
    if words:
        yield sentence(words)


def column_number(file: Piece, line: bytes, column: str) -> str:
    """Find the column of text of a `.tsv` file, for parts of it without its first line.

    file (Piece): The file.
    line (bytes): Its first line.
    column (str): The column's name, which stands in this line, or its number, from 1.
    RETURNS (str): Its number.
    RAISES (ValueError): There is no such column.
    """
    if _place(column) is not None:
        return column
    return str(_find(file, 1, decode(file, 1, line).split("\t"), column) + 1)


def _place(column: str) -> Optional[int]:
    return int(column) - 1 if column.isdecimal() and int(column) else None


def _find(file: Piece, number: int, names: list[str], column: str) -> int:
    if column not in names:
        refuse(file, number, f"no column '{column}', but {listed(names)}; or its number, from 1")
    return names.index(column)


def _cell(file: Piece, number: int, cells: list[str], place: int) -> str:
    if place >= len(cells):
        refuse(file, number, f"no column {place + 1}: the line has {len(cells)}")
    return cells[place]
