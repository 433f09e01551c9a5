"""Two tasks on two threads. Each direction of a biLM is independent until its end, and the kernel
releases Python's lock, so a second core halves the time of a long text. A thread is started for
each call: that takes 0.1 ms, and a forked process inherits nothing that it would wait for."""

import os
import sys
from collections.abc import Callable, Sequence
from threading import Lock, Thread
from typing import Any

# Multiplications of a task that are worth a thread.
LONG_TASK = 2**23
_PROCESS = os.getpid()
# Only one thread of Python at a time gets a helper: others would use more cores than there are.
_helper = Lock()


def n_threads() -> int:
    """RETURNS (int): Threads that may compute: PyTorch's number if it is loaded, else that of
    `OMP_NUM_THREADS` or of the processors. A forked process has one."""
    if os.getpid() != _PROCESS:
        return 1
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
    """Let so many threads compute in this process, whether PyTorch is loaded or not.

    number (int): The threads.
    """
    os.environ["OMP_NUM_THREADS"] = str(number)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(number)


def side_by_side(tasks: Sequence[Callable[[], Any]], n_products: int) -> list[Any]:
    """Run one task or two, at the same time if they are long and a thread is free.

    tasks (Sequence[Callable[[], Any]]): The tasks.
    n_products (int): Multiplications of each.
    RETURNS (List[Any]): What they return.
    """
    is_shared = len(tasks) == 2 and n_products >= LONG_TASK and n_threads() > 1
    if not is_shared or not _helper.acquire(blocking=False):
        return [task() for task in tasks]
    try:
        return _run_both(*tasks)
    finally:
        _helper.release()


def _run_both(first: Callable[[], Any], second: Callable[[], Any]) -> list[Any]:
    found: dict[str, Any] = {}

    def run() -> None:
        try:
            found["result"] = second()
        except BaseException as error:  # which is raised where the result is wanted
            found["error"] = error

    thread = Thread(target=run, name="elmo")
    thread.start()
    try:
        done = first()
    finally:
        thread.join()
    if "error" in found:
        raise found["error"]
    return [done, found["result"]]
