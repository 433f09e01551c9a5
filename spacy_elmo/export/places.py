"""Places of input and output: files, parts of files and folders, on this machine or at URLs."""

import gzip
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Optional, Union

from ..files import WHOLE, atomic_write, checksum, publish, put_on_disk, temporary_folder
from ..files.checksum import BLOCK
from ..files.remote import RemoteFile, is_url, named_access, reading
from ..files.unfinished import delete, delete_ours, is_temporary, temporary_name

IS_FILE = "is a file, but shards need a folder. Give another output."
# Stores in which an object appears when it is complete, and cannot be renamed.
OBJECT_STORES = {"abfs", "abfss", "adl", "az", "gcs", "gs", "oci", "oss", "s3", "s3a"}


def partial_folder(output: Path) -> Path:
    """Return the folder of an unfinished output, `OUTPUT.part`."""
    return output.with_name(output.name + ".part")


@dataclass(frozen=True)
class InputPiece:
    """An input file, or a part of one that was planned.

    source (str): Path or URL of the file.
    input (int): Number of the file in the plan.
    start (int): First byte of the part.
    stop (Optional[int]): End of the part; None for the whole file as it is now.
    sha256 (Optional[str]): Checksum of the part.
    first_line (int): Number of the first line, from 1.
    entries (Optional[int]): Number of entries, if the plan knows it.
    column (Optional[str]): Number of the text column, if the column's name precedes the part.
    row_groups (Optional[Tuple[int, int]]): First and end of the row groups of a Parquet file.
    unpacked (Optional[bool]): Whether `start` and `stop` count unpacked bytes of a `.gz` file.
    """

    source: str
    input: int = 0
    start: int = 0
    stop: Optional[int] = None
    sha256: Optional[str] = None
    first_line: int = 1
    entries: Optional[int] = None
    column: Optional[str] = None
    row_groups: Optional[tuple[int, int]] = None
    unpacked: Optional[bool] = None

    def __str__(self) -> str:
        return self.source

    @property
    def name(self) -> str:
        """Name of the file."""
        return (PurePosixPath if is_url(self.source) else Path)(self.source).name

    @property
    def suffix(self) -> str:
        """Ending of the file's name, or "" if the piece is read unpacked."""
        return "" if self.unpacked else PurePosixPath(self.name).suffix

    def absolute(self) -> "InputPiece":
        """Return the same piece for processes that run in another folder."""
        return self if is_url(self) else replace(self, source=str(Path(self.source).absolute()))

    def size(self) -> int:
        """Return the bytes of the whole file.

        RAISES (ValueError): It cannot be read.
        """
        if is_url(self.source):
            return RemoteFile(self.source).size()
        with reading(self.source):
            return Path(self.source).stat().st_size

    def open_file(self) -> BinaryIO:
        """Open the whole file.

        RAISES (ValueError): It cannot be read.
        """
        if is_url(self.source):
            return RemoteFile(self.source).open()
        with reading(self.source):
            return Path(self.source).open("rb")

    def open(self, *_: Any, **__: Any) -> BinaryIO:
        """Open the piece. A part is copied to a temporary file first.

        RETURNS (BinaryIO): The piece. The copy is deleted when it is closed.
        RAISES (ValueError): It cannot be read, or has changed since it was planned.
        """
        if self.stop is None:
            return self.open_file()
        digest = hashlib.sha256()
        copy = tempfile.TemporaryFile()  # noqa: SIM115  (the caller closes it)
        for block in self.blocks(self.start, self.stop):
            digest.update(block)
            copy.write(block)
        if digest.hexdigest() != self.sha256:
            copy.close()
            raise ValueError(
                f"{self.source} has changed since the shards were planned. Restore the file, or "
                f"begin again with `force=True`."
            )
        copy.seek(0)
        return copy

    def blocks(self, start: int, stop: int) -> Iterator[bytes]:
        """Read a stretch of the file.

        start (int): Its first byte.
        stop (int): Its end; it is shorter if the file is.
        YIELDS (bytes): A block.
        RAISES (ValueError): It cannot be read.
        """
        with ExitStack() as stack:
            file: Any = stack.enter_context(self.open_file())
            with reading(self.source):
                if self.unpacked:
                    file = stack.enter_context(gzip.open(file))
                file.seek(start)
            while start < stop:
                with reading(self.source):
                    block = file.read(min(stop - start, BLOCK))
                if not block:
                    break
                yield block
                start += len(block)

    def digest(self, start: int, stop: int) -> str:
        """Compute the SHA-256 of a stretch of the file."""
        digest = hashlib.sha256()
        for block in self.blocks(start, stop):
            digest.update(block)
        return digest.hexdigest()

    def read_bytes(self) -> bytes:
        """Read the piece into memory.

        RAISES (ValueError): It cannot be read, or its server does not tell its size.
        """
        if self.stop is None:
            self.size()  # A server without a size may send bytes until the memory is full.
        with self.open() as file:
            return file.read()


