"""One process at a time in a folder."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold a lock. The system releases it when the process ends, however it ends.

    path (Path): The file that stands for it.
    RAISES (BlockingIOError): Another process holds it.
    """
    with path.open("a+b") as file:
        try:
            if sys.platform == "win32":
                import msvcrt

                msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
            else:
                import fcntl

                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            raise BlockingIOError(
                f"another process is writing to {path.parent.parent}: wait for it, or give "
                f"another folder"
            ) from error
        yield
