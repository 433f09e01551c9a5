"""Folders for output, on this machine or at URLs."""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Optional, Union

from ..files import WHOLE, atomic_write, publish, temporary_folder
from ..files.errors import named_errors, temporary_files
from ..files.input_files import describe_file
from ..files.paths import check_regular
from ..files.remote import RemoteFile, is_url, reading
from ..files.unfinished import delete, delete_ours, is_temporary, temporary_name

IS_FILE = "is a file, but shards need a folder. Choose another output."
# Maximum bytes of a name, without ".part". File systems allow 255 bytes. A longer name is cut to
# `MAX_START` bytes.
MAX_NAME, MAX_START = 250, 200
# Object stores: an object appears when it is complete, and cannot be renamed.
OBJECT_STORES = {"abfs", "abfss", "adl", "az", "gcs", "gs", "oci", "oss", "s3", "s3a"}


def partial_folder(output: Path) -> Path:
    """Return the folder of an unfinished output, `OUTPUT.part`. A very long name is cut."""
    name = os.fsencode(output.name)
    if len(name) > MAX_NAME:
        start = name[:MAX_START].decode("utf8", "ignore")
        return output.with_name(f"{start}-{hashlib.sha256(name).hexdigest()[:16]}.part")
    return output.with_name(output.name + ".part")


@dataclass(frozen=True)
class LocalFolder:
    """Folder on this machine or a mounted disk.

    path (Path): Path of the folder.
    """

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def names(self) -> set[str]:
        """Return the names of all files and subfolders; empty if the folder does not exist.

        RAISES (ValueError): The path is a file.
        """
        if self.path.is_dir():
            return set(os.listdir(self.path))
        if self.path.exists():
            raise ValueError(f"{self} {IS_FILE}")
        return set()

    def read(self, name: str) -> bytes:
        """Return the content of a file in the folder."""
        check_regular(self.path / name)
        return (self.path / name).read_bytes()

    def write(self, name: str, content: str) -> None:
        """Write a file. The file appears when it is complete."""
        with suppress(FileNotFoundError):  # Another process wrote it.
            atomic_write(self.path / name, content)

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """Context manager: write a file or folder. It gets its name at the end of the block.

        At that time, it is complete on the disk. If two processes write the same file, the second
        file replaces the first. If they write the same folder, the first folder stays.

        name (str): Name in the folder.
        YIELDS (Path): The path to write to.
        """
        path = self.path / name
        try:
            with temporary_folder(path) as place:
                yield place / WHOLE
                publish(place / WHOLE, path)
        except OSError:
            if not path.exists():  # Another process wrote it and cleaned up.
                raise

    def compare(self, name: str, files: dict[str, Any]) -> Optional[str]:
        """Compare a file or folder with its sizes and checksums at the time it was written.

        name (str): Name in the folder.
        files (dict): The result of `describe_files` at that time.
        RETURNS (Optional[str]): Description of the difference; None if nothing changed.
        """
        if describe_files(self.path / name) == files:
            return None
        return "the checksum is wrong: the file was changed or damaged"

    def delete(self, name: str) -> None:
        """Delete a shard, the record of a shard, or a temporary file of a killed process."""
        if not is_temporary(name):
            delete(self.path / name)
            return
        with suppress(OSError):
            delete_ours(self.path / name)


@dataclass(frozen=True)
class RemoteFolder:
    """Folder at a URL that `fsspec` can write to.

    A file is first written on this machine. Then it is copied under a temporary name and renamed.
    In object stores it is copied under its final name, because an object appears when it is
    complete.

    url (str): URL of the folder.
    """

    url: str

    def __str__(self) -> str:
        return self.url

    def names(self) -> set[str]:
        """Return the names of all files; empty if the folder does not exist.

        RAISES (ValueError): The URL is a file, or cannot be read.
        """
        with reading(self.url):
            system, path = self._system()
            system.invalidate_cache()
            is_file = system.isfile(path)
            found = system.ls(path, detail=False) if not is_file and system.exists(path) else []
        if is_file:
            raise ValueError(f"{self} {IS_FILE}")
        return {PurePosixPath(name).name for name in found}

    def read(self, name: str) -> bytes:
        """Return the content of a file in the folder.

        RAISES (ValueError): The file cannot be read.
        """
        return RemoteFile.join(self.url, name).read()

    def write(self, name: str, content: str) -> None:
        """Write a file. The file appears when it is complete.

        RAISES (ValueError): The file cannot be written.
        """
        with self.writing(name) as path:
            path.write_text(content, "utf8")

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """Context manager: write a file. It appears in the folder at the end of the block.

        name (str): Name in the folder.
        YIELDS (Path): The path to write to.
        RAISES (ValueError): The file cannot be written.
        """
        with tempfile.TemporaryDirectory() as place:
            with temporary_files():
                yield Path(place, name)
            with named_errors(f"{self.url.rstrip('/')}/{name} cannot be written", Exception):
                self._put(Path(place, name), name)

    def compare(self, name: str, files: dict[str, Any]) -> Optional[str]:
        """Compare the size of a file with its size at the time it was written.

        Checksums are not compared, because that would download the whole file.

        name (str): Name in the folder.
        files (dict): The result of `describe_files` at that time.
        RETURNS (Optional[str]): Description of the difference; None if nothing changed.
        RAISES (ValueError): The file cannot be read.
        """
        expected = sum(about["size"] for about in files.values())
        size = RemoteFile.join(self.url, name).size()
        return None if size == expected else f"it has {size:,} bytes, not {expected:,}"

    def delete(self, name: str) -> None:
        """Delete a shard, a record or a temporary file, if it exists."""
        url = f"{self.url.rstrip('/')}/{name}"
        with named_errors(f"{url} cannot be deleted", Exception), suppress(FileNotFoundError):
            system, path = self._system()
            system.rm_file(f"{path}/{name}")

    def _put(self, file: Path, name: str) -> None:
        system, path = self._system()
        protocols = {system.protocol} if isinstance(system.protocol, str) else {*system.protocol}
        if protocols & OBJECT_STORES:
            system.put_file(str(file), f"{path}/{name}")
            return
        unfinished = f"{path}/{temporary_name(name)}"
        system.makedirs(path, exist_ok=True)
        system.put_file(str(file), unfinished)
        try:
            system.mv(unfinished, f"{path}/{name}")
        except Exception:
            if not system.exists(f"{path}/{name}"):  # If the file exists, another process wrote it.
                raise
            with suppress(FileNotFoundError):
                system.rm_file(unfinished)

    def _system(self) -> tuple[Any, str]:
        from fsspec.core import url_to_fs

        system, path = url_to_fs(self.url)
        return system, path.rstrip("/")


Folder = Union[LocalFolder, RemoteFolder]


def open_folder(given: Union[str, Path]) -> Folder:
    """Return the folder at a path or URL."""
    return RemoteFolder(str(given)) if is_url(given) else LocalFolder(Path(given))


def describe_files(path: Path) -> dict[str, Any]:
    """Return size and SHA-256 of a file, or of each file in a folder.

    path (Path): The file or folder.
    RETURNS (dict): For each file, a dict of "size" and "sha256". The key is the file's path in the
        folder, or "." if `path` is a file.
    """
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    for file in files:
        check_regular(file)  # A FIFO could wait forever.
    return {file.relative_to(path).as_posix(): describe_file(file) for file in files}
