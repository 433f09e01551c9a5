"""How many threads compute. PyTorch shares out every operation, and its threads wait for
each other after each: where another program holds a core, a short operation takes as long
as the system's time slice. So short ones run on one thread whatever PyTorch's setting, and
two long tasks run side by side, which meet at their ends alone.

`torch.set_num_threads` sets the number of the calling thread and that of all threads which start
later. A thread that started while another one computed would keep its single thread. So the
libraries beneath PyTorch are asked, which know each thread's number only; where they are not
found, PyTorch's function takes their place."""

import ctypes
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import torch

Result = TypeVar("Result")

# Multiplications of a product from which on more than one thread is worth its costs: where each
# task has a thread to itself, and where PyTorch's threads share out each operation.
LONG_TASK = 2**23
LONG_PRODUCT = 2**26
# With fewer rows the time goes into reading the weights.
LEAST_ROWS = 8

_local = threading.local()


class _Helper(ThreadPoolExecutor):
    """A thread beside those of the caller, for one of them at a time."""

    def __init__(self) -> None:
        super().__init__(1, thread_name_prefix="elmo")
        self.is_free = threading.Lock()


_helper = _Helper()


def _renew_helper() -> None:
    """A forked process inherits no threads, and locks as they were."""
    global _helper
    _helper = _Helper()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_renew_helper)


def is_long_task(n_rows: int, n_weights: int) -> bool:
    """RETURNS (bool): Whether a task whose steps are products of so many rows with a matrix of
    so many weights is worth a thread."""
    return max(n_rows, LEAST_ROWS) * n_weights >= LONG_TASK


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
    _local.n_threads = n_threads
    _set_own_threads(1)
    try:
        yield
    finally:
        _local.n_threads = 1
        _set_own_threads(n_threads)


def side_by_side(tasks: Sequence[Callable[[], Result]], *, wanted: bool = True) -> list[Result]:
    """Run two tasks at the same time, where there are threads that `one_thread` has taken
    from PyTorch and no other thread of Python is using them, otherwise one after another.
    Each gets an even share of the threads. No gradient is recorded.

    tasks (Sequence[Callable[[], Result]]): One task or two.
    wanted (bool): Whether they are long enough.
    RETURNS (List[Result]): What they return.
    """
    n_threads = getattr(_local, "n_threads", 1)
    if not wanted or len(tasks) < 2 or n_threads < 2 or not _helper.is_free.acquire(blocking=False):
        return [task() for task in tasks]
    first, second = tasks
    helper, share, is_inference = _helper, n_threads // 2, torch.is_inference_mode_enabled()

    def run(task: Callable[[], Result]) -> Result:
        _set_own_threads(share)
        with torch.inference_mode(is_inference), torch.no_grad():
            return task()

    try:
        later = helper.submit(run, second)
        try:
            done = run(first)
        finally:
            _set_own_threads(1)
            wait([later])
        return [done, later.result()]
    finally:
        helper.is_free.release()
