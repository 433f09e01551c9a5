"""Unfinished output file: the folder `OUTPUT.part`.

A single output file is made from shards, with the same code as `embed --shards`, so it can be
resumed, too. The folder contains the marker of this package, `shards` (a folder like the output of
`embed --shards`) and `joining` (a lock, and the output while it is written).

A shard is a msgpack file with everything that an output format needs. When all shards exist, the
output is written once, in its own format. Shards in the format of the output do not suffice,
because HDF5 and npz files do not contain tokens and Docs.
"""

import errno
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from srsly.msgpack import Packer, Unpacker

from ..files.atomic import lock, publish, replace_folder
from ..files.errors import by_its_name
from ..files.paths import OF_FILE_MANAGERS
from ..files.unfinished import (
    MARKER,
    PREVIOUS,
    check_ours,
    delete,
    delete_ours,
    is_temporary,
    make_ours,
    sweep,
)
from .entries import Embedded, Source
from .folders import LocalFolder, partial_folder
from .shard_folder import MANIFEST

SUFFIX = ".msgpack"
_SHARD = re.compile(rf"part-[\d-]+of-\d+{SUFFIX}|_part-[\d-]+of-\d+{SUFFIX}\.json")
SHARDS, JOINING = "shards", "joining"
LOCK, WHOLE = "lock", "whole"  # Names in `JOINING`.
MAX_ENTRY = (1 << 31) - 1  # Maximum bytes of an entry.


class PartialOutput:
    """Folder `OUTPUT.part` of an unfinished output.

    output (Path): The output.
    """

    def __init__(self, output: Path):
        self.output = output
        self.folder = partial_folder(output)
        self.shards = LocalFolder(self.folder / SHARDS)
        self.whole = self.folder / JOINING / WHOLE

    def check(self) -> None:
        """Check that the folder does not exist, or contains only an unfinished output.

        RAISES (ValueError): Another program made the folder or a file in it.
        """
        check_ours(self.folder)
        others = LocalFolder(self.folder).names() - {MARKER, SHARDS, JOINING, PREVIOUS}
        for folder in (self.shards, LocalFolder(self.whole.parent)):
            # Links are refused later.
            names = set() if folder.path.is_symlink() else folder.names()
            others |= {f"{folder.path.name}/{name}" for name in names if not _is_ours(name)}
        others -= {*OF_FILE_MANAGERS}
        if others:
            raise ValueError(
                f"{self.folder} contains other files than an unfinished output, such as "
                f"{min(others)}. Move them away, or begin again with `force=True`."
            )

    def check_again(self) -> None:
        """Check before a step that no other program has replaced the folder by a link.

        A link that appears between this check and the step is followed. Only a program that may
        rename files in the folder of the output can put it there, and it can also replace the
        output itself.

        RAISES (ValueError): The folder, or a folder in it, is a link now.
        """
        check_ours(self.folder)
        joining = self.whole.parent
        for path in (self.shards.path, joining, self.whole, joining / LOCK):
            if path.is_symlink():
                raise ValueError(f"{path} is a link now, and is not followed. Delete it.")

    @contextmanager
    def held(self, *, begin_again: bool) -> Iterator[None]:
        """Context manager: make the folder, and lock it until the end of the block.

        begin_again (bool): Whether to delete the content of an existing folder.
        RAISES (BlockingIOError): Another process has locked the folder.
        RAISES (ValueError): A file or folder of another program has this name.
        """
        with by_its_name(self.output):
            self.output.parent.mkdir(parents=True, exist_ok=True)
            make_ours(self.folder)
            self.check_again()
            self.whole.parent.mkdir(exist_ok=True)
        with lock(self.whole.parent / LOCK):
            self.check_again()
            for path in self.folder.iterdir() if begin_again else ():
                if path.name not in (MARKER, JOINING):
                    delete(path)
            yield

    def clear_whole(self) -> Path:
        """Delete an incomplete joined output. Return the path at which to join the shards.

        RETURNS (Path): The path. Nothing exists there.
        RAISES (OSError): The disk has no room for an output as large as the shards.
        """
        self.check_again()
        delete(self.whole)
        size = sum(path.stat().st_size for path in self.shards.path.iterdir())
        if shutil.disk_usage(self.folder).free < size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.whole))
        return self.whole

    def publish(self) -> None:
        """Rename the output to its final name, and replace an earlier output."""
        self.check_again()
        if self.whole.is_dir():
            replace_folder(self.whole, self.output, self.folder)
        else:
            publish(self.whole, self.output)

    def delete(self) -> None:
        """Delete the folder, and the remains of an earlier deletion that was interrupted."""
        delete_ours(self.folder)
        sweep(self.folder.parent, self.folder.name)


def _is_ours(name: str) -> bool:
    """Return whether `embed` or a file manager gives this name to a file in an inner folder."""
    names = MANIFEST, LOCK, WHOLE, *OF_FILE_MANAGERS
    return name in names or is_temporary(name) or _SHARD.fullmatch(name) is not None


def write_embedded(path: Path, entries: Iterable[Embedded]) -> None:
    """Write a shard as msgpack.

    path (Path): A new file.
    entries (Iterable[Embedded]): The entries.
    """
    packer = Packer(use_bin_type=True)
    with path.open("xb") as file:
        for entry in entries:
            array = entry.vectors
            vectors = [array.dtype.str, array.shape, array.tobytes()]
            content = [entry.text, entry.words, *vectors, entry.doc, entry.beside]
            content.append(entry.source)
            file.write(packer.pack(content))


def read_embedded(path: Path) -> Iterator[Embedded]:
    """Read a shard that `write_embedded` wrote.

    path (Path): The file.
    YIELDS (Embedded): An entry.
    """
    with path.open("rb") as file:
        unpacker = Unpacker(file, raw=False, max_buffer_size=MAX_ENTRY)
        for text, words, dtype, shape, data, doc, beside, source in unpacker:
            vectors = np.frombuffer(data, dtype).reshape(shape)
            yield Embedded(text, words, vectors, doc, beside, Source(*source))
