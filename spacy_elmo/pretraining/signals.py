"""Signals that end a run after its step."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """Collects the first SIGINT, SIGTERM or SIGHUP; a second one acts as ever. Only the
    main thread can: elsewhere they act as ever. Under `nohup`, SIGHUP stays ignored."""
    received: list[int] = []
    previous: dict[int, Any] = {}

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)

    def receive(number: int, frame: Any) -> None:
        received.append(number)
        restore()
        print("\nStopping after this step; once more stops at once", file=sys.stderr)

    try:
        numbers = [signal.SIGINT, signal.SIGTERM]
        hang_up = getattr(signal, "SIGHUP", None)  # not on Windows
        if hang_up is not None and signal.getsignal(hang_up) != signal.SIG_IGN:
            numbers.append(hang_up)
        for number in numbers:
            previous[number] = signal.signal(number, receive)
    except ValueError:
        pass
    try:
        yield received
    finally:
        restore()
