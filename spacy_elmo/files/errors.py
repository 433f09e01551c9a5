"""Error messages that name the file, and say what to do."""

import errno
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Optional, Union

Kinds = Union[type[Exception], tuple[type[Exception], ...]]
LONGEST = 1000  # Maximum characters of a message. A name in a broken file may be very long.
# Maximum characters of a value and maximum number of names in an error message.
LONGEST_VALUE, SHOWN = 80, 5
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def named_errors(source: object, kinds: Kinds = ValueError) -> Iterator[None]:
    """Context manager: errors of the block become a ValueError that names a file.

    source (object): The file, or another text for SOURCE in the message "SOURCE: ERROR".
    kinds (Union[Type[Exception], Tuple[Type[Exception], ...]]): Types of the errors to convert.
    RAISES (ValueError): The block raised an error of these types.
    """
    try:
        yield
    except MemoryError:  # A lack of memory is no error of the file.
        raise
    except kinds as error:
        raise ValueError(f"{source}: {bounded(error)}") from error


class FullTemporaryFolder(OSError):
    """Error: the folder for temporary files is full. It has no number, unlike a full output."""


@contextmanager
def temporary_files() -> Iterator[None]:
    """Context manager for writes to the system's temporary folder.

    RAISES (FullTemporaryFolder): The folder is full. The message does not blame input or output.
    """
    try:
        yield
    except OSError as error:
        is_elsewhere = error.filename is not None and not Path(error.filename).is_relative_to(
            tempfile.gettempdir()
        )
        if is_elsewhere or _reason_of_full(error) is None:
            raise
        raise FullTemporaryFolder(
            f"the folder for temporary files is full: {tempfile.gettempdir()}. Make room, or set "
            f"TMPDIR to another folder."
        ) from error


@contextmanager
def by_its_name(path: Path) -> Iterator[None]:
    """Context manager: errors of the block name the output, not its temporary file.

    path (Path): The output.
    RAISES (OSError): The folder of the output is missing or read-only, or the disk is full.
    """
    try:
        yield
    except OSError as error:
        # An error without a number loses its message if a file name is set.
        named = error.errno is not None and error.filename is not None
        if named and Path(error.filename).parent == path.parent:
            error.filename = str(path)
        raise


@contextmanager
def named_if_full(path: Path) -> Iterator[None]:
    """Context manager: an error about a full disk names the output.

    path (Path): The output.
    RAISES (OSError): The disk is full.
    """
    try:
        yield
    except OSError as error:
        # Errors of open files have no file name.
        if error.errno in FULL and error.filename is None:
            error.filename = str(path)
        raise


def bounded(error: object) -> str:
    """Return the message of an error, cut to about 1,000 characters.

    error (object): The error.
    RETURNS (str): The message; the type of the error if its message is empty.
    """
    message = str(error) or type(error).__name__
    return message if len(message) <= LONGEST else f"{message[:LONGEST]}..."


def shortened(value: Any) -> str:
    """Convert a value from a file to text for an error message, and cut long text."""
    text = repr(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}..."


def listed(names: Sequence[str]) -> str:
    """Join names from a file for an error message.

    names (Sequence[str]): The names.
    RETURNS (str): The first names, shortened, and the number of other names.
    """
    shown = []
    for name in names[:SHOWN]:
        shown.append(name if len(name) <= LONGEST_VALUE else f"{name[:LONGEST_VALUE]}...")
    more = [f"{len(names) - SHOWN:,} others"] if len(names) > SHOWN else []
    return ", ".join([*shown, *more])


@contextmanager
def full_disk(output: Union[str, Path], advice: str = "run again: it resumes") -> Iterator[None]:
    """Context manager: if the disk is full, the block's error says what to do.

    If PyTorch writes to a path, PyTorch's own error hides the system's error. So give PyTorch an
    open file.

    output (Union[str, Path]): The output.
    advice (str): What to do when the disk has room again: "Make room and ADVICE."
    RAISES (OSError): The disk is full.
    """
    try:
        yield
    except (OSError, RuntimeError) as raised:
        error = raised.__context__ if isinstance(raised, RuntimeError) else raised
        if not isinstance(error, OSError):
            raise
        reason = _reason_of_full(error)
        if reason is None and error is raised:
            raise
        if reason is None:
            raise error from None
        raise OSError(f"{output} cannot be written: {reason}. Make room and {advice}.") from error


def _reason_of_full(error: OSError) -> Optional[str]:
    """Return the system's message if an error is about a full disk; None for other errors."""
    # Some libraries put the system's error only into their message.
    reasons = (os.strerror(n) for n in FULL if n == error.errno or os.strerror(n) in str(error))
    return next(reasons, None)
