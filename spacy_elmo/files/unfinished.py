"""Folders for unfinished output, beside the output.

A name does not prove that spacy-elmo made a folder, because users may use any name. So spacy-elmo
puts a marker file into each folder that it makes. Invariant: only folders with the marker are
deleted, renamed or overwritten. Trust in names such as `NAME.part` would delete files of users.

There are two kinds of folders. A temporary folder, `.NAME.spacy-elmo-<random>`, belongs to one
process, which locks the marker. If this process dies, the next writer of NAME deletes the folder. A
resumable folder has a fixed name, such as `NAME.part`, and stays.
"""

import os
import re
import secrets
import shutil
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path

from .errors import by_its_name, named_if_full, temporary_files
from .paths import followed, is_stream

try:
    import fcntl
except ImportError:  # On Windows, leftovers of killed processes stay.
    fcntl = None  # type: ignore[assignment]

MARKER = ".spacy-elmo"
PREVIOUS = "previous"  # Folder for the earlier output during a replacement.
_INFIX = ".spacy-elmo-"
_TEMPORARY = re.compile(rf"\.(.*){re.escape(_INFIX)}[0-9a-f]{{16}}", re.DOTALL)
# Maximum bytes of NAME. Most file systems allow 255 bytes, encrypted ones (eCryptfs) only 143.
_MAX_NAME = 100


@contextmanager
def temporary_folder(path: Path) -> Iterator[Path]:
    """Context manager: make a folder for unfinished output, and delete it after the block.

    path (Path): The output.
    YIELDS (Path): The folder. It contains only the marker file.
    """
    path = followed(path)
    naming: Callable[[], AbstractContextManager[None]]
    if is_stream(path):
        parent, naming = Path(tempfile.gettempdir()), temporary_files
    else:
        parent, naming = path.parent, partial(named_if_full, path)
    # A folder with the marker is deleted as a whole, so leftovers in it may stay.
    if not (is_ours(parent) or is_ours(parent.parent)):
        sweep(parent, path.name)
    with naming(), by_its_name(path):
        folder = parent / temporary_name(path.name)
        folder.mkdir(mode=0o700)
        try:
            # Exclusive creation does not follow links.
            descriptor = os.open(folder / MARKER, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            folder.rmdir()
            error.filename = str(folder)
            raise
    try:
        # `sweep` never deletes a folder without a host name. So write the name after locking, and
        # do not write it if the file system has no locks.
        with suppress(OSError):
            if fcntl is not None:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                os.write(descriptor, socket.gethostname().encode("utf8", "replace"))
        with naming():
            yield folder
    finally:
        with suppress(OSError):
            delete_ours(folder)
        os.close(descriptor)


def temporary_name(name: str) -> str:
    """Make a unique name for a temporary folder.

    name (str): Name of the output.
    RETURNS (str): `.NAME.spacy-elmo-<random>`. A very long NAME is cut.
    """
    return f".{_cut(name)}{_INFIX}{secrets.token_hex(8)}"


def is_temporary(name: str) -> bool:
    """Return whether a name could be a result of `temporary_name`."""
    return _TEMPORARY.fullmatch(name) is not None


def sweep(folder: Path, name: str = "") -> None:
    """Delete the temporary folders that killed processes on this machine left.

    A process that replaces an output first moves the earlier output into its temporary folder. If
    the name of the output is free now, the earlier output is moved back. Otherwise it is deleted.

    folder (Path): The parent folder.
    name (str): The output whose temporary folders are deleted. Default: all outputs.
    """
    with suppress(OSError):
        for entry in sorted(os.listdir(folder)):
            found = _TEMPORARY.fullmatch(entry)
            if found and (not name or found[1] == _cut(name)):
                with suppress(OSError):
                    if _is_abandoned(folder / entry):
                        delete_ours(folder / entry)


def make_ours(folder: Path) -> None:
    """Make a resumable folder. It contains the marker file from the moment it appears.

    folder (Path): The folder. A folder that an earlier call made is kept.
    RAISES (ValueError): A file, or a folder without the marker file, has this name.
    """
    check_ours(folder)
    if is_ours(folder):
        sweep(folder.parent, folder.name)  # A process was killed after the renaming.
        return
    with temporary_folder(folder) as place:
        (place / folder.name).mkdir()
        (place / folder.name / MARKER).write_text(socket.gethostname(), "utf8", "replace")
        try:
            (place / folder.name).rename(folder)
        except OSError:
            if not is_ours(folder):  # Otherwise another process has made the folder.
                raise


def is_ours(folder: Path) -> bool:
    """Return whether a folder contains the marker file. A link to such a folder does not count."""
    with suppress(OSError):
        modes = folder.lstat().st_mode, (folder / MARKER).lstat().st_mode
        return stat.S_ISDIR(modes[0]) and stat.S_ISREG(modes[1])
    return False


def check_ours(folder: Path) -> None:
    """Check that a path does not exist, or is a folder with the marker file.

    folder (Path): The path.
    RAISES (ValueError): A file, or a folder without the marker file, has this name.
    """
    if os.path.lexists(folder) and not is_ours(folder):
        raise ValueError(
            f"{folder} is in the way: another program made it. Move it away, or choose another "
            f"output."
        )


def delete_ours(folder: Path) -> None:
    """Delete a folder if it contains the marker file.

    A resumable folder first gets a temporary name. If the deletion is then interrupted, the next
    `sweep` deletes the rest.

    folder (Path): The folder. If it contains an earlier output, `put_back` is called first.
    """
    if not is_ours(folder):
        return
    put_back(folder)
    if not is_temporary(folder.name):
        renamed = folder.rename(folder.with_name(temporary_name(folder.name)))
        if not is_ours(renamed):  # After the check, another program put something else there.
            renamed.rename(folder)
            return
        folder = renamed
    with suppress(FileNotFoundError):  # Another process deletes the same folder.
        for path in folder.iterdir():
            if path.name != MARKER:  # The marker is deleted last.
                delete(path)
        (folder / MARKER).unlink()
        folder.rmdir()


def put_back(folder: Path) -> None:
    """Move an earlier output out of a temporary folder, to its old name, if the name is free."""
    for kept in (folder / PREVIOUS).glob("*"):
        if not os.path.lexists(folder.parent / kept.name):
            kept.rename(folder.parent / kept.name)


def delete(path: Path) -> None:
    """Delete a file, link or folder, if it exists. Links are not followed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _cut(name: str) -> str:
    return os.fsencode(name)[:_MAX_NAME].decode("utf8", "ignore")


def _is_abandoned(folder: Path) -> bool:
    """Return whether a process of this machine made the folder and is dead.

    Processes of other machines never count as dead, because some network file systems do not show
    their locks.

    RAISES (BlockingIOError): The process is alive.
    """
    if fcntl is None or not is_ours(folder):
        return False
    descriptor = os.open(folder / MARKER, os.O_RDWR | os.O_NOFOLLOW)
    try:
        host = os.read(descriptor, 1000).decode("utf8", "replace")
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return host == socket.gethostname()
    finally:
        os.close(descriptor)
