"""Signals that stop a process."""

import signal

NAMES = ("SIGKILL", "SIGTERM", "SIGHUP")
SIGNALS = [getattr(signal, name) for name in NAMES if hasattr(signal, name)]


def listen():
    """All of them act as ever: what is started under `nohup` ignores SIGHUP."""
    for number in SIGNALS:
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
