"""Input files: text in UTF-8, Docs of `.spacy` files, and checksums."""

import codecs
import hashlib
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .compression import UNPACK_ERRORS, compression_of, is_broken, not_text, unpack
from .errors import named_errors

if TYPE_CHECKING:
    from spacy.tokens import Doc
    from spacy.vocab import Vocab

MAX_LINE = 1 << 24  # Maximum bytes of a line. Several copies of a line must fit into memory.
BLOCK = 1 << 20  # Bytes that are read at a time.
NOT_UTF8 = "not UTF-8; if it is Latin-1, iconv -f latin1 -t utf8 OLD > NEW converts it"
# Errors that spaCy raises if a file is not a `.spacy` file.
BROKEN = ValueError, KeyError, TypeError, IndexError, AttributeError, zlib.error


def decode(data: bytes) -> str:
    """Decode text in UTF-8.

    data (bytes): The text, such as a line of a file.
    RETURNS (str): The decoded text.
    RAISES (ValueError): The text is not UTF-8. The message is `NOT_UTF8`, without a file.
    """
    try:
        return data.decode("utf8")
    except UnicodeDecodeError:
        raise ValueError(NOT_UTF8) from None


def read_text(path: Path) -> str:
    """Read a whole text file, without a byte order mark.

    path (Path): The file.
    RETURNS (str): The text. Each line ends with a line feed.
    RAISES (ValueError): The file is not UTF-8.
    """
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path}: {NOT_UTF8}") from None


def numbered_lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """Read the lines of a file, one at a time.

    The length of a line is limited, because a small gzip file can contain a line that fills the
    memory.

    file (Path): The file. A compressed file is unpacked.
    YIELDS (Tuple[int, bytes]): The line number, from 1, and the line with its line break.
    RAISES (ValueError): A line is longer than `MAX_LINE`, the file is not text in UTF-8, or the
        compressed file is broken.
    """
    number, compression = 0, compression_of(file.name)
    try:
        with file.open("rb") as raw, unpack(raw, compression) if compression else raw as stream:
            for number, line in enumerate(iter(partial(stream.readline, MAX_LINE + 1), b""), 1):
                if len(line) > MAX_LINE:
                    raise ValueError(
                        f"{file}, line {number}: a line of more than {MAX_LINE:,} bytes. Split it."
                    )
                if number == 1 and (problem := not_text(line)):
                    raise ValueError(f"{file} {problem}")
                yield number, line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
    except UNPACK_ERRORS as error:
        if not is_broken(error):
            raise
        raise ValueError(
            f"{file}: broken {compression} file after line {number}: {error}"
        ) from error


def read_docbin(path: Path, vocab: "Vocab") -> Iterator["Doc"]:
    """Read the Docs of a `.spacy` file.

    path (Path): The file.
    vocab (Vocab): The vocab of the Docs.
    YIELDS (Doc): A Doc.
    RAISES (ValueError): The file is not a `.spacy` file, or it is broken.
    """
    from spacy.tokens import DocBin

    with named_errors(f"{path} is not a .spacy file, or it is broken", BROKEN):
        yield from DocBin().from_disk(path).get_docs(vocab)


def checksum(path: Path, algorithm: str = "sha256") -> str:
    """Compute the checksum of a file.

    path (Path): The file.
    algorithm (str): Name of an algorithm in `hashlib`. Use insecure ones such as MD5 only to check
        published checksums.
    RETURNS (str): The checksum, in hexadecimal.
    """
    digest = hashlib.new(algorithm, usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def describe_file(path: Path) -> dict[str, Any]:
    """Return `size` in bytes and `sha256` of a file."""
    return {"size": path.stat().st_size, "sha256": checksum(path)}
