"""Where an unfinished run keeps what it has, so that another can go on with it."""

import errno
import hashlib
import json
import math
import os
import shutil
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Optional

import numpy as np

from ..files import (
    atomic_stream,
    atomic_write,
    by_its_name,
    check_ours,
    delete_ours,
    lock,
    make_ours,
    publish,
    put_on_disk,
    replace_folder,
    sweep,
)
from ..files.checksum import BLOCK
from ..files.schema import Boolean, Integer, Schema, String, seal
from ..files.unfinished import delete
from .entries import Embedded

FORMAT_VERSION = 2  # Chunks of version 1 have no checksums.
MANIFEST = Schema(
    {
        "format_version": Integer,
        "settings": dict[str, Any],
        "force": Boolean,
        "checksum": String,
    }
)
CHECKSUM = 64  # bytes at the end of a chunk: SHA-256 of the others, in hexadecimal


class Workplace:
    """The folder `OUTPUT.part`, which carries the marker of this package: `manifest.json`, the
    settings; `chunks`, entries with their vectors, some thousand tokens a file; `whole`, the
    output while it is put together. Every file but the last takes its name when it is whole. A
    chunk is the digest of what it was made of, a line; its entries; and the checksum of both.

    output (Path): The output.
    """

    def __init__(self, output: Path):
        self.output = output
        self.folder = output.with_name(output.name + ".part")
        self.whole = self.folder / "whole"
        self._chunks = self.folder / "chunks"
        self._manifest = self.folder / "manifest.json"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Make the folder, and hold it.

        RAISES (BlockingIOError): Another process does.
        RAISES (ValueError): Something else has the folder's name.
        """
        with by_its_name(self.output):
            self.output.parent.mkdir(parents=True, exist_ok=True)
            make_ours(self.folder)
            self._chunks.mkdir(exist_ok=True)
        with lock(self._chunks / "lock"):
            yield

    @property
    def is_begun(self) -> bool:
        """RETURNS (bool): Whether an earlier run was interrupted.
        RAISES (ValueError): Something else has the folder's name."""
        check_ours(self.folder)
        return self._manifest.is_file()

    @property
    def has_chunks(self) -> bool:
        """RETURNS (bool): Whether there is something to go on with."""
        return self._path(0).exists()

    def read_manifest(self) -> dict[str, Any]:
        """RETURNS (dict): The manifest.
        RAISES (ValueError): It is broken, or of another version."""
        try:
            return MANIFEST.read_sealed(self._manifest.read_bytes(), FORMAT_VERSION)
        except ValueError as error:
            raise ValueError(
                f"{self._manifest} cannot be resumed: {error}. Begin again with `force=True`"
            ) from error

    def begin(self, manifest: dict[str, Any]) -> None:
        """Throw away what is there, and write the manifest.

        manifest (dict): `settings`, and `force`: whether an output may be replaced.
        """
        self._manifest.unlink(missing_ok=True)
        for path in self._chunks.iterdir():
            if path.name != "lock":
                delete(path)
        content = seal({"format_version": FORMAT_VERSION, **manifest})
        atomic_write(self._manifest, json.dumps(content, indent=2) + "\n")

    def find_chunk(self, number: int, digest: str) -> bool:
        """Look for a chunk. Warn if it is damaged.

        number (int): Its number.
        digest (str): Digest of what it should be made of.
        RETURNS (bool): Whether it is there, and whole.
        RAISES (ValueError): It was made of something else.
        """
        path = self._path(number)
        if not path.exists():
            return False
        if not _is_whole(path):
            warnings.warn(f"{path} is damaged: it is computed again", stacklevel=2)
            return False
        with path.open("rb") as file:
            found = _read_digest(file)
        if found != digest.encode("ascii"):
            raise ValueError(
                f"{path} holds other tokens than are read now: tokenizer, pipeline or reader "
                f"are not the same any more. `force=True` begins anew"
            )
        return True

    def write_chunk(self, number: int, digest: str, entries: Iterable[Embedded]) -> None:
        """Write a chunk; from then on it is kept.

        number (int): Its number.
        digest (str): Digest of what it is made of.
        entries (Iterable[Embedded]): What it holds.
        """
        checksum = hashlib.sha256()
        with atomic_stream(self._path(number)) as file:
            for block in _blocks(digest, entries):
                checksum.update(block)
                file.write(block)
            file.write(checksum.hexdigest().encode("ascii"))

    def read(self, n_chunks: int) -> Iterator[Embedded]:
        """Read the entries of all chunks.

        n_chunks (int): How many there are.
        YIELDS (Embedded): An entry.
        RAISES (ValueError): A chunk was damaged since it was found or written.
        """
        for number in range(n_chunks):
            path = self._path(number)
            if not _is_whole(path):
                raise ValueError(f"{path} was damaged. `resume=True` computes it again")
            stop = path.stat().st_size - CHECKSUM
            with path.open("rb") as file:
                _read_digest(file)
                while file.tell() < stop:
                    yield _read_entry(file, file.readline())

    def clear_whole(self) -> Path:
        """Make room to put the output together.

        RETURNS (Path): Where to; nothing is there.
        RAISES (OSError): The disk has no room for the output, which is about as large
            as the chunks are: better known before than in the middle of a file.
        """
        delete(self.whole)
        size = sum(path.stat().st_size for path in self._chunks.iterdir())
        if shutil.disk_usage(self.folder).free < size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.whole))
        return self.whole

    def publish(self) -> None:
        """Give the whole output its name; what had it before is replaced."""
        put_on_disk(self.whole)
        if self.whole.is_dir():
            replace_folder(self.whole, self.output, self.folder)
        else:
            publish(self.whole, self.output)

    def delete(self) -> None:
        """Delete the folder, if it is one of these, and what is left of one that a killed process
        was deleting."""
        delete_ours(self.folder)
        sweep(self.folder.parent, self.folder.name)

    def _path(self, number: int) -> Path:
        return self._chunks / f"{number:08}"


