"""Number of PyTorch's threads: short operations run on one.

PyTorch distributes every operation, and its threads wait for each other after each. If another
program uses a core, a short operation then takes as long as the system's time slice. On two cores,
one of them busy, LSTMs of 512 embedded 6,900 words/s with one thread and 126 with two.

`torch.set_num_threads` sets the number for the calling thread and for all threads that start later.
A thread that starts during a short operation would keep a single thread. So the number is set in
OpenMP and MKL, where it concerns only the calling thread. `torch.set_num_threads` is the fallback.
"""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import torch

# Multiplications from which on several threads make a product faster.
LONG_PRODUCT = 2**26
# Fewer rows count as this many, because most of the time then goes into reading weights.
LEAST_ROWS = 8


def is_long_product(n_rows: int, n_weights: int) -> bool:
    """Return whether several threads make a product of this size faster."""
    return max(n_rows, LEAST_ROWS) * n_weights >= LONG_PRODUCT


@cache
def own_setters() -> tuple[Callable[[int], Any], ...]:
    """Return functions of OpenMP and MKL that set the threads of the calling thread only.

    RETURNS (Tuple[Callable[[int], Any], ...]): The functions; none if one is missing.
    """
    names = [("*omp*", "omp_set_num_threads")]
    if torch.backends.mkl.is_available():
        names.append(("*torch_cpu*", "MKL_Set_Num_Threads_Local"))
    found = []
    for pattern, name in names:
        for path in (Path(torch.__file__).parent / "lib").glob(pattern):
            with suppress(OSError, AttributeError):  # Other libraries have similar names.
                found.append(getattr(ctypes.CDLL(str(path)), name))
                break
    before = torch.get_num_threads()
    if len(found) < len(names):
        return ()
    found[0](before + 1)
    is_right = torch.get_num_threads() == before + 1  # PyTorch may use another OpenMP.
    found[0](before)
    return tuple(found) if is_right else ()


def _set_own_threads(n_threads: int) -> None:
    """Set the number of PyTorch's threads for the calling thread."""
    torch.get_num_threads()  # PyTorch sets the number for a new thread at its first use.
    for set_number in own_setters() or (torch.set_num_threads,):
        set_number(n_threads)


@contextmanager
def one_thread(wanted: bool = True) -> Iterator[None]:
    """Run PyTorch on one thread within the calling thread.

    wanted (bool): If False, nothing changes.
    """
    n_threads = torch.get_num_threads()
    if not wanted or n_threads == 1:
        yield
        return
    _set_own_threads(1)
    try:
        yield
    finally:
        _set_own_threads(n_threads)
