"""Compressed text files, and the kinds of files that are not text.

Suffixes decide, in any case: `.txt`, `.TXT.GZ`. Content is only used for error messages, so that a
file whose name is wrong is not read in another way by other programs.
"""

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Any, Optional

_zstd: Any = None
try:
    # The module exists from Python 3.14 on.
    from compression import zstd as _zstd  # type: ignore[import-not-found, no-redef]
except ImportError:
    with suppress(ImportError):
        from backports import zstd as _zstd  # type: ignore[import-not-found, no-redef]

TEXT_SUFFIXES = (".txt", ".jsonl", ".tsv", ".conll", ".conllu")
FORMAT_SUFFIXES = (*TEXT_SUFFIXES, ".parquet", ".spacy")
COMPRESSED = (".gz", ".xz", ".bz2", ".zst")
# gzip and bz2 also raise an OSError without a number, see `is_broken`.
UNPACK_ERRORS = (
    *(OSError, EOFError, zlib.error, lzma.LZMAError),
    *([] if _zstd is None else [_zstd.ZstdError]),
)
_CUT = "Compressed file ended before the end-of-stream marker was reached"  # Message of Python.
_ICONV = "Convert it: `iconv -f {} -t utf-8 OLD > NEW`"
_FIRST_BYTES = {
    b"\xff\xfe\0\0": f"is in UTF-32, not in UTF-8. {_ICONV.format('utf-32')}",
    b"\xff\xfe": f"is in UTF-16, not in UTF-8. {_ICONV.format('utf-16')}",
    b"\xfe\xff": f"is in UTF-16, not in UTF-8. {_ICONV.format('utf-16')}",
    b"\x1f\x8b": "is compressed with gzip. Its name must end in .gz",
    b"\xfd7zXZ\0": "is compressed with xz. Its name must end in .xz",
    b"BZh": "is compressed with bzip2. Its name must end in .bz2",
    b"\x28\xb5\x2f\xfd": "is compressed with Zstandard. Its name must end in .zst",
    b"PK\x03\x04": "is a zip archive, not text. Unpack it",
    b"%PDF-": "is a PDF file, not text. Convert it to text",
    b"PAR1\x15": "is a Parquet file, not text. Its name must end in .parquet",
}
_BZIP2_BLOCK = b"1AY&SY"  # Follows "BZh" and a digit. Text can also begin with "BZh".
_TAR = slice(257, 262), b"ustar"
_SAMPLE = 4096
_MAX_NULS = 0.02  # Text in UTF-16 has a NUL in each space and line break.


def compression_of(name: str) -> str:
    """Return the suffix of a compressed file in lower case; "" if the file is not compressed."""
    suffix = PurePosixPath(name).suffix.lower()
    return suffix if suffix in COMPRESSED else ""


def suffix_of(name: str) -> str:
    """Return the suffix that names the format of a file, in lower case.

    name (str): The name. If it is the name of a compressed text file, the suffix before the suffix
        of the compression counts.
    """
    path = PurePosixPath(name.lower())
    inner = PurePosixPath(path.stem).suffix if path.suffix in COMPRESSED else ""
    return inner if inner in TEXT_SUFFIXES else path.suffix


def kind_of(name: str, input_format: Optional[str]) -> str:
    """Return the format of an input file, as a suffix such as ".txt".

    name (str): Name of the file.
    input_format (Optional[str]): The format, without a dot, of files whose suffix names no format.
    RETURNS (str): The suffix; the unknown suffix of the file if `input_format` is None.
    """
    suffix = suffix_of(name)
    is_named = suffix in FORMAT_SUFFIXES or input_format is None
    return suffix if is_named else f".{input_format}"


def unpack(stream: Any, compression: str) -> Any:
    """Return a file with the unpacked content of a file.

    stream (BinaryIO): The file.
    compression (str): One of `COMPRESSED`.
    RETURNS (BinaryIO): The unpacked file. It can be read forward only, which can raise
        `UNPACK_ERRORS`.
    RAISES (ValueError): This installation cannot read the compression.
    """
    if compression == ".gz":
        return gzip.open(stream)
    if compression == ".xz":
        return io.BufferedReader(_Streams(stream, lzma.LZMADecompressor))
    if compression == ".bz2":
        return io.BufferedReader(_Streams(stream, bz2.BZ2Decompressor))
    if _zstd is None:
        raise ValueError(
            ".zst files need Python 3.14 or the package backports.zstd. Run `pip install "
            "backports.zstd`, or unpack the file."
        )
    return _zstd.open(stream, "rb")


class _Streams(io.RawIOBase):
    """Unpacked content of a file of one or several compressed streams.

    The readers of `lzma` and `bz2` end without an error at a later stream that is damaged, such as
    one of `pbzip2`: they take it for garbage. So the rest of the file would be lost.

    file (BinaryIO): The compressed file.
    make_unpacker (Callable): Makes the decompressor of a stream.
    """

    def __init__(self, file: Any, make_unpacker: Callable[[], Any]):
        self.file = file
        self.make_unpacker = make_unpacker
        self.unpacker = make_unpacker()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = b""
        while not data:
            packed = b""
            if self.unpacker.eof:
                packed = self._next_stream()
                if not packed:
                    return 0
                self.unpacker = self.make_unpacker()
            elif self.unpacker.needs_input:
                packed = self.file.read(io.DEFAULT_BUFFER_SIZE)
                if not packed:
                    raise EOFError(_CUT)
            data = self.unpacker.decompress(packed, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _next_stream(self) -> bytes:
        """Return the first bytes of the next stream. The zeros between streams are padding."""
        packed = self.unpacker.unused_data.lstrip(b"\0")
        while not packed and (block := self.file.read(io.DEFAULT_BUFFER_SIZE)):
            packed = block.lstrip(b"\0")
        return bytes(packed)


def is_broken(error: BaseException) -> bool:
    """Return whether an error of `UNPACK_ERRORS` is about the content, not about the disk."""
    return not isinstance(error, OSError) or error.errno is None


def not_text(start: bytes) -> Optional[str]:
    """Describe a file that is not text in UTF-8.

    start (bytes): The first bytes of the file.
    RETURNS (Optional[str]): The description and what to do; None if the file may be text.
    """
    for first, description in _FIRST_BYTES.items():
        is_bzip2 = start[4:].startswith(_BZIP2_BLOCK)
        if start.startswith(first) and (first != b"BZh" or is_bzip2):
            return description
    place, magic = _TAR
    if start[place] == magic:
        return "is a tar archive, not text. Unpack it"
    sample = start[:_SAMPLE]
    if sample.count(0) > _MAX_NULS * len(sample):
        return f"is in UTF-16 without a byte-order mark, or is not text. {_of_utf16(sample)}"
    if b"\n" not in start and b"\r" in start.rstrip(b"\r"):
        return "has the line ends of old Macs (only CR). Convert it: `tr '\\r' '\\n' < OLD > NEW`"
    return None


def _of_utf16(sample: bytes) -> str:
    """Return how to convert text in UTF-16 without a byte-order mark.

    Spaces and line ends show the byte order. Letters do not: U+4E00 and N have swapped bytes.
    """
    units = [*zip(sample[::2], sample[1::2])]
    n_little = sum(units.count((byte, 0)) for byte in b" \r\n")
    n_big = sum(units.count((0, byte)) for byte in b" \r\n")
    if n_little == n_big:
        return f"{_ICONV.format('utf-16le')}, or `-f utf-16be`"
    return _ICONV.format("utf-16le" if n_little > n_big else "utf-16be")
