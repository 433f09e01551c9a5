"""Files and folders that are whole or as they were; checksums, locks, full disks, progress."""

import errno
import hashlib
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Union

if TYPE_CHECKING:
    from tqdm import tqdm

BLOCK = 1 << 20  # bytes read at a time
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def atomic_write(path: Path, content: Union[str, bytes]) -> None:
    """Write a file so that it is whole, or as it was.

    path (Path): The file; its folder is made if need be.
    content (Union[str, bytes]): What it is to hold; text as UTF-8.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".part")
    try:
        unfinished.write_bytes(content.encode("utf8") if isinstance(content, str) else content)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Write a folder so that it is whole, or as it was: what stood there before is
    there until the new one is whole.

    folder (Path): Where it is to stand.
    YIELDS (Path): Where to write it.
    """
    unfinished = folder.with_name(folder.name + ".part")
    previous = folder.with_name(folder.name + ".old")
    if previous.exists() and not folder.exists():  # a kill between the two renames
        previous.rename(folder)
    for leftover in (unfinished, previous):
        shutil.rmtree(leftover, ignore_errors=True)
    try:
        yield unfinished
        if folder.exists():
            folder.rename(previous)
        unfinished.rename(folder)
    finally:
        if previous.exists() and not folder.exists():
            previous.rename(folder)
        for leftover in (unfinished, previous):
            shutil.rmtree(leftover, ignore_errors=True)


@contextmanager
def full_disk(output: Path, advice: str = "run the same again") -> Iterator[None]:
    """Say what to do where there is no more room.

    output (Path): What is written.
    advice (str): How to go on, afterwards.
    RAISES (OSError): The disk is full.
    """
    try:
        yield
    except OSError as error:
        # Some libraries put it into their message alone.
        reasons = [n for n in _FULL if n == error.errno or os.strerror(n) in str(error)]
        if not reasons:
            raise
        raise OSError(
            f"{output} cannot be written: {os.strerror(reasons[0])}. Make room and {advice}: it "
            f"goes on from here."
        ) from error


def checksum(path: Path) -> str:
    """RETURNS (str): The SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def close_as(file: BinaryIO, unfinished: Path, path: Path) -> None:
    """Bring a written file to the disk, then give it its name."""
    with file:
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, path)


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


def progress_bar(total: int, name: str, unit: str) -> "tqdm":
    """RETURNS (tqdm): A bar; in a log it is written once a minute."""
    from tqdm import tqdm

    return tqdm(
        total=total,
        desc=name,
        unit=unit,
        unit_scale=True,
        mininterval=0.5 if sys.stderr.isatty() else 60.0,
    )
