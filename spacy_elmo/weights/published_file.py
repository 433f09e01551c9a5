"""Description of a file on a server."""

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Optional
from urllib.parse import urlsplit


@dataclass(frozen=True)
class PublishedFile:
    """File on a server.

    url (str): Its URL.
    size (Optional[int]): Its size in bytes, if known.
    md5 (Optional[str]): Its checksum, if published.
    other_urls (Tuple[str, ...]): Other URLs to try, with other file names.
    """

    url: str
    size: Optional[int] = None
    md5: Optional[str] = None
    other_urls: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its name."""
        return self.names[0]

    @property
    def names(self) -> list[str]:
        """Its possible names, in the order of its URLs."""
        urls = (self.url, *self.other_urls)
        return [PurePosixPath(urlsplit(url).path).name for url in urls]
