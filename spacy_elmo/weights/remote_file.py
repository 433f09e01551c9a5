"""A file on a server."""

from dataclasses import dataclass
from typing import Optional


@dataclass(frozen=True)
class RemoteFile:
    """A file on a server.

    url (str): Where it is.
    size (Optional[int]): Its bytes, if they are known.
    md5 (Optional[str]): Its checksum, if one was published.
    """

    url: str
    size: Optional[int] = None
    md5: Optional[str] = None

    @property
    def name(self) -> str:
        """RETURNS (str): Its name."""
        return self.url.rpartition("/")[2]
