"""Description of a file on a server."""

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Optional
from urllib.parse import urlsplit


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
        urls = (self.url, *self.other_urls)
        return [PurePosixPath(urlsplit(url).path).name for url in urls]
