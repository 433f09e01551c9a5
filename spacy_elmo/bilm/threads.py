"""How many threads compute. PyTorch shares out every operation, and its threads wait for
each other after each: where another program holds a core, a short operation takes as long
as the system's time slice. So short ones run on one thread whatever PyTorch's setting, and
two long tasks run side by side, which meet at their ends alone."""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

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
    torch.set_num_threads(1)
    try:
        yield
    finally:
        _local.n_threads = 1
        torch.set_num_threads(n_threads)


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
        torch.set_num_threads(share)
        with torch.inference_mode(is_inference), torch.no_grad():
            return task()

    try:
        later = helper.submit(run, second)
        try:
            done = run(first)
        finally:
            torch.set_num_threads(1)
            wait([later])
        return [done, later.result()]
    finally:
        helper.is_free.release()
