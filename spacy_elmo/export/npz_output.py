"""Output in NumPy's `.npz`."""

import json
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from .entries import INDEX, Embedded, WriteOptions, index_json, parse_settings

SUFFIXES = (".npz",)
IS_FOLDER = False


def write(
    path: Path, entries: Iterable[Embedded], settings: dict[str, Any], options: WriteOptions
) -> None:
    """Write an npz file. Each entry is an array; its name is the entry's index in the output.

    If `options.index`, the array `sentence_to_index` maps each text to the index of its last entry,
    in JSON. Writing or reading the file takes about 340 bytes of memory per array, for the
    directory of the zip archive.

    path (Path): The file.
    entries (Iterable[Embedded]): The entries.
    settings (dict): Settings of the run. They become the comment of the zip archive if they fit.
    options (WriteOptions): Options of the format.
    """
    last: dict[str, int] = {}
    with zipfile.ZipFile(path, "w") as archive:
        comment = json.dumps(settings).encode("ascii")
        archive.comment = comment if len(comment) <= zipfile.ZIP_MAX_COMMENT else b""
        for i, entry in enumerate(entries, options.first):
            _write_array(archive, str(i), entry.vectors)
            if options.index:
                last[json.dumps(entry.text)] = i
        if options.index:
            _write_array(archive, INDEX, np.array([index_json(last)]))


def read_settings(path: Path) -> dict[str, Any]:
    """Read the settings that `write` stored; empty if another program wrote the file."""
    try:
        with zipfile.ZipFile(path) as archive:
            return parse_settings(archive.comment)
    except (OSError, zipfile.BadZipFile):
        return {}


def _write_array(archive: zipfile.ZipFile, name: str, array: np.ndarray) -> None:
    # A constant date (1980), so that equal content gives equal bytes.
    with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as file:
        np.lib.format.write_array(file, array, allow_pickle=False)
