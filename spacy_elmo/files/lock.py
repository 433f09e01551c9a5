"""One lock for what two processes must not do at once."""

import errno
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)


@contextmanager
def lock(path: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold a lock. The system releases it when the process ends, however it ends.

    path (Path): The lock file.
    wait (bool): Whether to wait for another process that holds the lock.
    RAISES (BlockingIOError): Another process holds it.
    RAISES (OSError): The file system has no locks.
    """
    from filelock import FileLock, Timeout

    with ExitStack() as stack:
        try:
            stack.enter_context(FileLock(path, timeout=-1 if wait else 0))
        except Timeout as error:
            raise BlockingIOError(
                f"another process is writing to {path.parent.parent}: wait for it, or give "
                f"another folder"
            ) from error
        except (OSError, NotImplementedError) as error:
            if isinstance(error, OSError) and error.errno not in _NO_LOCKS:
                raise
            raise OSError(
                f"{path}: this file system has no locks. Write to another disk, and copy the result"
            ) from error
        yield
