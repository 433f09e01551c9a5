"""Where shards are written: a folder of this machine, or a URL."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Optional, Union

from ..files import (
    WHOLE,
    atomic_write,
    checksum,
    delete_ours,
    publish,
    put_on_disk,
    temporary_folder,
)
from ..files.remote import RemoteFile, is_url, reading
from ..files.unfinished import temporary_name

# Their objects appear when they are whole, and cannot be renamed, only copied.
OBJECT_STORES = {"abfs", "abfss", "adl", "az", "gcs", "gs", "oci", "oss", "s3", "s3a"}


@dataclass(frozen=True)
class LocalFolder:
    """A folder of this machine, or one that is mounted.

    path (Path): Where it is.
    """

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def names(self) -> set[str]:
        """RETURNS (Set[str]): What is in it; nothing where there is no such folder.
        RAISES (ValueError): It is a file."""
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"{self} is a file: shards stand in a folder")
        return set(os.listdir(self.path)) if self.path.exists() else set()

    def read(self, name: str) -> bytes:
        """RETURNS (bytes): A file."""
        return (self.path / name).read_bytes()

    def write(self, name: str, content: str) -> None:
        """Write a file, which gets its name when it is whole."""
        with suppress(FileNotFoundError):  # another process has written the same, and swept
            atomic_write(self.path / name, content)

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """Write a file or folder, which gets its name when it is on the disk. Where two processes
        make the same one, the work of one is for nothing.

        name (str): Its name.
        YIELDS (Path): Where to write it.
        """
        path = self.path / name
        try:
            with temporary_folder(path) as place:
                yield place / WHOLE
                put_on_disk(place / WHOLE)
                publish(place / WHOLE, path)
        except OSError:
            if not path.exists():  # else another process has made it, and may have swept
                raise

    def compare(self, name: str, files: dict[str, Any]) -> Optional[str]:
        """Compare a file or folder with what it was when it was written.

        name (str): Its name.
        files (dict): What `describe_files` returned then.
        RETURNS (Optional[str]): How it differs; None if it does not.
        """
        if describe_files(self.path / name) == files:
            return None
        return "its checksum is wrong: it was changed or damaged"

    def delete(self, name: str) -> None:
        """Delete what `writing` has left unfinished."""
        with suppress(OSError):
            delete_ours(self.path / name)


@dataclass(frozen=True)
class RemoteFolder:
    """A folder that `fsspec` writes to. A file is made on this machine, then copied there: under
    another name, which is changed when it is whole, or at once where objects appear whole.

    url (str): Where it is.
    """

    url: str

    def __str__(self) -> str:
        return self.url

    def names(self) -> set[str]:
        """RETURNS (Set[str]): What is in it; nothing where there is no such folder.
        RAISES (ValueError): It is a file, or cannot be read."""
        with reading(self.url):
            system, path = self._system()
            system.invalidate_cache()
            is_file = system.isfile(path)
            found = system.ls(path, detail=False) if not is_file and system.exists(path) else []
        if is_file:
            raise ValueError(f"{self} is a file: shards stand in a folder")
        return {PurePosixPath(name).name for name in found}

    def read(self, name: str) -> bytes:
        """RETURNS (bytes): A file.
        RAISES (ValueError): It cannot be read."""
        return RemoteFile.join(self.url, name).read()

    def write(self, name: str, content: str) -> None:
        """Write a file, which gets its name when it is whole.

        RAISES (ValueError): It cannot be written."""
        with self.writing(name) as path:
            path.write_text(content, "utf8")

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """Write a file, which gets its name when it is whole.

        name (str): Its name.
        YIELDS (Path): Where to write it.
        RAISES (ValueError): It cannot be written.
        """
        with tempfile.TemporaryDirectory() as place:
            yield Path(place, name)
            with self._writing(name):
                self._put(Path(place, name), name)

    def compare(self, name: str, files: dict[str, Any]) -> Optional[str]:
        """Compare the size of a file with what it was when it was written. To compare its
        checksum, all of it would have to be fetched.

        name (str): Its name.
        files (dict): What `describe_files` returned then.
        RETURNS (Optional[str]): How it differs; None if it does not.
        RAISES (ValueError): It cannot be read.
        """
        expected = sum(about["size"] for about in files.values())
        size = RemoteFile.join(self.url, name).size()
        return None if size == expected else f"it has {size:,} bytes, not {expected:,}"

    def delete(self, name: str) -> None:
        """Delete what `writing` has left unfinished, if it is there."""
        with self._writing(name), suppress(FileNotFoundError):
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
            if not system.exists(f"{path}/{name}"):  # else another process has made it
                raise
            with suppress(FileNotFoundError):
                system.rm_file(unfinished)

    def _system(self) -> tuple[Any, str]:
        from fsspec.core import url_to_fs

        system, path = url_to_fs(self.url)
        return system, path.rstrip("/")

    @contextmanager
    def _writing(self, name: str) -> Iterator[None]:
        """Name what cannot be written: what is elsewhere fails in each library's own way."""
        try:
            yield
        except (MemoryError, ImportError):
            raise
        except Exception as error:
            reason = str(error) or type(error).__name__
            raise ValueError(
                f"{self.url.rstrip('/')}/{name} cannot be written: {reason}"
            ) from error


Folder = Union[LocalFolder, RemoteFolder]


def open_folder(given: Union[str, Path]) -> Folder:
    """RETURNS (Union[LocalFolder, RemoteFolder]): What a path or URL means."""
    return RemoteFolder(str(given)) if is_url(given) else LocalFolder(Path(given))


def describe_files(path: Path) -> dict[str, Any]:
    """RETURNS (dict): Size and checksum of a file, "."; or of the files of a folder, by name."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return {
        file.relative_to(path).as_posix(): {"size": file.stat().st_size, "sha256": checksum(file)}
        for file in files
    }
