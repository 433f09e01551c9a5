"""Functions that are killed at each step that changes what is on the disk.

A child process counts its steps: files that are opened for writing, renamed or deleted, folders
that are made or deleted, `fsync`, and commits of SQLite. Before step n it kills itself. So every
state that a kill can leave behind is met, each time the same ones. Killing at random moments met
some of them, took longer, and failed on busy machines."""

import gc
import os
import signal
import sqlite3
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TextIO

from spacy_elmo.files.unfinished import is_temporary

DELETING = {"os.remove", "os.rmdir"}
CHANGING = {"os.rename", "os.link", "os.symlink", "os.truncate"}
WRITING = os.O_WRONLY | os.O_RDWR


def in_child(run: Callable[[], object]) -> None:
    """Call a function in a forked process, as a new process would: nothing that it changes in
    memory counts later.

    run (Callable[[], object]): The function.
    RAISES (AssertionError): It raised an error, or the process was killed.
    """
    with child(run) as process:
        assert _wait(process) == 0


def killed_at_each_step(run: Callable[[], object]) -> Iterator[int]:
    """Call a function again and again, each time in a new process. The first is killed at its
    first step, the second at its second, until one ends by itself.

    run (Callable[[], object]): The function.
    YIELDS (int): The step, from 1, at which the function was just killed.
    RAISES (AssertionError): It raised an error.
    """
    for step in count(1):
        with child(run, step, signal.SIGKILL) as process:
            status = _wait(process)
        if status == 0:
            return
        assert status == -signal.SIGKILL, status
        yield step


def stopped_at_each_step(run: Callable[[], object]) -> Iterator[int]:
    """As `killed_at_each_step`, but the process only stands still, and goes on afterwards.

    run (Callable[[], object]): The function.
    YIELDS (int): The step, from 1, at which the function stands still.
    RAISES (AssertionError): It raised an error.
    """
    for step in count(1):
        with child(run, step, signal.SIGSTOP) as process:
            status = os.waitpid(process, os.WUNTRACED)[1]
            if not os.WIFSTOPPED(status):
                assert status == 0, status
                return
            try:
                yield step
            finally:
                os.kill(process, signal.SIGCONT)
                status = _wait(process)
            assert status == 0, status


def left_in(folder: Path) -> list[str]:
    """RETURNS (List[str]): The names in a folder. A temporary folder without its marker, which a
    kill before the marker was written leaves, does not count: by its name alone it is not known as
    ours, and stays."""
    return sorted(
        path.name
        for path in folder.iterdir()
        if not (is_temporary(path.name) and not any(path.iterdir()))
    )


@contextmanager
def child(run: Callable[[], object], step: int = 0, number: int = 0) -> Iterator[int]:
    """Start a child, which gets a signal before a step; once it has ended, raise its error."""
    with tempfile.TemporaryFile("w+") as error:
        child = os.fork()
        if not child:
            _run(run, step, number, error)
        yield child
        error.seek(0)
        message = error.read()
    assert not message, message


def _wait(child: int) -> int:
    """Wait for the end of a child; its exit status, or the negative number of a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _run(run: Callable[[], object], step: int, number: int, error: TextIO) -> None:
    """Call a function in this child, and end the child."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        gc.disable()  # A collection would copy most of the parent's memory.
        _forget_threads()
        if step:
            _signal_at(step, number)
        run()
    except BaseException:
        traceback.print_exc(file=error)
        error.flush()
    finally:
        os._exit(0)


def _forget_threads() -> None:
    """Take locks that nobody else can hold, and use no thread of the parent's."""
    from tqdm import tqdm

    # The default is shared with the parent, where a killed child would hold it for ever.
    tqdm.set_lock(threading.RLock())
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


def _signal_at(step: int, number: int) -> None:
    """Send a signal to this process before a step; it cannot be taken back."""
    n_steps = 0

    def count_step() -> None:
        nonlocal n_steps
        n_steps += 1
        if n_steps == step:
            os.kill(os.getpid(), number)

    def on_event(event: str, arguments: tuple) -> None:
        if _is_step(event, arguments):
            count_step()

    def connected(*arguments: object, **settings: object) -> sqlite3.Connection:
        connection = connect(*arguments, **settings)
        connection.set_trace_callback(lambda done: done.startswith("COMMIT") and count_step())
        return connection

    connect, fsync = sqlite3.connect, os.fsync
    sqlite3.connect = connected
    os.fsync = lambda descriptor: (count_step(), fsync(descriptor))[1]
    sys.addaudithook(on_event)


def _is_step(event: str, arguments: tuple) -> bool:
    """Whether an event of auditing announces a change; deleting what is not there is none."""
    if event == "open":
        path, _, flags = arguments
        return bool(flags & WRITING) and not str(path).startswith("/dev/")
    if event == "os.mkdir":
        return not os.path.exists(arguments[0])
    if event in DELETING:
        path, folder = arguments
        try:
            os.stat(path, dir_fd=None if folder == -1 else folder, follow_symlinks=False)
        except OSError:
            return False
        return True
    return event in CHANGING
