"""Two tasks in two threads.

The two directions of a biLM do not depend on each other, and the kernel releases Python's lock. So
a second core halves the time of a long text. `side_by_side` starts a new thread each time, which
takes 0.1 ms. There is no thread pool, because a forked process would wait forever for the threads
of its parent.
"""

import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Lock, Thread
from typing import Any

# Minimum number of multiplications of a task for which a second thread is faster.
LONG_TASK = 2**23
_PROCESS = _process_of_torch = os.getpid()
# Only one Python thread at a time gets a second thread. Otherwise all threads together would use
# more cores than allowed.
_helper = Lock()


def n_threads() -> int:
    """Return the maximum number of threads for computing.

    This is PyTorch's setting if PyTorch is loaded, else `OMP_NUM_THREADS`, else the number of
    processors. In a forked process, the result is 1.
    """
    if os.getpid() != _PROCESS:
        return 1
    # Do not import PyTorch only to ask for its setting: the import takes seconds.
    torch = sys.modules.get("torch")
    if torch is not None:
        return int(torch.get_num_threads())
    given = os.environ.get("OMP_NUM_THREADS", "")
    if given.isdecimal() and int(given):
        return int(given)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def limit_threads(number: int) -> None:
    """Set the maximum number of threads for computing in this process, also for PyTorch."""
    os.environ["OMP_NUM_THREADS"] = str(number)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(number)


def limit_threads_after_fork() -> None:
    """Set PyTorch to one thread in a forked process.

    A forked process inherits PyTorch's thread pool without its threads, and would wait for them
    forever.
    """
    global _process_of_torch
    torch = sys.modules.get("torch")
    if torch is not None and os.getpid() != _process_of_torch:
        torch.set_num_threads(1)
        _process_of_torch = os.getpid()


def side_by_side(tasks: Sequence[Callable[[], Any]], n_products: int) -> list[Any]:
    """Run one or two tasks. Two long tasks run in parallel if a second thread is free.

    n_products (int): Multiplications of each task. Tasks below `LONG_TASK` are not long.
    """
    is_shared = len(tasks) == 2 and n_products >= LONG_TASK and n_threads() > 1
    # Do not wait for the helper: meanwhile this thread can compute both tasks itself.
    if not is_shared or not _helper.acquire(blocking=False):
        return [task() for task in tasks]
    try:
        return _run_both(*tasks)
    finally:
        _helper.release()


def _run_both(first: Callable[[], Any], second: Callable[[], Any]) -> list[Any]:
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(second())
        except BaseException as error:
            # Catch everything: without a result or an error, `future.result()` waits forever.
            future.set_exception(error)

    thread = Thread(target=run, name="elmo")
    thread.start()
    try:
        return [first(), future.result()]
    finally:
        # Also if the first task fails: the caller then lets another thread have a helper.
        thread.join()