@dataclass(frozen=True)
class LocalFolder:
    """Folder on this machine or a mounted disk.

    path (Path): Its path.
    """

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def names(self) -> set[str]:
        """Return the names in the folder; none if there is no such folder.

        RAISES (ValueError): It is a file.
        """
        if self.path.is_dir():
            return set(os.listdir(self.path))
        if self.path.exists():
            raise ValueError(f"{self} {IS_FILE}")
        return set()

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        return (self.path / name).read_bytes()

    def write(self, name: str, content: str) -> None:
        """Write a file, which gets its name when it is complete."""
        with suppress(FileNotFoundError):  # Another process wrote the same file and cleaned up.
            atomic_write(self.path / name, content)

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """Write a file or folder, which gets its name when it is on the disk.

        If two processes write the same one, the result of the second replaces the first.

        name (str): Its name.
        YIELDS (Path): The path to write to.
        """
        path = self.path / name
        try:
            with temporary_folder(path) as place:
                yield place / WHOLE
                put_on_disk(place / WHOLE)
                publish(place / WHOLE, path)
        except OSError:
            if not path.exists():  # Otherwise another process wrote it and cleaned up.
                raise

    def compare(self, name: str, files: dict[str, Any]) -> Optional[str]:
        """Compare a file or folder with its state when it was written.

        name (str): Its name.
        files (dict): What `describe_files` returned then.
        RETURNS (Optional[str]): How it differs; None if it does not.
        """
        if describe_files(self.path / name) == files:
            return None
        return "its checksum is wrong: it was changed or damaged"

    def delete(self, name: str) -> None:
        """Delete a shard, a record, or leftovers of a killed writer."""
        if not is_temporary(name):
            delete(self.path / name)
            return
        with suppress(OSError):
            delete_ours(self.path / name)


@dataclass(frozen=True)
class RemoteFolder:
    """Folder at a URL that `fsspec` can write to.

    A file is written on this machine, and copied under a temporary name. If objects of the store
    appear only when complete, it is copied under its final name.

    url (str): Its URL.
    """

    url: str

    def __str__(self) -> str:
        return self.url

    def names(self) -> set[str]:
        """Return the names in the folder; none if there is no such folder.

        RAISES (ValueError): It is a file, or cannot be read.
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
        """Return the content of a file.

        RAISES (ValueError): It cannot be read.
        """
        return RemoteFile.join(self.url, name).read()

    def write(self, name: str, content: str) -> None:
        """Write a file, which gets its name when it is whole.

        RAISES (ValueError): It cannot be written.
        """
        with self.writing(name) as path:
            path.write_text(content, "utf8")

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """Write a file, which gets its name when it is whole.

        name (str): Its name.
        YIELDS (Path): The path to write to.
        RAISES (ValueError): It cannot be written.
        """
        with tempfile.TemporaryDirectory() as place:
            yield Path(place, name)
            with named_access(f"{self.url.rstrip('/')}/{name}", "written"):
                self._put(Path(place, name), name)

    def compare(self, name: str, files: dict[str, Any]) -> Optional[str]:
        """Compare the size of a file with its size when it was written.

        A comparison of checksums would download the whole file.

        name (str): Its name.
        files (dict): What `describe_files` returned then.
        RETURNS (Optional[str]): How it differs; None if it does not.
        RAISES (ValueError): It cannot be read.
        """
        expected = sum(about["size"] for about in files.values())
        size = RemoteFile.join(self.url, name).size()
        return None if size == expected else f"it has {size:,} bytes, not {expected:,}"

    def delete(self, name: str) -> None:
        """Delete a shard, a record, or leftovers of a killed writer, if they exist."""
        url = f"{self.url.rstrip('/')}/{name}"
        with named_access(url, "deleted"), suppress(FileNotFoundError):
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
            if not system.exists(f"{path}/{name}"):  # Otherwise another process wrote it.
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
    """Return size and checksum of a file, as ".", or of the files of a folder, by name."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return {
        file.relative_to(path).as_posix(): {"size": file.stat().st_size, "sha256": checksum(file)}
        for file in files
    }
