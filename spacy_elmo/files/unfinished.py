"""Folders for unfinished output, beside the output.

A user's file may have any name, so a name proves nothing. A folder is ours if it contains the
marker, a file that the folder has from its first moment on. Nothing else is deleted, renamed or
overwritten. Names with an ending (`NAME.part`, `NAME.old`) were tried, and lost users' files.

There are two kinds. A temporary folder, `.NAME.spacy-elmo-<random>`, belongs to one process, which
locks the marker: the next writer of NAME deletes the folder if that process is dead. A resumable
folder has a name that users know, such as `NAME.part`, and stays.
"""

import os
import re
import secrets
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import FULL, by_its_name
from .paths import followed, is_stream

try:
    import fcntl
except ImportError:  # Windows: a lock is never free, so what a killed process left stays
    fcntl = None  # type: ignore[assignment]

MARKER = ".spacy-elmo"
PREVIOUS = "previous"  # folder for the earlier output while it is replaced
_INFIX = ".spacy-elmo-"
_TEMPORARY = re.compile(rf"\.(.*){re.escape(_INFIX)}[0-9a-f]{{16}}", re.DOTALL)
_MAX_NAME = 200  # bytes; file systems allow 255


@contextmanager
def temporary_folder(path: Path) -> Iterator[Path]:
    """Make a folder for unfinished output, and delete it at the end.

    path (Path): The output.
    YIELDS (Path): The folder, with only the marker in it.
    """
    path = followed(path)
    parent = Path(tempfile.gettempdir()) if is_stream(path) else path.parent
    if not (is_ours(parent) or is_ours(parent.parent)):  # these are deleted as a whole
        sweep(parent, path.name)
    with by_its_name(path):
        folder = parent / temporary_name(path.name)
        folder.mkdir(mode=0o700)
        try:
            # Exclusive creation follows no link.
            descriptor = os.open(folder / MARKER, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError:
            folder.rmdir()
            raise
    try:
        # A folder without the name of its host is never swept. So the name is written once the
        # lock is held, and not at all where the file system has no locks.
        with suppress(OSError):
            if fcntl is not None:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                os.write(descriptor, socket.gethostname().encode("utf8", "replace"))
        yield folder
    except OSError as error:
        if error.errno in FULL and error.filename is None:  # the system does not name open files
            error.filename = str(path)
        raise
    finally:
        with suppress(OSError):
            delete_ours(folder)
        os.close(descriptor)


def temporary_name(name: str) -> str:
    """Make a unique name for a temporary folder.

    name (str): Name of the output.
    RETURNS (str): `.NAME.spacy-elmo-<random>`; a very long name is cut.
    """
    return f".{_cut(name)}{_INFIX}{secrets.token_hex(8)}"


def is_temporary(name: str) -> bool:
    """Check whether a name has the form of `temporary_name`."""
    return _TEMPORARY.fullmatch(name) is not None


def sweep(folder: Path, name: str = "") -> None:
    """Delete the temporary folders of killed processes of this machine.

    An earlier output that was moved away, and was not replaced, gets its name back.

    folder (Path): The folder that contains them.
    name (str): Name of the output; by default of every output.
    """
    with suppress(OSError):
        for entry in sorted(os.listdir(folder)):
            found = _TEMPORARY.fullmatch(entry)
            if found and (not name or found[1] == _cut(name)):
                with suppress(OSError):
                    if _is_abandoned(folder / entry):
                        delete_ours(folder / entry)


def make_ours(folder: Path) -> None:
    """Make a resumable folder, which has the marker from its first moment on.

    folder (Path): The folder. It may exist if this function made it.
    RAISES (ValueError): Something else has the name.
    """
    check_ours(folder)
    if is_ours(folder):
        sweep(folder.parent, folder.name)  # leftovers of a process killed after the renaming
        return
    with temporary_folder(folder) as place:
        (place / folder.name).mkdir()
        (place / folder.name / MARKER).write_text(socket.gethostname(), "utf8", "replace")
        try:
            (place / folder.name).rename(folder)
        except OSError:
            if not is_ours(folder):  # else another process has made it
                raise


def is_ours(folder: Path) -> bool:
    """Check whether a folder has the marker. A link to such a folder does not count."""
    try:
        return stat.S_ISDIR(folder.lstat().st_mode) and stat.S_ISREG(
            (folder / MARKER).lstat().st_mode
        )
    except OSError:
        return False


def check_ours(folder: Path) -> None:
    """Check that nothing without our marker has the name of a folder.

    folder (Path): The folder.
    RAISES (ValueError): Something without the marker has its name.
    """
    if os.path.lexists(folder) and not is_ours(folder):
        raise ValueError(
            f"{folder} is in the way: spacy-elmo did not make it, or an earlier version did. Move "
            f"it away, or give another output."
        )


def delete_ours(folder: Path) -> None:
    """Delete a folder, if it has the marker.

    If this is interrupted, either the name is free or the folder is unchanged.

    folder (Path): The folder. An output within, in `PREVIOUS`, gets its name back if that is free.
    """
    if not is_ours(folder):
        return
    put_back(folder)
    if not is_temporary(folder.name):
        folder = folder.rename(folder.with_name(temporary_name(folder.name)))
    with suppress(FileNotFoundError):  # another process deletes it, too
        for path in folder.iterdir():
            if path.name != MARKER:  # deleted last, so that an interrupted deletion leaves it
                delete(path)
        (folder / MARKER).unlink()
        folder.rmdir()


def put_back(folder: Path) -> None:
    """Give an earlier output, in `PREVIOUS` of a folder, its name back if that is free."""
    for kept in (folder / PREVIOUS).glob("*"):
        if not os.path.lexists(folder.parent / kept.name):
            kept.rename(folder.parent / kept.name)


def delete(path: Path) -> None:
    """Delete a file, link or folder, if it is there. No link is followed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _cut(name: str) -> str:
    return os.fsencode(name)[:_MAX_NAME].decode("utf8", "ignore")


def _is_abandoned(folder: Path) -> bool:
    """Check whether the process that made a folder is dead.

    A process of another machine never counts as dead, because some network file systems do not
    show its lock.
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
