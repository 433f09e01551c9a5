"""Reader of files with one word per line, as in CoNLL's shared tasks.

No standard says how a comment looks in such a file, and "#" is also a word. A list of the comments
of known corpora lost against GermEval 2014 (`#<TAB>http://...`): each unknown comment became a
sentence. So the columns decide: a line that begins with "#" directly after an empty line, and has
another number of columns than the next line, is a comment. Markup such as `<s>` is treated in the
same way, also directly before an empty line. If a line can be a comment or a word, reading ends
with an error, because an additional word would shift the vectors of all later sentences.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Optional

from ..text.reading import SHOWN, refuse
from .entries import TextEntry, sentence
from .pieces import InputPiece
from .text_input import NO_WORD, cell_of, chunks_of, decode_line, lines_of, place_of

DOCUMENT = "-DOCSTART-"  # First word of the lines between documents in CoNLL-2003.
# Comments of CoNLL-2012, CoNLL-U and MultiCoNER. They are comments with any number of columns.
KNOWN = re.compile(r"#(begin|end) document|# (newdoc|newpar|id|\S+ =)(\s|$)")
MARKUP = re.compile(r"</?\w[^<>]*>")
SPACES = re.compile(" +")
LETTERS = re.compile(r"[^\W\d_]*")

Lines = Sequence[tuple[int, str]]


def read_conll(file: InputPiece, column: Optional[str]) -> Iterator[tuple[int, TextEntry]]:
    """Read a file with one word per line, as in CoNLL's shared tasks.

    Tabs separate columns; without a tab, spaces do. Empty lines separate sentences. Comments are
    left out.

    file (InputPiece): The file, or a part of it.
    column (Optional[str]): Number of the word column, from 1. Default: the first column. If the
        first column contains ids, multiword tokens and empty nodes are left out, as in CoNLL-U.
    YIELDS (Tuple[int, TextEntry]): Number of a sentence's first line, and the sentence.
    RAISES (ValueError): The column is missing in a line, or not set although the first column
        contains ids; a line can be a comment or a word; or the file cannot be read.
    """
    place = place_of(column or "1")
    if place is None:
        raise ValueError(
            f"{file}: columns of .conll files have numbers, from 1, not '{column}'. Set `column` "
            f"to a number."
        )
    words_of = _BlockReader(file, None if column is None else place)
    for block in _blocks(file):
        words = words_of(block)
        if words:
            yield words[0][0], sentence([word for _, word in words])


def _blocks(file: InputPiece) -> Iterator[list[tuple[int, str]]]:
    """Yield the lines between two empty lines, with their numbers."""
    block: list[tuple[int, str]] = []
    for chunk in chunks_of(file, by_paragraph=True):
        for number, line in lines_of(chunk):
            text = decode_line(file, number, line)
            if text.strip(" \t"):  # A line of other white space, such as U+00A0, is a word.
                block.append((number, text))
            elif block:
                yield block
                block = []
    if block:
        yield block


class _BlockReader:
    """Function that returns the words of a block of lines with their line numbers.

    file (InputPiece): The file.
    place (Optional[int]): Index of the column with the words. Default: the first column.
    """

    def __init__(self, file: InputPiece, place: Optional[int]):
        self.file = file
        self.is_default = place is None
        self.place = place or 0

    @cached_property
    def first_word_line(self) -> Optional[str]:
        """First line of the whole file that cannot be a comment.

        Blocks of lines with "#" are compared with it, so that the result does not depend on where
        the plan cuts the file.
        """
        for block in _blocks(InputPiece(self.file.source)):
            for _, line in block:
                if not _is_special(line) and not line.startswith(DOCUMENT):
                    return line
        return None

    def __call__(self, block: Lines) -> list[tuple[int, str]]:
        lines = [
            (number, line)
            for number, line in block
            if not line.startswith(DOCUMENT) and not KNOWN.match(line)
        ]
        if not lines:
            return []
        sure = [i for i, (_, line) in enumerate(lines) if not _is_special(line)]
        like = lines[sure[0]][1] if sure else self.first_word_line or lines[-1][1]
        first, last = (sure[0], sure[-1]) if sure else (len(lines), -1)
        rows = []
        for i, (number, line) in enumerate(lines):
            cells = _cells(line, like)
            if _is_special(line):
                is_outside = i < first or (i > last and line[0] == "<")
                if _n_columns(cells) != _n_columns(_cells(like, like)):
                    if is_outside:
                        continue
                    self._refuse(number, line)
                if (is_outside or line[0] == "<") and self._is_doubtful(line, like):
                    self._refuse(number, line)
            rows.append((number, cells))
        return [
            (number, cell_of(self.file, number, cells, self.place).strip(" "))
            for number, cells in self._without_other_ids(rows)
        ]

    def _without_other_ids(self, rows: list[tuple[int, list[str]]]) -> list[tuple[int, list[str]]]:
        """Return the rows of words. If rows have ids, those of other units are left out.

        RAISES (ValueError): The rows have ids, and the column is not set.
        """
        words = [(number, cells) for number, cells in rows if not NO_WORD.fullmatch(cells[0])]
        numbers = list(map(str, range(1, len(words) + 1)))
        if not words or [cells[0] for _, cells in words] != numbers:
            return rows
        number, cells = words[0]
        if self.is_default and len(words) > 1 and len(cells) > 1:
            refuse(
                self.file,
                number,
                "the first column contains numbers, not words. Set `column` to the number of the "
                "column of the words, such as 2",
            )
        return words if self.place else rows

    def _is_doubtful(self, line: str, like: str) -> bool:
        """Return whether a line with as many columns as a line of a word may be a comment.

        Tags mostly begin like other tags in their column: `NN` or `B-PER`, but not `sent_id=1`.

        line (str): The line.
        like (str): A line that contains a word.
        """
        cells, others = _cells(line, like), _cells(like, like)
        if MARKUP.fullmatch(line.strip()):
            # Other markup without attributes can be a word, such as `<user>`.
            return len(cells) > 1 or cells[0].lower() in ("<s>", "</s>")
        if self.place and (others[0].isdecimal() or NO_WORD.fullmatch(others[0])):
            return True
        pairs = zip(map(_letter_case, cells[1:]), map(_letter_case, others[1:]))
        return any(
            mine != other and (mine in ("lower", "digit") or (mine, other) == ("title", "upper"))
            for mine, other in pairs
        )

    def _refuse(self, number: int, line: str) -> None:
        refuse(
            self.file,
            number,
            f"{line.strip()[:SHOWN]!r} may be a comment or a word. Delete a comment; if it is a "
            f"word, write the sentences as 'tokens' in a .jsonl file",
        )


def _is_special(line: str) -> bool:
    """Return whether a line may be a comment or markup."""
    return line.startswith("#") or MARKUP.fullmatch(line.strip()) is not None


def _cells(line: str, like: str) -> list[str]:
    """Cut a line into columns.

    A comment has other separators than words. So a line that may be a comment is cut like a word.

    line (str): The line.
    like (str): A line that contains a word.
    """
    # Other white space is part of a word, such as U+00A0 in the French number "10 000".
    has_tabs = "\t" in (like if _is_special(line) else line)
    return line.split("\t") if has_tabs else SPACES.split(line.strip(" "))


def _n_columns(cells: Sequence[str]) -> int:
    """Return the number of columns. Empty ones at the end do not count: a line may end in a tab."""
    return max((i for i, cell in enumerate(cells, 1) if cell.strip()), default=0)


def _letter_case(cell: str) -> str:
    """Return the kind of a cell's first character, and whether all first letters are upper case."""
    letters = LETTERS.match(cell.strip())
    if letters is None or not letters[0]:
        return "digit" if cell.strip()[:1].isdecimal() else "other"
    return "lower" if letters[0][0].islower() else "upper" if letters[0].isupper() else "title"
