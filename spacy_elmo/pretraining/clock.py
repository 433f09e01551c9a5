"""Clock of a run, and the part of its time in which it waited for a processor."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def seconds_waited() -> float:
    """Return how long this thread was ready to run, but waited for a free processor.

    RETURNS (float): Seconds of waiting since the thread began. 0 on systems other than Linux, where
        this is not known.
    """
    try:
        return int(Path("/proc/thread-self/schedstat").read_text("ascii").split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


class Clock:
    """Clock of a run. In a resumed run it continues from the earlier time.

    elapsed (float): Seconds of the run before the clock starts; 0 in a new run.
    waited (float): Part of these seconds in which the run waited for a processor.
    """

    def __init__(self, elapsed: float, waited: float):
        self._set(elapsed, waited)

    def _set(self, elapsed: float, waited: float) -> None:
        self._began = time.monotonic() - elapsed
        self._began_waiting = seconds_waited() - waited

    def read(self) -> tuple[float, float]:
        """Return the seconds so far, and how many of them the run waited for a processor."""
        return time.monotonic() - self._began, seconds_waited() - self._began_waiting

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Context manager: do not count the time of the block."""
        elapsed, waited = self.read()
        yield
        self._set(elapsed, waited)
