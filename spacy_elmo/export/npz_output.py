"""NumPy's `.npz`."""

import json
import zipfile
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Any

import numpy as np

from .entries import Embedded
from .sentence_index import NAME, SentenceIndex
from .workplace import read_json

SUFFIXES = (".npz",)
IS_FOLDER = False


def write(
    path: Path,
    entries: Iterable[Embedded],
    settings: dict[str, Any],
    *,
    index: bool,
    first: int = 0,
) -> None:
    """Write a file: an array an entry, named by its number, and `sentence_to_index`, a
    JSON object, as an array of one string. Some 340 bytes an entry are held in memory, by
    this writer as by all readers.

    path (Path): The file.
    entries (Iterable[Embedded]): The entries.
    settings (dict): What they were made by; the comment of the zip archive, if it fits.
    index (bool): Whether to write `sentence_to_index`.
    first (int): Number of the first entry.
    """
    with (
        SentenceIndex(path.parent) if index else nullcontext() as sentences,
        zipfile.ZipFile(path, "w") as archive,
    ):
        comment = json.dumps(settings).encode("ascii")
        archive.comment = comment if len(comment) <= zipfile.ZIP_MAX_COMMENT else b""
        for i, entry in enumerate(entries, first):
            with _member(archive, str(i)) as file:
                np.lib.format.write_array(file, entry.vectors, allow_pickle=False)
            if sentences is not None:
                sentences.add(entry.text, i)
        if sentences is not None:
            header = {"descr": f"|S{sentences.size()}", "fortran_order": False, "shape": (1,)}
            with _member(archive, NAME) as file:
                np.lib.format.write_array_header_1_0(file, header)
                file.writelines(sentences.blocks())


def read_settings(path: Path) -> dict[str, Any]:
    """RETURNS (dict): The settings that `write` was given; none where it wrote no such file."""
    try:
        with zipfile.ZipFile(path) as archive:
            return read_json(archive.comment)
    except (OSError, zipfile.BadZipFile):
        return {}


def _member(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    """A new member; its date is 1980: the same content, the same bytes."""
    return archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True)
