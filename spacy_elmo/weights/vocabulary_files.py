"""Vocabularies as text: bilm-tf's `vocab.txt` and ELMoForManyLangs' `.dic`."""

import gzip
import zlib
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Optional

from ..bilm.vocabulary import InputVocabulary
from ..files.errors import named_errors
from .archives import File, read_bytes
from .limits import LARGEST_LINE, SMALL

VOCABULARY_FILE = "vocab.txt"
PACKED = ".gz"
BYTE_ORDER_MARK = "\ufeff"
# A line of its own in some of bilm-tf's vocabularies, which is no word.
NO_WORD = "!!!MAXTERMID"
# What ELMoForManyLangs reads a line as whose token is white space.
WHITE_SPACE = "\u3000"


def read_vocab(file: File, n_rows: int) -> InputVocabulary:
    """Read a `vocab.txt`: a token a line, in the order of their ids.

    file (Union[Path, zipfile.Path]): The file.
    n_rows (int): Rows of the embedding that the ids belong to.
    RETURNS (InputVocabulary): The vocabulary.
    RAISES (ValueError): It is not UTF-8, or much too long.
    """
    return _last_ones(read_words(file, 2 * n_rows))


def read_words(file: File, max_lines: int) -> list[str]:
    """RETURNS (List[str]): All lines of a `vocab.txt`, those of a word that stands twice as well:
    a row of the table each. As `read_lines`."""
    words = [line.strip() for line in read_lines(file, max_lines)]
    return [word for word in words if word != NO_WORD]


def read_dic(file: File, n_rows: int, tensor: str) -> InputVocabulary:
    """Read a `.dic`: `token<TAB>id` in each line. A line with the id alone is a
    white-space token.

    file (Union[Path, zipfile.Path]): The file.
    n_rows (int): Rows of the embedding that the ids belong to.
    tensor (str): Its name in messages.
    RETURNS (InputVocabulary): The vocabulary.
    RAISES (ValueError): A line is broken, or the ids are not those of the embedding.
    """
    return _parse_dic(read_lines(file, n_rows), file, n_rows, tensor)


def write_dic(vocabulary: InputVocabulary, path: Path) -> None:
    """Write a `.dic`, by rising ids.

    vocabulary (InputVocabulary): The vocabulary.
    path (Path): The file.
    RAISES (ValueError): A token cannot stand in a line of it.
    """
    # An id whose token has a later one, too, is never used: any such token will do.
    last = vocabulary.strings[-1]
    lines = [f"{last if s is None else s}\t{i}" for i, s in enumerate(vocabulary.strings)]
    for row, token in enumerate(vocabulary.strings):
        if token is not None and not _fits_dic(token):
            raise ValueError(f"{path.name} has no place for the token {token!r} of id {row}")
    if _parse_dic(lines, path, len(lines), "the embedding").strings != vocabulary.strings:
        raise ValueError(f"{path.name} needs a token for every id, and the last one has none")
    path.write_text("".join(f"{line}\n" for line in lines), "utf8", newline="\n")


def read_lines(file: File, max_lines: int) -> list[str]:
    """Read a text, not beyond what it can be.

    file (Union[Path, zipfile.Path]): The file; one that ends in `.gz` is unpacked.
    max_lines (int): Most lines that it may have.
    RETURNS (List[str]): Its lines, without a byte order mark.
    RAISES (ValueError): It is not UTF-8, or too long.
    """
    content = read_bytes(file, largest_text(max_lines))
    if file.name.endswith(PACKED):
        content = _unpacked(content, file, largest_text(max_lines))
    n_lines = content.count(b"\n") + (not content.endswith(b"\n"))
    if n_lines > max_lines + 1:
        raise ValueError(f"{file}: {n_lines:,} entries, where there are {max_lines:,} at most")
    with named_errors(f"{file}: not UTF-8"):
        lines = content.decode("utf8").split("\n")
    # Where nothing or a tab follows, the character is an entry of the vocabulary.
    if lines[0].startswith(BYTE_ORDER_MARK) and lines[0][1:2] not in ("", "\t"):
        lines[0] = lines[0].removeprefix(BYTE_ORDER_MARK)
    return lines[:-1] if lines[-1] == "" else lines


def _unpacked(content: bytes, file: File, max_bytes: int) -> bytes:
    with named_errors(f"{file}: not a readable gzip file", (OSError, EOFError, zlib.error)):
        unpacked = gzip.GzipFile(fileobj=BytesIO(content)).read(max_bytes + 1)
    if len(unpacked) > max_bytes:
        raise ValueError(f"{file}: unpacks to more than {max_bytes:,} bytes")
    return unpacked


def largest_text(n_strings: int) -> int:
    """RETURNS (int): Most bytes of so many strings."""
    return SMALL + LARGEST_LINE * n_strings


def _fits_dic(token: str) -> bool:
    """Whether a token is read as what it is: white space around it is not, and half a
    surrogate pair cannot be written."""
    is_utf8 = not any("\ud800" <= c <= "\udfff" for c in token)
    is_stripped = token == WHITE_SPACE or (token != "" and token == token.lstrip())
    return is_utf8 and is_stripped and not set(token) & {"\t", "\n"}


def _parse_dic(lines: Sequence[str], file: File, n_rows: int, tensor: str) -> InputVocabulary:
    hint = f"{tensor} has {n_rows} rows. Is this the {file.name} of another model?"
    if len(lines) != n_rows:
        raise ValueError(f"{file}: {len(lines)} entries, but {hint}")
    tokens: list[Optional[str]] = [None] * n_rows
    for number, line in enumerate(lines, start=1):
        token, found, digits = line.strip().rpartition("\t")
        if not digits.isascii() or not digits.isdigit() or "\t" in token or len(digits) > 9:
            raise ValueError(f"{file}: line {number} is not 'token<TAB>id'")
        row = int(digits)
        if row >= n_rows:
            raise ValueError(f"{file}: line {number} has the id {row}, but {hint}")
        if tokens[row] is not None:
            raise ValueError(f"{file}: line {number} has the id {row}, as a line before it has")
        tokens[row] = token if found else WHITE_SPACE
    return _last_ones(tokens)


def _last_ones(tokens: Sequence[Optional[str]]) -> InputVocabulary:
    """Where a token has several ids the last one is used, as in both programs."""
    last = {token: row for row, token in enumerate(tokens)}
    return InputVocabulary(
        [token if last[token] == row else None for row, token in enumerate(tokens)]
    )
