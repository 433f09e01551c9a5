"""NumPy's `.npz`."""

import io
import json
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from .entries import Embedded
from .sentence_index import NAME, SentenceIndex
from .workplace import read_json
from .zip_stream import ZipStream

SUFFIXES = (".npz",)
IS_FOLDER = False


def write(
    path: Path, entries: Iterable[Embedded], settings: dict[str, Any], *, index: bool
) -> None:
    """Write a file: an array an entry, named by its number, and `sentence_to_index`, a
    JSON object, as an array of one string.

    path (Path): The file.
    entries (Iterable[Embedded]): The entries.
    settings (dict): What they were made by; the comment of the zip archive.
    index (bool): Whether to write `sentence_to_index`.
    """
    with (
        SentenceIndex(path.parent) if index else nullcontext() as sentences,
        ZipStream(path) as archive,
    ):
        for i, entry in enumerate(entries):
            archive.add(f"{i}.npy", _npy(entry.vectors))
            if sentences is not None:
                sentences.add(entry.text)
        if sentences is not None:
            _write_index(archive, sentences)
        archive.close(json.dumps(settings).encode("ascii"))


def read_settings(path: Path) -> dict[str, Any]:
    """RETURNS (dict): The settings that `write` was given; none where it wrote no such file."""
    try:
        with zipfile.ZipFile(path) as archive:
            return read_json(archive.comment)
    except (OSError, zipfile.BadZipFile):
        return {}


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _write_index(archive: ZipStream, sentences: SentenceIndex) -> None:
    size = sentences.finish()
    buffer = io.BytesIO()
    header = {"descr": f"|S{size}", "fortran_order": False, "shape": (1,)}
    np.lib.format.write_array_header_1_0(buffer, header)
    head = buffer.getvalue()
    crc = zlib.crc32(head)
    for block in sentences.blocks():
        crc = zlib.crc32(block, crc)

    def content() -> Iterator[bytes]:
        yield head
        yield from sentences.blocks()

    archive.add_blocks(f"{NAME}.npy", content(), len(head) + size, crc)
