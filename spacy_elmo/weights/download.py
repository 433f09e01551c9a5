"""Resumable download of one file over HTTP.

Models have up to several hundred megabytes. A connection may break, and the file on the server may
change between two attempts. So the bytes are written to `NAME.part`, and the ETag or date of the
file to `NAME.part.version`. The next attempt requests the remaining bytes with `If-Range`: if the
file has changed, the server sends it from the start. A file gets its final name after a check of
its size and checksum, and only if it can be opened.

Invariant: the version is written before the first byte. So a `.part` without a version is a file
of the user, and is never overwritten.
"""

import json
import os
import shutil
import time
import zipfile
from pathlib import Path
from typing import Any

import requests

from .. import __version__
from ..files import checksum, full_disk, progress_bar, publish
from ..files.errors import named_errors
from ..files.paths import open_no_link
from ..files.remote import PublishedFile
from .limits import LARGEST_JSON, largest_unpacked

TIMEOUT = (15.0, 60.0)  # Seconds to wait for a connection, and for the next bytes.
PROXY = " (behind a proxy, set HTTPS_PROXY to its URL)"
PAUSE = 1.0  # Seconds before the second attempt. Each further pause is twice as long.
ATTEMPTS = 5  # Maximum number of consecutive attempts without new bytes.
ATTEMPTS_TO_REACH = 2  # Maximum number of attempts if the server never answered.
MAX_BYTES = 8 << 30  # Maximum size of a file of unknown size. JSON has a smaller limit.
CHUNK = 1 << 14  # Bytes per write. A broken connection loses at most one write.
TEMPORARY = (408, 425, 429, 500, 502, 503, 504)  # HTTP statuses after which a request is repeated.


class DownloadError(OSError):
    """Error for a failed download, or a downloaded file with wrong content."""

    exit_code = 4


class _BrokenOff(Exception):
    """Error of one attempt to download a file. The next attempt may succeed."""


_ANOTHER_ATTEMPT = (
    requests.ConnectionError,
    requests.Timeout,
    requests.exceptions.ChunkedEncodingError,  # The connection ended before the file did.
    _BrokenOff,
)


def download(file: PublishedFile, target: Path) -> None:
    """Download a file, or resume its download.

    The file gets its final name when it is complete, has the right checksum and can be opened.
    Until then, its name has the suffix `.part`. After an interruption, the next call resumes if the
    file on the server is unchanged.

    target (Path): Missing folders are created.
    RAISES (DownloadError): The download failed, or the file has the wrong size or checksum.
    RAISES (OSError): The file cannot be written.
    RAISES (ValueError): The `.part` exists, but spacy-elmo did not write it.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    part = _Part(target)
    with (
        full_disk(part.path),
        requests.Session() as session,
        progress_bar(None, file.name, "B", in_logs=False) as bar,
    ):
        _fetch(session, file, part, bar)
    try:
        check(file, part.path)
    except ValueError as error:
        part.delete()
        raise DownloadError(f"{file.url}: {error}") from error
    publish(part.path, target)
    part.delete()


def check(file: PublishedFile, path: Path) -> None:
    """Check size and checksum of a downloaded file, and that it can be opened.

    RAISES (ValueError): Size or checksum is wrong, or the file cannot be opened.
    """
    size = path.stat().st_size
    if file.size is not None and size != file.size:
        raise ValueError(f"{path} has {size:,} bytes, but should have {file.size:,}")
    if file.md5 is not None and (md5 := checksum(path, "md5")) != file.md5:
        raise ValueError(f"{path} has the MD5 {md5}, but should have {file.md5}")
    suffix = Path(file.name).suffix
    with named_errors(f"{path} is not a {suffix} file", Exception):
        _open(path, suffix)


class _Part:
    """Unfinished download: the files `NAME.part` and `NAME.part.version`.

    The version file is empty if the server sends no version.

    RAISES (ValueError): The `.part` exists, but spacy-elmo did not write it.
    """

    def __init__(self, target: Path):
        self.path = target.with_name(target.name + ".part")
        self.version_path = target.with_name(target.name + ".part.version")
        found = [path for path in (self.path, self.version_path) if os.path.lexists(path)]
        is_ours = all(path.is_file() and not path.is_symlink() for path in found)
        if not is_ours or found == [self.path]:
            raise ValueError(
                f"{found[0]} is in the way: it is not an unfinished download of this version of "
                f"spacy-elmo. Move it away"
            )

    @property
    def size(self) -> int:
        """Number of downloaded bytes to keep; 0 if the version of the file is unknown."""
        is_known = self.path.is_file() and self.version_path.stat().st_size
        return self.path.stat().st_size if is_known else 0

    def start(self, reply: requests.Response) -> None:
        """Start from byte 0: delete both files, and store the response's version (ETag or date)."""
        self.delete()
        # A weak ETag does not guarantee identical bytes. RFC 9110 forbids weak ETags in If-Range.
        etag = reply.headers.get("ETag", "W/")
        version = reply.headers.get("Last-Modified", "") if etag.startswith("W/") else etag
        with self.version_path.open("x", encoding="utf8") as file:
            file.write(version)

    def delete(self) -> None:
        """Delete both files."""
        for path in (self.path, self.version_path):
            path.unlink(missing_ok=True)


