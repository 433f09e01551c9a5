"""A file on a server."""

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Optional
from urllib.parse import urlsplit


@dataclass(frozen=True)
class RemoteFile:
    """A file on a server.

    url (str): Where it is.
    size (Optional[int]): Its bytes, if they are known.
    md5 (Optional[str]): Its checksum, if one was published.
    other_url (Optional[str]): Where else it may be.
    """

    url: str
    size: Optional[int] = None
    md5: Optional[str] = None
    other_url: Optional[str] = None

    @property
    def name(self) -> str:
        """RETURNS (str): Its name."""
        return PurePosixPath(urlsplit(self.url).path).name
