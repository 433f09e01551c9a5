"""Output in NumPy's `.npz`."""

import json
import zipfile
import zlib
from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from .entries import INDEX, Embedded, WriteOptions, index_json, parse_settings

SUFFIXES = (".npz",)
IS_FOLDER = False
SETTINGS = "settings.json"  # Name of the settings that are too long for the comment.
MAX_SETTINGS = 1 << 24  # Maximum bytes of the settings in a file of another program.


def write(
    path: Path, entries: Iterable[Embedded], settings: dict[str, Any], options: WriteOptions
) -> None:
    """Write an npz file. Each entry is an array; its name is the entry's index in the output.

    If `options.texts` is "index", the array `sentence_to_index` maps each text to the index of its
    last entry, in JSON. The arrays `file` and `line` have the place of each entry in the input;
    `file` has indices of the array `files`, because NumPy stores equal strings again and again.
    Writing or reading the file takes about 340 bytes of memory per array, for the directory of the
    zip archive.

    path (Path): The file.
    entries (Iterable[Embedded]): The entries.
    settings (dict): Settings of the run. They become the comment of the zip archive, or if they
        are too long for it, its file `settings.json`.
    options (WriteOptions): Options of the format.
    """
    last: dict[str, int] = {}
    files: dict[str, int] = {}
    places, lines = array("i"), array("q")
    with zipfile.ZipFile(path, "x") as archive:
        comment = json.dumps(settings).encode("ascii")
        if len(comment) <= zipfile.ZIP_MAX_COMMENT:
            archive.comment = comment
        else:
            archive.writestr(zipfile.ZipInfo(SETTINGS), comment)
        for i, entry in enumerate(entries, options.first):
            _write_array(archive, str(i), entry.vectors)
            places.append(files.setdefault(entry.source.file, len(files)))
            lines.append(entry.source.line)
            if options.texts == "index":
                last[json.dumps(entry.text)] = i
        _write_array(archive, "files", np.array(list(files), "U"))
        _write_array(archive, "file", np.array(places, "int32"))
        _write_array(archive, "line", np.array(lines, "int64"))
        if options.texts == "index":
            _write_array(archive, INDEX, np.array([index_json(last)]))


def read_settings(path: Path) -> dict[str, Any]:
    """Read the settings that `write` stored; empty if another program wrote the file."""
    try:
        with zipfile.ZipFile(path) as archive:
            if SETTINGS not in archive.namelist():
                return parse_settings(archive.comment)
            if archive.getinfo(SETTINGS).file_size > MAX_SETTINGS:
                return {}
            return parse_settings(archive.read(SETTINGS))
    except (OSError, RuntimeError, EOFError, zlib.error, zipfile.BadZipFile):
        return {}


def _write_array(archive: zipfile.ZipFile, name: str, values: np.ndarray) -> None:
    # A constant date (1980), so that equal content gives equal bytes.
    with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as file:
        np.lib.format.write_array(file, values, allow_pickle=False)
