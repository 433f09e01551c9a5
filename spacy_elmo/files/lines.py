"""Lines of text files, gzipped or not."""

import codecs
import gzip
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

MAX_LINE = 1 << 24  # Maximum bytes of a line. Several copies of a line must fit into memory.


def numbered_lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """Read the lines of a file, one at a time.

    The length of a line is limited, because a small gzip file can contain a line that fills the
    memory.

    file (Path): The file. A `.gz` file is unpacked.
    YIELDS (Tuple[int, bytes]): The number of a line, from 1, and the line with its end.
    RAISES (ValueError): A line is longer than `MAX_LINE`, or the gzip file is broken.
    """
    opener = gzip.open if file.suffix == ".gz" else open
    number = 0
    try:
        with opener(file, "rb") as stream:
            for number, line in enumerate(iter(partial(stream.readline, MAX_LINE + 1), b""), 1):
                if len(line) > MAX_LINE:
                    raise ValueError(
                        f"{file}, line {number}: a line of more than {MAX_LINE:,} bytes. Split it."
                    )
                yield number, line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{file}: broken gzip file after line {number}: {error}") from error
