"""Files and folders that are whole, or as they were."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Union

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write_whole(path: Path, content: Union[str, bytes]) -> None:
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
def whole_folder(folder: Path) -> Iterator[Path]:
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
