"""How the commands fail."""

from collections.abc import Iterator
from contextlib import contextmanager

from wasabi import msg


@contextmanager
def no_traceback() -> Iterator[None]:
    """Say what is wrong with the input, and exit with status 1."""
    try:
        yield
    except (ValueError, OSError, ImportError, FloatingPointError) as error:
        msg.fail(str(error), exits=1)
