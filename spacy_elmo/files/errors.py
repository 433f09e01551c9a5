"""Errors that say what they are about."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Union

Kinds = Union[type[Exception], tuple[type[Exception], ...]]
LONGEST = 1000  # characters of a message; a name in a file may have a million


@contextmanager
def named_errors(source: object, kinds: Kinds = ValueError) -> Iterator[None]:
    """Put a file before the message of what is wrong with it.

    source (object): The file, and what is said of it in any case.
    kinds (Union[Type[Exception], Tuple[Type[Exception], ...]]): The errors.
    RAISES (ValueError): In their place.
    """
    try:
        yield
    except MemoryError:  # says nothing of the file
        raise
    except kinds as error:
        raise ValueError(f"{source}: {bounded(error)}") from error


@contextmanager
def by_its_name(path: Path) -> Iterator[None]:
    """Name what was to be written, where a temporary name beside it may not be.

    path (Path): What is written.
    RAISES (OSError): Its folder may not be written to, is missing, or the disk is full.
    """
    try:
        yield
    except OSError as error:
        # An error without a number would lose its message to a name.
        named = error.errno is not None and error.filename is not None
        if named and Path(error.filename).parent == path.parent:
            error.filename = str(path)
        raise


def bounded(error: object) -> str:
    """Cut the message of an error where it is too long.

    error (object): The error.
    RETURNS (str): Its message, of at most about 1,000 characters.
    """
    message = str(error)
    return message if len(message) <= LONGEST else f"{message[:LONGEST]}..."
