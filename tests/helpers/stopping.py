"""Signals that stop a process."""

import os
import signal

NAMES = ("SIGKILL", "SIGTERM", "SIGHUP")
SIGNALS = [getattr(signal, name) for name in NAMES if hasattr(signal, name)]


def listen():
    """All of them act as ever: what is started under `nohup` ignores SIGHUP."""
    for number in SIGNALS:
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)


def in_child(run):
    """Start a child that runs a function.

    run (Callable[[], None]): The function; an error of it is printed.
    RETURNS (int): The child's process.
    """
    child = os.fork()
    if child:
        return child
    status = 1
    listen()
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        run()
        status = 0
    except BaseException as error:
        print(repr(error), flush=True)
    finally:
        os._exit(status)


def wait_for(child):
    """Let a child run to its end."""
    assert os.waitpid(child, 0)[1] == 0