def _fetch(session: requests.Session, file: PublishedFile, part: _Part, bar: Any) -> None:
    """Send requests until the `.part` file is complete.

    RAISES (DownloadError): Several requests in a row returned no new bytes.
    """
    failures, furthest, was_reached = 0, part.size, False
    while True:
        try:
            with _request(session, file, part) as reply:
                was_reached = True
                _receive(reply, file, part, bar)
            return
        except _ANOTHER_ATTEMPT as error:
            reason = error
        except requests.RequestException as error:
            raise DownloadError(f"{file.url}: {error}") from error
        size = part.path.stat().st_size if part.path.is_file() else 0
        failures = 0 if size > furthest else failures + 1
        furthest = max(size, furthest)
        if failures >= (ATTEMPTS if was_reached else ATTEMPTS_TO_REACH):
            kept = f". Run the same command again to resume after {size:,} bytes"
            raise DownloadError(
                f"{file.url} cannot be {'fetched' if was_reached else 'reached'}: "
                f"{_short(reason)}{'' if was_reached else PROXY}{kept if size else ''}"
            ) from None  # The error of the last attempt is in the message.
        time.sleep(PAUSE * 2 ** max(0, failures - 1))


def _short(error: Exception) -> str:
    """Return the cause of an error of `requests`, without the `repr` of the connection."""
    cause = str((getattr(error.args[0], "reason", None) if error.args else None) or error)
    return cause.partition("): ")[2] or cause


def _request(session: requests.Session, file: PublishedFile, part: _Part) -> requests.Response:
    # Ranges and checksums are those of the file itself, not of a compressed form.
    headers = {"User-Agent": f"spacy-elmo/{__version__}", "Accept-Encoding": "identity"}
    if part.size:
        version = part.version_path.read_text("utf8")
        headers.update({"Range": f"bytes={part.size}-", "If-Range": version})
    return session.get(file.url, headers=headers, stream=True, timeout=TIMEOUT)


def _receive(reply: requests.Response, file: PublishedFile, part: _Part, bar: Any) -> None:
    """Write the body of a response to the `.part` file.

    RAISES (_BrokenOff): The attempt failed, but the next one may succeed.
    RAISES (DownloadError): The response has a wrong size, an HTTP error status or a
        Content-Encoding, or came without encryption.
    RAISES (OSError): The disk has too little free space.
    """
    _check_status(reply, file)
    encoding = reply.headers.get("Content-Encoding") or "identity"
    if encoding != "identity":
        raise DownloadError(
            f"{file.url}: the server sends it compressed (Content-Encoding: {encoding}), although "
            f"the request forbids it"
        )
    resumes = reply.status_code == 206
    if reply.status_code == 416:  # All bytes are already in the `.part`.
        if reply.headers.get("Content-Range", "") == f"bytes */{part.size}":
            return
        part.delete()
        raise _BrokenOff("the file on the server is shorter than the downloaded part")
    if resumes and not reply.headers.get("Content-Range", "").startswith(f"bytes {part.size}-"):
        part.delete()
        raise _BrokenOff("the server sent other bytes than were requested")
    if not resumes:
        part.start(reply)
    have = part.size if resumes else 0
    length = reply.headers.get("Content-Length", "")
    total = have + int(length) if length.isdecimal() else None
    max_bytes = file.size or (LARGEST_JSON if file.name.endswith(".json") else MAX_BYTES)
    if total is not None:
        _check_total(total, have, file, max_bytes, part)
        max_bytes = total
    bar.total, bar.n = total, have
    bar.refresh()
    with open(part.path, "ab", opener=open_no_link) as stream:
        for chunk in reply.iter_content(CHUNK):
            have += len(chunk)
            if have > max_bytes:
                part.delete()
                raise DownloadError(f"{file.url} has more than the expected {max_bytes:,} bytes")
            stream.write(chunk)
            bar.update(len(chunk))
    if total is not None and have != total:
        raise _BrokenOff(f"{have:,} of {total:,} bytes arrived")


def _check_status(reply: requests.Response, file: PublishedFile) -> None:
    ways = [hop.url for hop in (*reply.history, reply)]
    if file.url.startswith("https:") and not all(url.startswith("https:") for url in ways):
        raise DownloadError(f"{file.url} redirects to a URL without encryption: {ways[-1]}")
    if reply.status_code in TEMPORARY:
        raise _BrokenOff(f"HTTP status {reply.status_code}")
    if reply.status_code not in (200, 206, 416):
        raise DownloadError(f"{file.url} cannot be fetched: HTTP status {reply.status_code}")


def _check_total(total: int, have: int, file: PublishedFile, max_bytes: int, part: _Part) -> None:
    if total > max_bytes or total != (file.size or total):
        part.delete()
        bound = "at most" if file.size is None else "exactly"
        raise DownloadError(f"{file.url} has {total:,} bytes, expected {bound} {max_bytes:,}")
    free = shutil.disk_usage(part.path.parent).free
    if total - have > free:
        raise OSError(
            f"{part.path.parent}: the download needs {total - have:,} bytes, but {free:,} are free"
        )


def _open(path: Path, suffix: str) -> None:
    if suffix == ".json":
        json.loads(path.read_text("utf-8-sig"))
    elif suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            claimed = sum(member.file_size for member in archive.infolist())
            if claimed > largest_unpacked(path.stat().st_size):
                raise ValueError(f"it claims to contain {claimed:,} bytes")
            broken = archive.testzip()
        if broken:
            raise ValueError(f"{broken} in it is broken")
    elif suffix == ".safetensors":
        from safetensors import safe_open

        with safe_open(path, framework="numpy"):
            pass
    elif suffix in (".hdf5", ".h5"):
        import h5py

        # The header of a damaged file may be complete, so visit the groups.
        with h5py.File(path, "r") as file:
            file.visit(lambda name: None)
