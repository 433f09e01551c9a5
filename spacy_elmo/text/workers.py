"""Parallel work: tasks for several processes on this machine."""

import multiprocessing
import os
import re
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Optional, TypeVar

Label = TypeVar("Label")
Result = TypeVar("Result")


def n_processes(wanted: int) -> int:
    """Return the number of processes to start.

    wanted (int): The number, or -1 for one process per core.
    RETURNS (int): The number.
    RAISES (ValueError): The number is below 1 and not -1.
    """
    if wanted == -1:
        usable = getattr(os, "sched_getaffinity", None)
        return len(usable(0)) if usable else os.cpu_count() or 1
    if wanted < 1:
        raise ValueError(f"n_process must be 1 or more, or -1 for all cores, got {wanted}")
    return wanted


def parse_worker(worker: Optional[str]) -> tuple[int, int]:
    """Parse the setting `worker`.

    worker (Optional[str]): "K/N" for the K-th of N workers; None for a single worker.
    RETURNS (Tuple[int, int]): Index of the worker's first task, and the step to its next task.
    RAISES (ValueError): The setting has another form.
    """
    numbers = re.fullmatch(r"(\d+)/(\d+)", worker or "1/1")
    if numbers is None or not 1 <= int(numbers[1]) <= int(numbers[2]):
        raise ValueError(f"`worker` must be K/N, from 1/N to N/N, got '{worker}'")
    return int(numbers[1]) - 1, int(numbers[2])


def map_in_order(
    function: Callable[..., Result], tasks: Iterable[tuple[Label, tuple]], n_process: int
) -> Generator[tuple[Label, Result], None, None]:
    """Call a function for each task. Only a few tasks are queued at a time.

    function (Callable): A function that other processes can import.
    tasks (Iterable[Tuple[Any, tuple]]): A label and the arguments of each task.
    n_process (int): Number of processes. With 1, the tasks run in this process.
    YIELDS (Tuple[Any, Any]): The label and the result of each task, in the order of the tasks.
    RAISES (ChildProcessError): A process was killed.
    """
    if n_process == 1:
        yield from ((label, function(*arguments)) for label, arguments in tasks)
        return
    # Do not fork: a fork of a process with threads, such as PyTorch's, can hang.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(n_process, mp_context=context, initializer=_begin)
    submitted = ((label, pool.submit(function, *arguments)) for label, arguments in tasks)
    try:
        waiting = deque(islice(submitted, 2 * n_process))
        while waiting:
            label, future = waiting.popleft()
            waiting.extend(islice(submitted, 1))
            yield label, future.result()
    except BrokenProcessPool as error:
        raise ChildProcessError(
            "a worker process was killed (no memory left?) or could not start "
            '(a script needs `if __name__ == "__main__":`). Fewer processes need less memory.'
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """Set up a worker process: ignore Ctrl-C, and end when the parent process ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
