"""One lock for what two processes must not do at once."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path


@contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold a lock. The system releases it when the process ends, however it ends.

    path (Path): The file that stands for it.
    RAISES (BlockingIOError): Another process holds it.
    """
    from filelock import FileLock, Timeout

    with ExitStack() as stack:
        try:
            stack.enter_context(FileLock(path, timeout=0))
        except Timeout as error:
            raise BlockingIOError(
                f"another process is writing to {path.parent.parent}: wait for it, or give "
                f"another folder"
            ) from error
        yield
