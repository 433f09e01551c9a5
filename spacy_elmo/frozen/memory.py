"""Return of freed memory to the system."""

import ctypes
from contextlib import suppress


def return_freed_memory() -> None:
    """Return memory that the process has freed to the system, if the C library is glibc.

    glibc keeps up to 64 MB, and more if the memory is fragmented. The call takes some milliseconds.
    """
    with suppress(AttributeError, OSError, TypeError):  # Other C libraries have no such function.
        ctypes.CDLL(None).malloc_trim(0)
