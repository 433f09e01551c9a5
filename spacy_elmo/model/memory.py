"""Arrays that can be dropped and read again, and a function that returns freed memory."""

import ctypes
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Optional

import numpy as np

Arrays = Mapping[str, np.ndarray]


def return_freed_memory() -> None:
    """Return freed memory to the system, if the C library is glibc.

    glibc keeps up to 64 MB of freed memory, and more if the memory is fragmented. The call takes
    some milliseconds.
    """
    with suppress(AttributeError, OSError, TypeError):  # Other C libraries have no `malloc_trim`.
        ctypes.CDLL(None).malloc_trim(0)


class Weights:
    """Arrays of a model, which can be dropped from memory and read again.

    arrays (Mapping[str, numpy.ndarray]): float32 or float16, by the names in `BiLM.state_dict()`.
    read (Optional[Callable[[], Mapping[str, numpy.ndarray]]]): Function that reads the same arrays
        again. None: the arrays always stay in memory.
    """

    def __init__(self, arrays: Arrays, read: Optional[Callable[[], Arrays]] = None):
        self._arrays: Optional[Arrays] = arrays
        self._read = read

    def get(self) -> Arrays:
        """Return the arrays, which are read again if they were dropped.

        RAISES (ValueError): The file has changed since it was read.
        """
        # Read the attribute once, because another thread may call `drop` after the check. Arrays
        # that are read again are not kept: their owner dropped them to save memory.
        arrays = self._arrays
        if arrays is None:
            assert self._read is not None
            return self._read()
        return arrays

    def drop(self) -> None:
        """Remove the arrays from memory, if there is a function that reads them again."""
        if self._read is not None and self._arrays is not None:
            self._arrays = None
            return_freed_memory()

    def __reduce__(self) -> tuple:
        return Weights, (dict(self.get()),)
