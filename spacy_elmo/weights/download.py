"""One file over HTTP, whole or not at all, resumed where it broke off."""

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
from .limits import LARGEST_JSON, largest_unpacked
from .published_file import PublishedFile

TIMEOUT = (15.0, 60.0)  # seconds to connect, and without a single byte
PAUSE = 1.0  # seconds before the second attempt, then twice as long each time
ATTEMPTS = 5  # without anything new
ATTEMPTS_TO_REACH = 2  # the server at all
MAX_BYTES = 8 << 30  # of a file of which nobody said how large it is; JSON is smaller
CHUNK = 1 << 14  # bytes; at most so many are lost when a connection breaks
TEMPORARY = (408, 425, 429, 500, 502, 503, 504)  # HTTP status: worth another attempt


class DownloadError(OSError):
    """A file cannot be had, or what arrived is not that file."""

    exit_code = 4


class _BrokenOff(Exception):
    """An attempt failed; another one may not."""


_ANOTHER_ATTEMPT = (
    requests.ConnectionError,
    requests.Timeout,
    requests.exceptions.ChunkedEncodingError,  # the end is missing
    _BrokenOff,
)


def download(file: PublishedFile, target: Path) -> None:
    """Fetch a file. It takes its name when it is whole, has the right checksum and
    opens. What an earlier attempt fetched stands beside it, and is gone on with if the
    server says that the file is still the same.

    file (PublishedFile): The file.
    target (Path): Where to write it; the folder is made if need be.
    RAISES (DownloadError): It cannot be reached, or is not what it should be.
    RAISES (OSError): It cannot be written.
    RAISES (ValueError): Something else has the name of what stands beside it.
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
    """Check that a file on disk is the one on the server, as far as can be known.

    file (PublishedFile): What it should be.
    path (Path): Where it is.
    RAISES (ValueError): Its size or checksum is wrong, or it does not open.
    """
    size = path.stat().st_size
    if file.size is not None and size != file.size:
        raise ValueError(f"{path} has {size:,} bytes, it should have {file.size:,}")
    md5 = None if file.md5 is None else checksum(path, "md5")
    if md5 != file.md5:
        raise ValueError(f"{path} has the MD5 {md5}, it should be {file.md5}")
    suffix = Path(file.name).suffix
    with named_errors(f"{path} is no {suffix} file", Exception):  # of whichever library
        _open(path, suffix)


class _Part:
    """The part of a file that has arrived, and the mark of its version on the server. The file with
    the mark is there before the other one, and is empty if the server sends none: a file without it
    is a user's.

    target (Path): The file that it will be.
    RAISES (ValueError): Something else has its name.
    """

    def __init__(self, target: Path):
        self.path = target.with_name(target.name + ".part")
        self.version_path = target.with_name(target.name + ".part.version")
        found = [path for path in (self.path, self.version_path) if os.path.lexists(path)]
        is_ours = all(path.is_file() and not path.is_symlink() for path in found)
        if not is_ours or found == [self.path]:
            raise ValueError(
                f"{found[0]} is in the way: spacy-elmo did not make it, or an earlier version "
                f"did. Move it away"
            )

    @property
    def size(self) -> int:
        """RETURNS (int): Bytes that can be gone on from; 0 if the version is not known."""
        is_known = self.path.is_file() and self.version_path.stat().st_size
        return self.path.stat().st_size if is_known else 0

    def start(self, reply: requests.Response) -> None:
        """Begin anew, with the version of a reply."""
        self.delete()
        # A weak ETag is no promise of the same bytes, and RFC 9110 forbids it here.
        etag = reply.headers.get("ETag", "W/")
        version = reply.headers.get("Last-Modified", "") if etag.startswith("W/") else etag
        with self.version_path.open("x", encoding="utf8") as file:
            file.write(version)

    def delete(self) -> None:
        for path in (self.path, self.version_path):
            path.unlink(missing_ok=True)


def _fetch(session: requests.Session, file: PublishedFile, part: _Part, bar: Any) -> None:
    """Make attempts, as long as they bring something new."""
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
            kept = f"; the same command goes on after the {size:,} bytes that arrived"
            raise DownloadError(
                f"{file.url} cannot be {'fetched' if was_reached else 'reached'}: "
                f"{_short(reason)}{kept if size else ''}"
            ) from None  # the four errors before it say the same
        time.sleep(PAUSE * 2 ** max(0, failures - 1))


def _short(error: Exception) -> str:
    """The cause alone, of what `requests` says."""
    cause = str((getattr(error.args[0], "reason", None) if error.args else None) or error)
    return cause.partition("): ")[2] or cause  # of which connection it is said


def _request(session: requests.Session, file: PublishedFile, part: _Part) -> requests.Response:
    headers = {"User-Agent": f"spacy-elmo/{__version__}", "Accept-Encoding": "identity"}
    if part.size:
        version = part.version_path.read_text("utf8")
        headers.update({"Range": f"bytes={part.size}-", "If-Range": version})
    return session.get(file.url, headers=headers, stream=True, timeout=TIMEOUT)


def _receive(reply: requests.Response, file: PublishedFile, part: _Part, bar: Any) -> None:
    """Write what comes.

    RAISES (_BrokenOff): It is not all.
    RAISES (DownloadError): It is more than it should be, or packed.
    """
    _check_status(reply, file)
    encoding = reply.headers.get("Content-Encoding") or "identity"
    if encoding != "identity":
        raise DownloadError(
            f"{file.url} is sent packed (Content-Encoding: {encoding}), which nobody asked for"
        )
    goes_on = reply.status_code == 206
    if reply.status_code == 416:  # nothing comes after what is there: it is whole, or wrong
        if reply.headers.get("Content-Range", "") == f"bytes */{part.size}":
            return
        part.delete()
        raise _BrokenOff("the server has less than what had arrived")
    if goes_on and not reply.headers.get("Content-Range", "").startswith(f"bytes {part.size}-"):
        part.delete()
        raise _BrokenOff("the server sent another part than the one asked for")
    if not goes_on:
        part.start(reply)
    have = part.size if goes_on else 0
    length = reply.headers.get("Content-Length", "")
    total = have + int(length) if length.isdecimal() else None
    max_bytes = file.size or (LARGEST_JSON if file.name.endswith(".json") else MAX_BYTES)
    if total is not None:
        _check_total(total, have, file, max_bytes, part)
        max_bytes = total
    bar.total = total
    bar.n = have
    bar.refresh()
    with open(part.path, "ab", opener=_open_no_link) as stream:
        for chunk in reply.iter_content(CHUNK):
            have += len(chunk)
            if have > max_bytes:
                part.delete()
                raise DownloadError(f"{file.url} goes on after the {max_bytes:,} bytes it may have")
            stream.write(chunk)
            bar.update(len(chunk))
    if total is not None and have != total:
        raise _BrokenOff(f"{have:,} of {total:,} bytes arrived")


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _check_status(reply: requests.Response, file: PublishedFile) -> None:
    ways = [hop.url for hop in (*reply.history, reply)]
    if file.url.startswith("https:") and not all(url.startswith("https:") for url in ways):
        raise DownloadError(f"{file.url} leads to an address without encryption: {ways[-1]}")
    if reply.status_code in TEMPORARY:
        raise _BrokenOff(f"HTTP status {reply.status_code}")
    if reply.status_code not in (200, 206, 416):
        raise DownloadError(f"{file.url} cannot be fetched: HTTP status {reply.status_code}")


def _check_total(total: int, have: int, file: PublishedFile, max_bytes: int, part: _Part) -> None:
    if total > max_bytes or total != (file.size or total):
        part.delete()
        may = "at most" if file.size is None else "exactly"
        raise DownloadError(f"{file.url} has {total:,} bytes, it may have {may} {max_bytes:,}")
    free = shutil.disk_usage(part.path.parent).free
    if total - have > free:
        raise OSError(f"{part.path.parent}: {total - have:,} bytes are to come, {free:,} are free")


def _open(path: Path, suffix: str) -> None:
    if suffix == ".json":
        json.loads(path.read_text("utf-8-sig"))
    elif suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            claimed = sum(member.file_size for member in archive.infolist())
            if claimed > largest_unpacked(path.stat().st_size):
                raise ValueError(f"it claims to hold {claimed:,} bytes")
            broken = archive.testzip()
        if broken:
            raise ValueError(f"{broken} in it is broken")
    elif suffix == ".safetensors":
        from safetensors import safe_open

        with safe_open(path, framework="numpy"):
            pass
    elif suffix in (".hdf5", ".h5"):
        import h5py

        with h5py.File(path, "r") as file:
            file.visit(lambda name: None)
