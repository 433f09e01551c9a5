"""Functions that read files from a folder or from a zip archive, without unpacking to the disk."""

import codecs
import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Optional, Union

import srsly

from ..compat import zip_directory_size
from ..files import OpenedFile, followed
from ..files.errors import named_errors
from ..files.input_files import decode
from .limits import LARGEST_DIRECTORY, LARGEST_JSON, MAX_ENTRIES, MAX_LEVELS, largest_unpacked

File = Union[Path, zipfile.Path]
Readable = Union[File, OpenedFile]

ZIP_SUFFIX = ".zip"


@contextmanager
def opened_path(path: Path) -> Iterator[File]:
    """Context manager: open a zip archive, to read it like a folder.

    YIELDS (Union[Path, zipfile.Path]): The root of the archive, or its folder if it only contains
        one folder. A path that is no archive is yielded unchanged.
    RAISES (ValueError): The archive is broken.
    """
    if path.suffix.lower() != ZIP_SUFFIX or not path.is_file():
        yield path
        return
    # `zipfile` raises many types of errors for broken archives.
    with named_errors(f"{path}: not a readable zip archive", Exception):
        with path.open("rb") as stream:
            check_directory(stream)
        archive = zipfile.ZipFile(path)
    with archive:
        _check_names(archive, path)
        folder = zipfile.Path(archive)
        # Ignore the folder and the hidden files that macOS adds.
        found = [item for item in folder.iterdir() if not item.name.startswith(".")]
        inside = [item for item in found if item.name != "__MACOSX"]
        yield inside[0] if len(inside) == 1 and inside[0].is_dir() else folder


def opened(file: Readable) -> BinaryIO:
    """Open a file for reading.

    An `OpenedFile` is read into memory, and a file in an archive is unpacked into memory.

    RETURNS (BinaryIO): The open, seekable file. The caller closes it.
    RAISES (ValueError): The file cannot be read.
    """
    if isinstance(file, zipfile.Path):
        return BytesIO(_read_packed(file))
    if isinstance(file, OpenedFile):
        return file.read()
    if file.exists() and not file.is_file():  # A named pipe or a device may be endless.
        raise ValueError(f"{file}: cannot be read: not a regular file")
    try:
        return file.open("rb")
    except FileNotFoundError:
        raise ValueError(f"{file}: the file is missing. Copy it there") from None
    except OSError as error:
        raise ValueError(f"{file}: cannot be read: {error.strerror}") from error


def places_of(weights: File) -> list[File]:
    """Return the weights, and the file that they are a link to, if they are a link.

    The other files of a model have names like the weights. So they are beside the link, or beside
    its target, which may have another name.
    """
    if isinstance(weights, Path) and weights.is_symlink():
        return [weights, followed(weights)]
    return [weights]


def beside_weights(file: File, weights: File, folder: Optional[Path] = None) -> File:
    """Check that a file beside the weights is not a link to a file of something else.

    A folder that somebody else made can contain a link to a private file, whose text would get into
    the output of commands and into converted models. But some programs store all files of a model
    in one folder and make links to them in another, so the target may be beside the target of the
    weights.

    folder (Optional[Path]): The folder of the model. Default: the folder of the weights.
    RAISES (ValueError): The file is a link that leaves the folder.
    """
    if isinstance(file, Path) and isinstance(weights, Path):
        places = (folder or weights.parent).resolve(), weights.resolve().parent
        if not any(file.resolve().is_relative_to(place) for place in places):
            raise ValueError(
                f"{file} is a link to another folder, so it is not read. Copy the file there"
            )
    return file


def read_bytes(file: File, max_bytes: int) -> bytes:
    """Read a file of limited size.

    max_bytes (int): Maximum size of the unpacked file.
    RAISES (ValueError): The file cannot be read, or is too large.
    """
    if isinstance(file, zipfile.Path):
        return _read_packed(file, max_bytes)
    with opened(file) as stream:
        # One byte more than allowed shows that the file is too large, without reading all of it.
        content = stream.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise ValueError(f"{file}: more than {max_bytes:,} bytes, too large for such a file")
    return content


def read_json(file: File) -> Any:
    """Read a small JSON file, such as a file of settings.

    RAISES (ValueError): The file is not JSON, not UTF-8, or too large.
    """
    content = read_bytes(file, LARGEST_JSON)
    with named_errors(f"{file}: not valid JSON"):
        # Some editors write a byte order mark.
        return srsly.json_loads(decode(content.removeprefix(codecs.BOM_UTF8)))


def read_object(file: File) -> dict[str, Any]:
    """Read a small JSON file that contains an object. See `read_json`."""
    content = read_json(file)
    if not isinstance(content, dict):
        raise ValueError(f"{file}: not a JSON object")
    return content


def suffix(file: File) -> str:
    """Return the suffix of a file name, with the dot."""
    return PurePosixPath(file.name).suffix


def stem(file: File) -> str:
    """Return a file name without its suffix."""
    return PurePosixPath(file.name).stem


def check_directory(stream: BinaryIO) -> None:
    """Check the size of a zip archive's list of entries, before `zipfile` loads the list.

    stream (BinaryIO): The archive. Its position is set to the start.
    RAISES (ValueError): The list is too large.
    """
    size = zip_directory_size(stream)
    stream.seek(0)
    if size is not None and size > LARGEST_DIRECTORY:
        raise ValueError(f"more than {MAX_ENTRIES:,} entries")


def _check_names(archive: zipfile.ZipFile, path: Path) -> None:
    """Raise a ValueError if an archive has too many entries, or an entry with an unsafe path.

    A path is unsafe if a part is empty, `.` or `..`, or if it has more than `MAX_LEVELS` levels.
    Such paths can make the archive's folder tree endless or huge.
    """
    names = archive.namelist()
    if len(names) > MAX_ENTRIES:
        raise ValueError(f"{path}: {len(names):,} entries, but a model has at most {MAX_ENTRIES:,}")
    for name in names:
        levels = name.removesuffix("/").split("/")
        if not {"", ".", ".."}.isdisjoint(levels) or len(levels) > MAX_LEVELS:
            shown = name if len(name) <= 40 else f"{name[:40]}..."
            raise ValueError(
                f"{path}: the entry {shown!r} has an empty part, '.' or '..', or more than "
                f"{MAX_LEVELS} levels. Pack the model's folder again"
            )


def _read_packed(file: zipfile.Path, max_bytes: float = math.inf) -> bytes:
    with named_errors(f"{file}: cannot be read from the archive", Exception):
        info = file.root.getinfo(file.at)
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError("the compression is not supported. Unpack the archive")
        if info.file_size > min(max_bytes, largest_unpacked(info.compress_size)):
            raise ValueError(f"it claims to contain {info.file_size:,} bytes")
        return file.root.read(info)
