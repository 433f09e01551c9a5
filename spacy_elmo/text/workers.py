"""Parallel work on tasks by processes of this machine."""

import multiprocessing
import os
import re
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Optional, TypeVar

Label = TypeVar("Label")
Result = TypeVar("Result")


def n_processes(wanted: int) -> int:
    """Return the number of processes to start.

    wanted (int): The number, or -1 for one per core.
    RETURNS (int): The number.
    RAISES (ValueError): It is below 1, and not -1.
    """
    if wanted == -1:
        usable = getattr(os, "sched_getaffinity", None)
        return len(usable(0)) if usable else os.cpu_count() or 1
    if wanted < 1:
        raise ValueError(f"n_process must be 1 or more, or -1 for all cores, got {wanted}")
    return wanted


def parse_worker(worker: Optional[str]) -> tuple[int, int]:
    """Read the setting `worker`.

    worker (Optional[str]): "K/N", the K-th of N; None is the only one.
    RETURNS (Tuple[int, int]): The number of its first task, from 0, and the step to the next.
    RAISES (ValueError): It has another form.
    """
    numbers = re.fullmatch(r"(\d+)/(\d+)", worker or "1/1")
    if numbers is None or not 1 <= int(numbers[1]) <= int(numbers[2]):
        raise ValueError(f"`worker` is K/N, the K-th of N, from 1/N to N/N, not '{worker}'")
    return int(numbers[1]) - 1, int(numbers[2])


def map_in_order(
    function: Callable[..., Result], tasks: Iterable[tuple[Label, tuple]], n_process: int
) -> Generator[tuple[Label, Result], None, None]:
    """Call a function on each task. Only a few tasks are queued at a time.

    function (Callable): A function that other processes can import.
    tasks (Iterable[Tuple[Any, tuple]]): Label and arguments of each task.
    n_process (int): Processes; 1 starts none.
    YIELDS (Tuple[Any, Any]): The labels and the results, in the order of the tasks.
    RAISES (ChildProcessError): A process was killed.
    """
    if n_process == 1:
        yield from ((label, function(*arguments)) for label, arguments in tasks)
        return
    # A fork of a process with threads, such as PyTorch's, can hang.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(n_process, mp_context=context, initializer=_begin)
    waiting: deque[tuple[Label, Future[Result]]] = deque()
    try:
        for label, arguments in tasks:
            waiting.append((label, pool.submit(function, *arguments)))
            if len(waiting) > 2 * n_process:
                label, future = waiting.popleft()
                yield label, future.result()
        while waiting:
            label, future = waiting.popleft()
            yield label, future.result()
    except BrokenProcessPool as error:
        raise ChildProcessError(
            "a worker process was ended from outside (no memory left?) or could not start "
            '(a script needs `if __name__ == "__main__":`). Fewer processes need less memory.'
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """Leave Ctrl-C to the parent, and end when the parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
