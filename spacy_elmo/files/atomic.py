"""Files and folders that are whole, or as they were."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Union

from .streams import followed, is_stream, open_stream
from .unfinished import PREVIOUS, delete, put_back, temporary_folder

WHOLE = "whole"


def atomic_write(path: Path, content: Union[str, bytes]) -> None:
    """Write a file so that it is whole, or as it was.

    path (Path): The file; its folder is made if need be.
    content (Union[str, bytes]): What it is to hold; text as UTF-8.
    """
    with atomic_stream(path) as file:
        file.write(content.encode("utf8") if isinstance(content, str) else content)


@contextmanager
def atomic_stream(path: Path) -> Iterator[BinaryIO]:
    """Write a file piece by piece so that it is whole, or as it was. It takes its name
    when it is on the disk. Several processes may write the same file.

    path (Path): The file; its folder is made if need be. Of a symbolic link, what it leads to.
        A device or FIFO is written into.
    YIELDS (BinaryIO): Where to write it.
    """
    path = followed(path)
    if is_stream(path):
        with open_stream(path) as file:
            yield file
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(path) as folder:
        with (folder / WHOLE).open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        publish(folder / WHOLE, path)


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Write a folder so that it is whole, or as it was: what stood there before is
    there until the new one is whole, and is deleted then.

    folder (Path): Where it is to stand. Of a symbolic link, what it leads to.
    YIELDS (Path): Where to write it.
    """
    folder = followed(folder)
    with temporary_folder(folder) as place:
        yield place / WHOLE
        replace_folder(place / WHOLE, folder, place)


def replace_folder(whole: Path, folder: Path, place: Path) -> None:
    """Give a whole folder its name. If that fails, the folder that had the name before has it
    again; after a kill, once `place` is deleted.

    whole (Path): The folder.
    folder (Path): What it is to be called.
    place (Path): A folder of ours; what had the name before is deleted with it.
    """
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
    """Give a whole file its name.

    whole (Path): The file.
    path (Path): What it is to be called; a file of this name is replaced, a device or FIFO
        is written into.
    """
    path = followed(path)
    if is_stream(path) or whole.stat().st_dev != path.parent.stat().st_dev:
        with whole.open("rb") as source, atomic_stream(path) as file:
            shutil.copyfileobj(source, file)
        return
    try:
        os.replace(whole, path)
    except OSError as error:  # The temporary name would tell the user nothing.
        raise OSError(error.errno, error.strerror, str(path)) from error


def put_on_disk(path: Path) -> None:
    """Wait until a file, or the files of a folder, are on the disk.

    path (Path): The file or folder.
    """
    for file in path.iterdir() if path.is_dir() else [path]:
        with file.open("rb+") as opened:
            os.fsync(opened.fileno())
