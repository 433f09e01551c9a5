"""Memory that the process has freed, and its return to the system."""

import ctypes
from contextlib import suppress


def return_freed_memory() -> None:
    """Return freed memory to the system, if the C library is glibc.

    glibc keeps up to 64 MB of freed memory, and more if the memory is fragmented. The call takes
    some milliseconds.
    """
    with suppress(AttributeError, OSError, TypeError):  # Other C libraries have no `malloc_trim`.
        ctypes.CDLL(None).malloc_trim(0)
