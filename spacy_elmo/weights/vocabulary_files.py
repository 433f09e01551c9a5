"""Text files of vocabularies: bilm-tf's `vocab.txt` and ELMoForManyLangs' `.dic`."""

import gzip
import zlib
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Optional

from ..files.errors import listed, named_errors
from ..files.input_files import decode
from ..model.vocabulary import InputVocabulary, fits_a_line
from .archives import File, read_bytes
from .limits import LARGEST_LINE, SMALL

VOCABULARY_FILE = "vocab.txt"
PACKED = ".gz"
BYTE_ORDER_MARK = "\ufeff"
# This line in some vocabularies of bilm-tf is not a word.
NO_WORD = "!!!MAXTERMID"
# If a line has no token, ELMoForManyLangs reads this token.
WHITE_SPACE = "\u3000"


def read_vocab(file: File, n_rows: int) -> InputVocabulary:
    """Read a `vocab.txt`. It has one token per line, in the order of ids.

    A repeated token has the id of its last line.

    n_rows (int): Number of rows of the embedding.
    RAISES (ValueError): The file is not UTF-8, or has more than `2 * n_rows` lines.
    """
    return _last_ones(read_words(file, 2 * n_rows))


def read_words(file: File, max_lines: int) -> list[str]:
    """Read all words of a `vocab.txt`, including repeated ones. See `read_lines`."""
    words = [line.strip() for line in read_lines(file, max_lines)]
    return [word for word in words if word != NO_WORD]


def read_dic(file: File, n_rows: int, tensor: str) -> InputVocabulary:
    """Read a `.dic` file, which has one `token<TAB>id` per line.

    If a line has no token, its token is the ideographic space U+3000.

    n_rows (int): Number of rows of the embedding.
    tensor (str): Name of the embedding in error messages.
    RAISES (ValueError): A line is broken, or the ids do not match the embedding.
    """
    lines = read_lines(file, n_rows)
    hint = f"{tensor} has {n_rows} rows. Is this the {file.name} of another model?"
    if len(lines) != n_rows:
        raise ValueError(f"{file}: {len(lines)} entries, but {hint}")
    tokens: list[Optional[str]] = [None] * n_rows
    for number, line in enumerate(lines, start=1):
        token, found, digits = line.strip().rpartition("\t")
        # No model has a billion words, and `int` refuses thousands of digits with another error.
        if not digits.isascii() or not digits.isdigit() or "\t" in token or len(digits) > 9:
            raise ValueError(f"{file}: line {number} is not 'token<TAB>id'")
        row = int(digits)
        if row >= n_rows:
            raise ValueError(f"{file}: line {number} has the id {row}, but {hint}")
        if tokens[row] is not None:
            raise ValueError(f"{file}: line {number} repeats the id {row} of an earlier line")
        tokens[row] = token if found else WHITE_SPACE
    return _last_ones(tokens)


def vocab_content(vocabulary: InputVocabulary) -> str:
    """Return the content of a `vocab.txt`.

    RAISES (ValueError): bilm-tf would read a word as another word.
    """
    return "".join(f"{word}\n" for word in _fitting(vocabulary, VOCABULARY_FILE, _fits_vocab))


def dic_content(vocabulary: InputVocabulary, name: str) -> str:
    """Return the content of a `.dic` file, in the order of ids.

    RAISES (ValueError): ELMoForManyLangs would read a token as another token.
    """
    tokens = _fitting(vocabulary, name, _fits_dic)
    return "".join(f"{token}\t{i}\n" for i, token in enumerate(tokens))


def read_lines(file: File, max_lines: int) -> list[str]:
    """Read the lines of a text file, unless it is too long.

    file (Union[Path, zipfile.Path]): A `.gz` file is unpacked.
    RETURNS (List[str]): Without a byte order mark.
    RAISES (ValueError): The file is not UTF-8, or too long.
    """
    max_bytes = largest_text(max_lines)
    content = read_bytes(file, max_bytes)
    if file.name.endswith(PACKED):
        with named_errors(f"{file}: not a readable gzip file", (OSError, EOFError, zlib.error)):
            content = gzip.GzipFile(fileobj=BytesIO(content)).read(max_bytes + 1)
        if len(content) > max_bytes:
            raise ValueError(f"{file}: unpacks to more than {max_bytes:,} bytes")
    # Count first, because a list of short lines needs many times the memory of the text.
    n_lines = content.count(b"\n") + (not content.endswith(b"\n"))
    if n_lines > max_lines + 1:
        raise ValueError(f"{file}: {n_lines:,} entries, expected at most {max_lines:,}")
    with named_errors(file):
        lines = decode(content).split("\n")
    # If the mark is the whole token of the first line, it is not a byte order mark.
    if lines[0].startswith(BYTE_ORDER_MARK) and lines[0][1:2] not in ("", "\t"):
        lines[0] = lines[0].removeprefix(BYTE_ORDER_MARK)
    return lines[:-1] if lines[-1] == "" else lines


def largest_text(n_strings: int) -> int:
    """Return the maximum size, in bytes, of a vocabulary of `n_strings` words or characters."""
    return SMALL + LARGEST_LINE * n_strings


def _fitting(vocabulary: InputVocabulary, name: str, fits: Callable[[str], bool]) -> list[str]:
    """Return the string to write for each id. Raise a ValueError if a string does not fit."""
    strings = vocabulary.strings
    wrong = [string for string in strings if string is not None and not fits(string)]
    if wrong:
        raise ValueError(
            f"{name} cannot store {listed(list(map(repr, wrong)))}, which would be read as other "
            f"words. Convert to NAME.safetensors or a pipeline"
        )
    last = strings[-1]
    if last is None:
        raise ValueError(f"{name} needs a token for every id, but the last id has none")
    # An id without a string is never used. Its line can repeat the last string, because readers use
    # the last id of a string.
    return [last if string is None else string for string in strings]


def _fits_vocab(word: str) -> bool:
    return fits_a_line(word) and word == word.strip() and word != NO_WORD


def _fits_dic(token: str) -> bool:
    # ELMoForManyLangs splits lines like `str.splitlines`, and removes white space before a token.
    is_stripped = token == WHITE_SPACE or token == token.lstrip()
    is_line = token.splitlines() == [token] and "\t" not in token
    return fits_a_line(token) and is_stripped and is_line


def _last_ones(tokens: Sequence[Optional[str]]) -> InputVocabulary:
    """Make a vocabulary from the token of each id.

    A token with several ids keeps only the last id, as in bilm-tf and ELMoForManyLangs.
    """
    last = {token: row for row, token in enumerate(tokens)}
    strings = [token if last[token] == row else None for row, token in enumerate(tokens)]
    return InputVocabulary(strings)
