"""Atomic writes of files and folders, and a lock for writers.

A file or folder is written under a temporary name, flushed to the disk, and renamed. So readers
see the old content or the complete new content.
"""

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Union

from .errors import named_if_full
from .paths import followed, is_stream, open_stream
from .unfinished import PREVIOUS, delete, put_back, temporary_folder

WHOLE = "whole"
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)


def atomic_write(path: Path, content: Union[str, bytes]) -> None:
    """Write a file. If writing fails, an existing file stays unchanged.

    path (Path): The file. Missing folders are created.
    content (Union[str, bytes]): The content. Text is encoded as UTF-8.
    """
    with atomic_stream(path) as file:
        file.write(content.encode("utf8") if isinstance(content, str) else content)


@contextmanager
def atomic_stream(path: Path) -> Iterator[BinaryIO]:
    """Context manager: write a file piece by piece. If this fails, an existing file is unchanged.

    The file gets its name at the end of the block, when it is complete on the disk. If several
    processes write the same file, the last one wins.

    path (Path): The file. Missing folders are created. Symbolic links are followed.
    YIELDS (BinaryIO): A temporary file. If `is_stream` is true for the path: the file itself.
    """
    path = followed(path)
    if is_stream(path):
        with named_if_full(path), open_stream(path) as file:
            yield file
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(path) as folder:
        with (folder / WHOLE).open("xb") as file:
            yield file
        publish(folder / WHOLE, path)


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Context manager: write a folder, and replace an earlier folder at the end of the block.

    If the block fails, the earlier folder stays unchanged.

    folder (Path): The folder. A symbolic link is followed.
    YIELDS (Path): Temporary path at which the caller must create the folder.
    """
    folder = followed(folder)
    with temporary_folder(folder) as place:
        yield place / WHOLE
        replace_folder(place / WHOLE, folder, place)


def replace_folder(whole: Path, folder: Path, place: Path) -> None:
    """Rename a complete folder to its final name, and replace an earlier folder.

    The earlier folder is first moved into `place`. If the renaming fails, the earlier folder is
    moved back. If the process is killed, a later `delete_ours(place)` moves it back.

    whole (Path): The complete folder.
    folder (Path): The final name.
    place (Path): A folder for unfinished output (see `unfinished`). The caller deletes it.
    """
    _put_on_disk(whole)
    try:
        if folder.exists():
            delete(place / PREVIOUS)
            (place / PREVIOUS).mkdir()
            folder.rename(place / PREVIOUS / folder.name)
        whole.rename(folder)
    except BaseException:
        put_back(place)
        raise


def publish(whole: Path, path: Path) -> None:
    """Rename a complete file to its final name, and replace an existing file.

    whole (Path): The complete file.
    path (Path): The final name. If it is a device or FIFO, or on another disk, the content of
        `whole` is copied to it.
    """
    path = followed(path)
    if is_stream(path) or whole.stat().st_dev != path.parent.stat().st_dev:
        with whole.open("rb") as source, atomic_stream(path) as file:
            shutil.copyfileobj(source, file)
        return
    _put_on_disk(whole)
    try:
        os.replace(whole, path)
    except OSError as error:  # Name the output, because users do not know the temporary name.
        raise OSError(error.errno, error.strerror, str(path)) from error


def put_on_disk(file: BinaryIO) -> None:
    """Flush an open file to the disk. The content of a device or FIFO is only passed on."""
    file.flush()
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        os.fsync(file.fileno())


def _put_on_disk(path: Path) -> None:
    """Flush a file, or all files in a folder, to the disk."""
    for file in path.rglob("*") if path.is_dir() else [path]:
        if file.is_file():
            with file.open("rb+") as opened:
                put_on_disk(opened)


@contextmanager
def lock(path: Path, *, wait: bool = False) -> Iterator[None]:
    """Context manager: lock a file. The system releases the lock if the process dies.

    path (Path): The lock file.
    wait (bool): Whether to wait for a process that has the lock.
    RAISES (BlockingIOError): Another process has the lock, and `wait` is False.
    RAISES (OSError): The file system has no locks.
    """
    from filelock import FileLock, Timeout

    try:
        held = FileLock(path).acquire(-1 if wait else 0)
    except Timeout as error:
        raise BlockingIOError(
            f"another process is writing to {path.parent.parent}. Wait for it, or choose "
            f"another folder."
        ) from error
    except (OSError, NotImplementedError) as error:
        if isinstance(error, OSError) and error.errno not in _NO_LOCKS:
            raise
        raise OSError(
            f"{path}: this file system has no locks. Write to another disk, and copy the result"
        ) from error
    with held:
        yield
