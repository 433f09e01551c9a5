"""A file on a server."""

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Optional
from urllib.parse import urlsplit


@dataclass(frozen=True)
class PublishedFile:
    """A file on a server.

    url (str): Where it is.
    size (Optional[int]): Its bytes, if they are known.
    md5 (Optional[str]): Its checksum, if one was published.
    other_urls (Tuple[str, ...]): Where else it may be, by other names.
    """

    url: str
    size: Optional[int] = None
    md5: Optional[str] = None
    other_urls: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """RETURNS (str): Its name."""
        return self.names[0]

    @property
    def names(self) -> list[str]:
        """RETURNS (List[str]): The names that it may have, in the order of its URLs."""
        urls = (self.url, *self.other_urls)
        return [PurePosixPath(urlsplit(url).path).name for url in urls]
