"""Files and folders that are whole, or as they were."""

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Union


def atomic_write(path: Path, content: Union[str, bytes], *, suffix: str = ".part") -> None:
    """Write a file so that it is whole, or as it was.

    path (Path): The file; its folder is made if need be.
    content (Union[str, bytes]): What it is to hold; text as UTF-8.
    suffix (str): As of `atomic_stream`.
    """
    with atomic_stream(path, suffix=suffix) as file:
        file.write(content.encode("utf8") if isinstance(content, str) else content)


@contextmanager
def atomic_stream(path: Path, *, suffix: str = ".part") -> Iterator[BinaryIO]:
    """Write a file piece by piece so that it is whole, or as it was. It takes its name
    when it is on the disk.

    path (Path): The file; its folder is made if need be.
    suffix (str): What its name ends in until then; a kill leaves this file behind.
        Another for each process where several may write the same file.
    YIELDS (BinaryIO): Where to write it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + suffix)
    try:
        with by_its_name(path):
            with unfinished.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(unfinished, path)
    finally:
        with suppress(PermissionError):
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

    def clear() -> None:
        if previous.exists() and not folder.exists():  # a kill between the two renames
            previous.rename(folder)
        for leftover in (unfinished, previous):
            shutil.rmtree(leftover, ignore_errors=True)

    clear()
    try:
        with by_its_name(folder):
            yield unfinished
            if folder.exists():
                folder.rename(previous)
            unfinished.rename(folder)
    finally:
        clear()


@contextmanager
def by_its_name(path: Path) -> Iterator[None]:
    """Name what was to be written, where a temporary name beside it may not be.

    path (Path): What is written.
    RAISES (PermissionError): Its folder may not be written to.
    """
    try:
        yield
    except PermissionError as error:
        if error.filename is not None and Path(error.filename).parent == path.parent:
            error.filename = str(path)
        raise


def put_on_disk(path: Path) -> None:
    """Wait until a file, or the files of a folder, are on the disk.

    path (Path): The file or folder.
    """
    for file in path.iterdir() if path.is_dir() else [path]:
        with file.open("rb+") as opened:
            os.fsync(opened.fileno())


def process_name() -> str:
    """RETURNS (str): A name for files that no other process has at the same time, here or on
    another machine."""
    return f"{socket.gethostname()}-{os.getpid()}"
