"""Functions that are killed at each step that changes what is on the disk.

A child process counts its steps: files that are opened for writing, renamed or deleted, folders
that are made or deleted, `fsync`, and commits of SQLite. Before step n it kills itself. So every
state that a kill can leave behind is met, each time the same ones. Killing at random moments met
some of them, took longer, and failed on busy machines.

`left_at_each_step` gives the same states with one child in place of a child for each step: the
files are copied while the child stands still. It takes less than half the time. It cannot show
what becomes of locks and memory, so some tests still kill at each step."""

import gc
import os
import shutil
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
from typing import Optional, TextIO

from spacy_elmo.files.unfinished import is_temporary

CHANGING = {"os.mkdir", "os.remove", "os.rmdir"}
CHANGING |= {"os.rename", "os.link", "os.symlink", "os.truncate"}
WRITING = os.O_WRONLY | os.O_RDWR
EACH = -1  # in place of the number of a step


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


def left_at_each_step(run: Callable[[], object], folder: Path) -> Iterator[int]:
    """Call a function once, in a new process, then give the folder each state that a kill of the
    process would have left in it. A state like the one before is not given again: after `fsync`,
    say. At the end the folder is as the function left it.

    run (Callable[[], object]): The function. It changes nothing outside the folder.
    folder (Path): The folder.
    YIELDS (int): The step, from 1, before which the folder was like this.
    RAISES (AssertionError): The function raised an error.
    """
    with tempfile.TemporaryDirectory() as kept:
        steps, before = [], None
        with child(run, EACH, signal.SIGSTOP) as process:
            try:
                for step in count(1):
                    status = os.waitpid(process, os.WUNTRACED)[1]
                    if not os.WIFSTOPPED(status):
                        break
                    content = _content(folder)
                    if content != before:
                        steps.append(step)
                        shutil.copytree(folder, Path(kept, str(step)))
                    before = content
                    os.kill(process, signal.SIGCONT)
            except BaseException:
                os.kill(process, signal.SIGKILL)
                _wait(process)
                raise
        assert status == 0, status
        shutil.copytree(folder, Path(kept, "end"))
        for step in steps:
            _replace(folder, Path(kept, str(step)))
            yield step
        _replace(folder, Path(kept, "end"))


def _content(folder: Path) -> dict[Path, Optional[bytes]]:
    """Return the files in a folder and in those below it, with None for a folder."""
    return {path: None if path.is_dir() else path.read_bytes() for path in folder.rglob("*")}


def _replace(folder: Path, state: Path) -> None:
    """Give a folder the files of another one. The folder itself stays: a test works in it."""
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(state, folder, dirs_exist_ok=True)


def stopped_at_each_step(run: Callable[[], object]) -> Iterator[int]:
    """Stop the process at each step like `killed_at_each_step`, but let it go on afterwards.

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
    """Return the names in a folder, without temporary folders that have no marker.

    A kill before the marker was written leaves such a folder. By its name alone it is not known as
    ours, and stays.
    """
    return sorted(path.name for path in folder.iterdir() if not is_unmarked(path))


def is_unmarked(path: Path) -> bool:
    """Return whether a path is a temporary folder without its marker."""
    return is_temporary(path.name) and not any(path.iterdir())


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
        forget_threads()
        if step:
            _signal_at(step, number)
        run()
    except BaseException:
        traceback.print_exc(file=error)
        error.flush()
    finally:
        os._exit(0)


def forget_threads() -> None:
    """Replace locks that threads of the parent may hold, because the child has no such threads."""
    from tqdm import tqdm

    # The default is shared with the parent, where a killed child would hold it for ever.
    tqdm.set_lock(threading.RLock())
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


def _signal_at(step: int, number: int) -> None:
    """Send a signal to this process before a step, or each; it cannot be taken back."""
    n_steps = 0

    def count_step() -> None:
        nonlocal n_steps
        n_steps += 1
        if step in (n_steps, EACH):
            os.kill(os.getpid(), number)

    def on_event(event: str, arguments: tuple) -> None:
        is_written = event == "open" and bool(arguments[2] & WRITING)
        if event in CHANGING or (is_written and not str(arguments[0]).startswith("/dev/")):
            count_step()

    def connected(*arguments: object, **settings: object) -> sqlite3.Connection:
        connection = connect(*arguments, **settings)
        connection.set_trace_callback(lambda done: done.startswith("COMMIT") and count_step())
        return connection

    connect, fsync = sqlite3.connect, os.fsync
    sqlite3.connect = connected
    os.fsync = lambda descriptor: (count_step(), fsync(descriptor))[1]
    sys.addaudithook(on_event)
