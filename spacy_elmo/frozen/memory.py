"""Memory of the process."""

import ctypes
from contextlib import suppress


def return_freed_memory() -> None:
    """Have the process give back what it has freed: glibc keeps up to 64 MB, and more between
    what is left. It takes some milliseconds."""
    with suppress(AttributeError, OSError, TypeError):  # another library
        ctypes.CDLL(None).malloc_trim(0)
