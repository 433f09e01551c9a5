"""Where an unfinished run keeps what it has, so that another can go on with it."""

import errno
import json
import math
import os
import shutil
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
)
from ..files.unfinished import delete
from .entries import Embedded


class Workplace:
    """The folder `OUTPUT.part`, which carries the marker of this package: `manifest.json`, the
    settings; `chunks`, entries with their vectors, some thousand tokens a file; `whole`, the
    output while it is put together. Every file but the last takes its name when it is whole.

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
        RAISES (ValueError): It is broken."""
        try:
            manifest: dict[str, Any] = json.loads(self._manifest.read_bytes())
            manifest["settings"].items(), manifest["force"]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{self._manifest} is broken; `force=True` begins anew") from error
        return manifest

    def begin(self, manifest: dict[str, Any]) -> None:
        """Throw away what is there, and write the manifest."""
        self._manifest.unlink(missing_ok=True)
        for path in self._chunks.iterdir():
            if path.name != "lock":
                delete(path)
        atomic_write(self._manifest, json.dumps(manifest, indent=2) + "\n")

    def find_chunk(self, number: int, digest: str) -> bool:
        """Look for a chunk.

        number (int): Its number.
        digest (str): Of the tokens that it should hold.
        RETURNS (bool): Whether it is there.
        RAISES (ValueError): It holds others.
        """
        path = self._path(number)
        if not path.exists():
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
        digest (str): Of its tokens.
        entries (Iterable[Embedded]): What it holds.
        """
        with atomic_stream(self._path(number)) as file:
            file.write(digest.encode("ascii") + b"\n")
            for entry in entries:
                _write_entry(file, entry)

    def read(self, n_chunks: int) -> Iterator[Embedded]:
        """Read the entries of all chunks.

        n_chunks (int): How many there are.
        YIELDS (Embedded): An entry.
        """
        for number in range(n_chunks):
            with self._path(number).open("rb") as file:
                _read_digest(file)
                while header := file.readline():
                    yield _read_entry(file, header)

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
        """Delete the folder, if it is one of these."""
        delete_ours(self.folder)

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


def _read_digest(file: BinaryIO) -> bytes:
    return file.readline().removesuffix(b"\n")


def _write_entry(file: BinaryIO, entry: Embedded) -> None:
    """A line of JSON, the vectors, the Doc if there is one."""
    vectors = entry.vectors
    header = {"text": entry.text, "words": entry.words, "doc": len(entry.doc or b"")}
    header |= {"beside": entry.beside} if entry.beside else {}
    header |= {"dtype": vectors.dtype.str, "shape": vectors.shape}
    file.write(json.dumps(header).encode("ascii") + b"\n")
    file.write(vectors.tobytes())
    file.write(entry.doc or b"")


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
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
