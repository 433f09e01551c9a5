"""Errors that name the file, and what to do."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Union

Kinds = Union[type[Exception], tuple[type[Exception], ...]]
LONGEST = 1000  # characters of a message; a name read from a file may be very long
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def named_errors(source: object, kinds: Kinds = ValueError) -> Iterator[None]:
    """Turn errors into a ValueError that names a file.

    source (object): The file, or the beginning of the message.
    kinds (Union[Type[Exception], Tuple[Type[Exception], ...]]): The errors.
    RAISES (ValueError): One of them was raised.
    """
    try:
        yield
    except MemoryError:  # does not concern the file
        raise
    except kinds as error:
        raise ValueError(f"{source}: {bounded(error)}") from error


@contextmanager
def by_its_name(path: Path) -> Iterator[None]:
    """Name the output in errors about a temporary file beside it.

    path (Path): The output.
    RAISES (OSError): Its folder is missing or read-only, or the disk is full.
    """
    try:
        yield
    except OSError as error:
        # An error without a number would lose its message.
        named = error.errno is not None and error.filename is not None
        if named and Path(error.filename).parent == path.parent:
            error.filename = str(path)
        raise


def bounded(error: object) -> str:
    """Cut the message of an error if it is too long.

    error (object): The error.
    RETURNS (str): Its message, of at most about 1,000 characters.
    """
    message = str(error)
    return message if len(message) <= LONGEST else f"{message[:LONGEST]}..."


@contextmanager
def full_disk(
    output: Union[str, Path], advice: str = "run the same again: it resumes"
) -> Iterator[None]:
    """Replace the error of a full disk by one that says what to do.

    PyTorch hides the system's error behind one of its own. The system's error is found only if
    PyTorch writes to an open file.

    output (Union[str, Path]): The output.
    advice (str): What to do once there is room.
    RAISES (OSError): The disk is full.
    """
    try:
        yield
    except (OSError, RuntimeError) as raised:
        error = raised.__context__ if isinstance(raised, RuntimeError) else raised
        if not isinstance(error, OSError):
            raise
        # Some libraries mention the system's error only in their message.
        reasons = [n for n in FULL if n == error.errno or os.strerror(n) in str(error)]
        if not reasons and error is raised:
            raise
        if not reasons:
            raise error from None
        raise OSError(
            f"{output} cannot be written: {os.strerror(reasons[0])}. Make room and {advice}."
        ) from error
