"""How many threads compute. PyTorch shares out every operation, and its threads wait for
each other after each: where another program holds a core, a short operation takes as long
as the system's time slice. So short ones run on one thread whatever PyTorch's setting.

`torch.set_num_threads` sets the number of the calling thread and that of all threads which start
later. A thread that started while another one computed would keep its single thread. So the
libraries beneath PyTorch are asked, which know each thread's number only; where they are not
found, PyTorch's function takes their place."""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import torch

# Multiplications of a product from which on sharing it out is worth the costs.
LONG_PRODUCT = 2**26
# With fewer rows the time goes into reading the weights.
LEAST_ROWS = 8


def is_long_product(n_rows: int, n_weights: int) -> bool:
    """RETURNS (bool): Whether such a product is worth sharing out."""
    return max(n_rows, LEAST_ROWS) * n_weights >= LONG_PRODUCT


@cache
def own_setters() -> tuple[Callable[[int], Any], ...]:
    """RETURNS (Tuple[Callable[[int], Any], ...]): Functions of OpenMP and MKL that set the number
    of threads of the calling thread; none if one is missing."""
    names = [("*omp*", "omp_set_num_threads")]
    if torch.backends.mkl.is_available():
        names.append(("*torch_cpu*", "MKL_Set_Num_Threads_Local"))
    found = []
    for pattern, name in names:
        for path in (Path(torch.__file__).parent / "lib").glob(pattern):
            with suppress(OSError, AttributeError):  # other libraries have such names, too
                found.append(getattr(ctypes.CDLL(str(path)), name))
                break
    before = torch.get_num_threads()
    if len(found) < len(names):
        return ()
    found[0](before + 1)
    is_right = torch.get_num_threads() == before + 1  # PyTorch may use another OpenMP
    found[0](before)
    return tuple(found) if is_right else ()


def _set_own_threads(n_threads: int) -> None:
    """Set the number of PyTorch's threads for the calling thread."""
    torch.get_num_threads()  # PyTorch sets the number of a new thread when it is first needed
    for set_number in own_setters() or (torch.set_num_threads,):
        set_number(n_threads)


@contextmanager
def one_thread(wanted: bool = True) -> Iterator[None]:
    """PyTorch computes on one thread in this thread of Python.

    wanted (bool): Whether it does, or nothing changes.
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