def check_settings(
    folder: object, known: dict[str, Any], settings: dict[str, Any], advice: str
) -> None:
    """Check that a run goes on with what it was begun with.

    folder (object): What it writes to.
    known (dict): The settings that it was begun with.
    settings (dict): The settings now.
    advice (str): What to do where they differ.
    RAISES (ValueError): They differ.
    """
    different = [
        f"{name} is {settings.get(name)!r}, and was {known.get(name)!r}"
        for name in {**known, **settings}
        if known.get(name) != settings.get(name)
    ]
    if different:
        raise ValueError(
            f"{folder} was begun with other settings: {'; '.join(different)}. Give the "
            f"same, or {advice}"
        )


def _is_whole(path: Path) -> bool:
    """Compare a chunk with its checksum."""
    checksum, left = hashlib.sha256(), path.stat().st_size - CHECKSUM
    with path.open("rb") as file:
        while left > 0 and (block := file.read(min(left, BLOCK))):
            checksum.update(block)
            left -= len(block)
        return file.read() == checksum.hexdigest().encode("ascii")


def _read_digest(file: BinaryIO) -> bytes:
    return file.readline().removesuffix(b"\n")


def _blocks(digest: str, entries: Iterable[Embedded]) -> Iterator[bytes]:
    """Yield the content of a chunk: of each entry a line of JSON, the vectors, the Doc if any."""
    yield digest.encode("ascii") + b"\n"
    for entry in entries:
        vectors = entry.vectors
        header = {"text": entry.text, "words": entry.words, "doc": len(entry.doc or b"")}
        header |= {"beside": entry.beside} if entry.beside else {}
        header |= {"dtype": vectors.dtype.str, "shape": vectors.shape}
        yield json.dumps(header).encode("ascii") + b"\n"
        yield vectors.tobytes()
        yield entry.doc or b""


def _read_entry(file: BinaryIO, line: bytes) -> Embedded:
    header = json.loads(line)
    dtype, shape = np.dtype(header["dtype"]), header["shape"]
    vectors = np.frombuffer(file.read(dtype.itemsize * math.prod(shape)), dtype).reshape(shape)
    doc = file.read(header["doc"]) or None
    return Embedded(header["text"], header["words"], vectors, doc, header.get("beside", {}))


def read_json(text: Optional[Any]) -> dict[str, Any]:
    """RETURNS (dict): The settings that stand in an output; none where it is none of ours."""
    try:
        value = json.loads(text) if text else {}
    except (ValueError, TypeError, RecursionError):  # an attribute of HDF5 has any type
        return {}
    return value if isinstance(value, dict) else {}
