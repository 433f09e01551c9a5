"""Models whose weights stay in the files that they were read from."""

import os
from collections.abc import Callable
from pathlib import Path

from ..bilm.model import BiLM
from ..files import OpenedFile
from .archives import File


def open_files(*files: File) -> list[OpenedFile]:
    """Open the files of a model, before they are read.

    files (Union[Path, zipfile.Path]): The files.
    RETURNS (List[OpenedFile]): The same; none if one is in an archive, cannot be opened, or the
        system cannot read one as `OpenedFile` does (Windows).
    """
    paths = [file for file in files if isinstance(file, Path) and file.is_file()]
    if len(paths) < len(files) or not hasattr(os, "preadv"):
        return []
    try:
        return [OpenedFile(path) for path in paths]
    except OSError:
        return []


def offload(bilm: BiLM, files: list[OpenedFile], read: Callable[..., BiLM]) -> None:
    """Leave a model's weights in its files.

    bilm (BiLM): The model that was read, from the beginning to the end of this.
    files (List[OpenedFile]): What `open_files` gave; none if the model is to keep its weights.
    read (Callable[..., BiLM]): Reads the same model, of the opened files.
    """
    if not files or not all(file.is_at_its_path() for file in files):  # replaced meanwhile
        return

    def read_again() -> BiLM:
        again = read(*files)
        for file in files:
            file.check()
        return again

    bilm.offload(read_again)
