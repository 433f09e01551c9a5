"""Paths from users: `~`, the cache folder, symbolic links, devices, FIFOs and open files."""

import errno
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Union

from .schema import Integer

CACHE_VARIABLE = "SPACY_ELMO_CACHE"
# Path in a config. spaCy parses the override `--paths.elmo 142` as a number.
PathSetting = Union[str, Path, Integer]
# Files that macOS and Windows put into folders that somebody looks at.
OF_FILE_MANAGERS = (".DS_Store", "Thumbs.db", "desktop.ini")
_MAX_LINKS = 40  # Maximum number of symbolic links in a path, as in Linux.


def user_path(path: PathSetting) -> Path:
    """Expand `~`. A shell does not do this inside quotes, and configs and Python never do it.

    path (Union[str, int, Path]): Path from a user.
    RETURNS (Path): The expanded path.
    """
    return Path(os.path.expanduser(str(path)))


def cache_folder() -> Path:
    """Return the folder for downloaded models and copies of corpora.

    RETURNS (Path): SPACY_ELMO_CACHE, or `spacy-elmo` in the user's cache folder.
    """
    own = os.environ.get(CACHE_VARIABLE)
    if own:
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "spacy-elmo"


def followed(path: Path) -> Path:
    """Follow symbolic links, so that an output replaces the target and not the link.

    path (Path): A path. The file need not exist.
    RETURNS (Path): The target of the link. Names of open files, such as `/dev/stdout`, are
        returned unchanged.
    RAISES (OSError): The links form a circle.
    """
    given = path
    for _ in range(_MAX_LINKS):
        if _is_opened(path) or not path.is_symlink():
            return path
        path = path.parent / os.readlink(path)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(given))


def content_names(folder: Path) -> set[str]:
    """Return the relative paths of all files, links and empty folders in a folder, at every depth.

    Files that file managers create on their own are left out.

    folder (Path): The folder. Links in it are not followed.
    RETURNS (Set[str]): The paths, with slashes. The path of an empty folder ends with a slash.
    """
    names: set[str] = set()
    for place, folders, files in os.walk(folder):
        inner = Path(place).relative_to(folder)
        links = [name for name in folders if Path(place, name).is_symlink()]
        named = (name for name in (*files, *links) if name not in OF_FILE_MANAGERS)
        names.update((inner / name).as_posix() for name in named)
        if not folders and not files and inner.parts:
            names.add(f"{inner.as_posix()}/")
    return names


def is_stream(path: Path) -> bool:
    """Return whether an output must be written directly, not renamed from a temporary file.

    This is true for devices, FIFOs, and files that this process has open.
    """
    path = followed(path)
    if _is_opened(path):
        return True
    with suppress(OSError):
        mode = path.stat().st_mode
        return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
    return False


def open_stream(path: Path) -> BinaryIO:
    """Open a device, FIFO or open file for writing, without truncating it.

    path (Path): A path for which `is_stream` is true.
    RETURNS (BinaryIO): The file. Some files cannot seek.
    """
    path = followed(path)
    if _is_opened(path):
        # Duplicate the descriptor: opening the name again would write from the start of the file.
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        descriptor = os.dup(int(path.name))
    else:
        descriptor = open_no_link(path, os.O_WRONLY)
    return open(descriptor, "wb")


def open_no_link(path: Union[str, Path], flags: int) -> int:
    """Open a file, but not through a symbolic link that another program puts in its place.

    Windows does not check this.

    path (Union[str, Path]): The file. Links in its folder are followed.
    flags (int): Flags of `os.open`.
    RETURNS (int): The file descriptor. The function can be the `opener` of `open`.
    RAISES (OSError): The path is a link, or cannot be opened.
    """
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def check_regular(path: Path) -> None:
    """Check that an input is not a device or FIFO, which may have no end or no writer.

    path (Path): A path. The file need not exist. Files that this process has open are allowed,
        such as `/dev/stdin` or `<(command)` in a shell.
    RAISES (ValueError): The path is a device or FIFO.
    """
    if is_stream(path) and not _is_opened(followed(path)):
        raise ValueError(f"{path}: cannot be read: not a regular file. Copy it to a file.")


def _is_opened(path: Path) -> bool:
    return path.name.isdecimal() and path.parent.resolve() == Path("/dev/fd").resolve()
