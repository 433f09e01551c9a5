"""Signals that end a run after its step."""

import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """Collects the first SIGINT, SIGTERM or SIGHUP; a second one acts as ever. Only the
    main thread can: elsewhere they act as ever. Under `nohup`, SIGHUP stays ignored."""
    received: list[int] = []
    with ExitStack() as restored:

        def receive(number: int, frame: Any) -> None:
            received.append(number)
            restored.close()
            print("\nStopping after this step; once more stops at once", file=sys.stderr)

        numbers = [signal.SIGINT, signal.SIGTERM]
        hang_up = getattr(signal, "SIGHUP", None)  # not on Windows
        if hang_up is not None and signal.getsignal(hang_up) != signal.SIG_IGN:
            numbers.append(hang_up)
        with suppress(ValueError):  # not the main thread
            for number in numbers:
                restored.callback(signal.signal, number, signal.signal(number, receive))
        yield received
