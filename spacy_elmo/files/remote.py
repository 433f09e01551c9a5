"""Files at URLs: read with `fsspec`, or described for a download."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import BinaryIO, Optional, cast
from urllib.parse import urlsplit

from .errors import named_errors

LARGEST_WHOLE = 1 << 28  # Maximum bytes of a file that is read at once, such as a manifest.


def is_url(given: object) -> bool:
    """Return whether a string is a URL, not a path."""
    return "://" in str(given)


def reading(source: str) -> AbstractContextManager[None]:
    """Return a context manager that turns errors of reading into a ValueError.

    source (str): Path or URL, for the message.
    RAISES (ValueError): The source cannot be read.
    """
    # Each file system has its own error types.
    return named_errors(f"{source} cannot be read", Exception)


class RemoteFile:
    """File at a URL. Each call reads the file again. Errors name the URL.

    url (str): The URL.
    """

    def __init__(self, url: str):
        from fsspec.core import url_to_fs

        self.url = url
        with reading(url):
            self._file_system, self._path = url_to_fs(url)

    @classmethod
    def join(cls, folder: object, name: str) -> "RemoteFile":
        """Return the file `name` in the folder at a URL."""
        return cls(f"{str(folder).rstrip('/')}/{name}")

    def __str__(self) -> str:
        return self.url

    def exists(self) -> bool:
        """Return whether the file exists.

        RAISES (ValueError): The server does not answer.
        """
        with reading(self.url):
            return bool(self._file_system.exists(self._path))

    def size(self) -> int:
        """Return the size in bytes.

        RAISES (ValueError): The file cannot be read, or the server does not send the size. A file
            without a size may have no end.
        """
        with reading(self.url):
            size = self._file_system.size(self._path)
            if size is None:
                raise ValueError("the server sends no size. Download the file, and give its path")
            return int(size)

    def open(self) -> BinaryIO:
        """Open the file for reading.

        RAISES (ValueError): The file cannot be read.
        """
        with reading(self.url):
            return cast(BinaryIO, self._file_system.open(self._path, "rb"))

    def read(self) -> bytes:
        """Read the whole file, after a check of its size.

        RETURNS (bytes): The content.
        RAISES (ValueError): The file cannot be read, or has more than `LARGEST_WHOLE` bytes.
        """
        if (size := self.size()) > LARGEST_WHOLE:
            raise ValueError(
                f"{self.url} has {size:,} bytes. At most {LARGEST_WHOLE:,} are "
                f"allowed. Check the URL."
            )
        with reading(self.url):
            return bytes(self._file_system.cat_file(self._path))


@dataclass(frozen=True)
class PublishedFile:
    """File on a server: its URLs, size and checksum.

    url (str): The URL.
    size (Optional[int]): Size in bytes, if known.
    md5 (Optional[str]): MD5 checksum, if published.
    other_urls (Tuple[str, ...]): More URLs to try, with other file names.
    """

    url: str
    size: Optional[int] = None
    md5: Optional[str] = None
    other_urls: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """File name of the first URL."""
        return self.names[0]

    @property
    def names(self) -> list[str]:
        """File name of each URL, in the same order."""
        return [PurePosixPath(urlsplit(url).path).name for url in (self.url, *self.other_urls)]
