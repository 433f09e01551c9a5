"""Devices, FIFOs, and what a process has open, such as `/dev/stdout`."""

import errno
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

_MAX_LINKS = 40  # as Linux


def followed(path: Path) -> Path:
    """Follow symbolic links, so that what they lead to is replaced and not they.

    path (Path): A path; nothing needs to be there.
    RETURNS (Path): Where its links lead. A name of an open file, as `/dev/stdout`, is not followed
        to that file.
    RAISES (OSError): They lead in a circle.
    """
    given = path
    for _ in range(_MAX_LINKS):
        if _is_opened(path) or not path.is_symlink():
            return path
        path = path.parent / os.readlink(path)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(given))


def is_stream(path: Path) -> bool:
    """RETURNS (bool): Whether an output is written into, not replaced: a device, a FIFO, or a
    file that this process has open."""
    path = followed(path)
    if _is_opened(path):
        return True
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


@contextmanager
def open_stream(path: Path) -> Iterator[BinaryIO]:
    """Open a device, a FIFO or an open file for writing. It is not truncated.

    path (Path): A path of which `is_stream` says yes.
    YIELDS (BinaryIO): The file, which may not know how to seek.
    """
    path = followed(path)
    if _is_opened(path):
        # Opened again, a file that a shell made would be written from its beginning on.
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        descriptor = os.dup(int(path.name))
    else:
        descriptor = os.open(path, os.O_WRONLY)
    with open(descriptor, "wb") as file:
        yield file


def check_regular(path: Path) -> None:
    """Check that an input ends. To read a device, or to open a FIFO that nobody writes to, may not.

    path (Path): A file or folder, or something that is not there. What this process has open, as
        `/dev/stdin` or `<(command)` of a shell, is allowed.
    RAISES (ValueError): It is a device or FIFO.
    """
    if is_stream(path) and not _is_opened(followed(path)):
        raise ValueError(f"{path}: cannot be read: not a regular file")


def place_for_streams() -> Path:
    """RETURNS (Path): The folder for what becomes whole before it is written into a stream."""
    return Path(tempfile.gettempdir())


def _is_opened(path: Path) -> bool:
    return path.name.isdecimal() and path.parent.resolve() == Path("/dev/fd").resolve()
