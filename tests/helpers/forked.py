"""Programs in a forked process, which has imported PyTorch and spaCy already.

A new process takes seconds to import them. Use one, by `commands.run_python`, only to test what a
program imports, how it begins and what memory it takes.
"""

import multiprocessing
import os
import runpy
import signal
import sys
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import BinaryIO

import pytest

from helpers.commands import run_python
from helpers.killed import forget_threads

# Elsewhere a fork is not safe, as on macOS, or there is none.
HAS_FORKS = sys.platform == "linux"
forks = pytest.mark.skipif(not HAS_FORKS, reason="forks")


def start(run: Callable[..., object], *arguments: object) -> tuple[BaseProcess, BinaryIO]:
    """Call a function in a forked process, with a process group of its own.

    RETURNS (Tuple[BaseProcess, BinaryIO]): The process, and what it prints, errors too.
    """
    reading, writing = os.pipe()
    context = multiprocessing.get_context("fork")
    process = context.Process(target=_begin, args=(writing, run, *arguments))
    process.start()
    os.close(writing)
    return process, os.fdopen(reading, "rb")


def run_forked(*arguments: str) -> None:
    """Run `python ARGUMENTS`, `-m MODULE` or `-c CODE` first, in a forked process. Where forks are
    not safe it is a new process."""
    if not HAS_FORKS:
        run_python(*arguments)
        return
    process, printed = start(run_program, list(arguments))
    with printed:
        found = printed.read().decode()
    process.join()
    assert process.exitcode == 0, found


def run_program(arguments: list[str], cwd: Path | None = None) -> None:
    """Run a module or code as `python` does, with its own copy of the project's scripts."""
    option, program, *rest = arguments
    os.chdir(cwd or os.curdir)
    for name in [name for name in sys.modules if name.partition(".")[0] == "scripts"]:
        del sys.modules[name]
    sys.path.insert(0, os.getcwd())
    sys.argv = [option, *rest]
    if option == "-c":
        exec(program, {"__name__": "__main__"})
    else:
        runpy.run_module(program, run_name="__main__", alter_sys=True)


def _begin(writing: int, run: Callable[..., object], *arguments: object) -> None:
    os.setsid()
    # Not ignored, as it is where the tests themselves run in the background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    forget_threads()
    os.dup2(writing, 1)
    os.dup2(writing, 2)
    sys.stdout = os.fdopen(1, "w", buffering=1, encoding="utf8")
    sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf8")
    run(*arguments)
