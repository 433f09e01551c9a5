"""Number of PyTorch's own threads: short operations use one thread.

PyTorch splits each operation between its threads, and all threads wait for each other at the end
of the operation. If another program uses a core, a short operation can take as long as the
system's time slice. On two cores, one of them busy, LSTMs with 512 units embedded 6,900 words/s
with one thread, but only 126 words/s with two threads.

This module sets the number in OpenMP and MKL, for the calling Python thread only. The alternative,
`torch.set_num_threads(1)`, also applies to Python threads that start later: a Python thread that
starts during a short operation would use a single core forever. So the alternative is used only if
the functions of OpenMP and MKL are not found.
"""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import torch

# Minimum number of multiplications for which several threads are faster.
LONG_PRODUCT = 2**26
# Products with fewer rows count as products with this number of rows, because reading the weights
# takes most of their time.
LEAST_ROWS = 8


def is_long_product(n_rows: int, n_weights: int) -> bool:
    """Return whether a product of `n_rows` rows and a weight is faster with several threads."""
    return max(n_rows, LEAST_ROWS) * n_weights >= LONG_PRODUCT


@cache
def own_setters() -> tuple[Callable[[int], Any], ...]:
    """Find the functions of OpenMP and MKL that set the number of threads for one Python thread.

    The result is empty if one is missing, or if PyTorch uses another OpenMP library.
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
    # The only reliable test is whether PyTorch sees the number that the library sets.
    found[0](before + 1)
    is_right = torch.get_num_threads() == before + 1  # PyTorch may use another OpenMP library.
    found[0](before)
    return tuple(found) if is_right else ()


def _set_own_threads(n_threads: int) -> None:
    """Set the number of PyTorch's own threads for the calling Python thread."""
    # PyTorch's first call in a new Python thread sets the number, so this call must come first.
    torch.get_num_threads()
    for set_number in own_setters() or (torch.set_num_threads,):
        set_number(n_threads)


@contextmanager
def one_thread(wanted: bool = True) -> Iterator[None]:
    """Context manager: if wanted, PyTorch uses one thread for operations of this Python thread."""
    n_threads = torch.get_num_threads()
    if not wanted or n_threads == 1:
        yield
        return
    _set_own_threads(1)
    try:
        yield
    finally:
        _set_own_threads(n_threads)
