"""The pickles of PyTorch's state dicts, looked through before anything unpickles them."""

import pickletools
import zipfile
from io import BytesIO
from typing import BinaryIO, Optional

from ..frozen.config import shortened
from .archives import check_directory
from .limits import LARGEST_PICKLE, MAX_ENTRIES, MAX_PICKLE_LEVELS

# All that a state dict of floating point tensors consists of. `weights_only` allows
# more, some of which takes any amount of memory, and had holes before PyTorch 2.6.
_ALLOWED = {
    "collections OrderedDict",
    "torch._utils _rebuild_tensor",
    "torch._utils _rebuild_tensor_v2",
    "torch._utils _rebuild_parameter",
    "torch BFloat16Storage",
    "torch DoubleStorage",
    "torch FloatStorage",
    "torch HalfStorage",
}
_NAMING = {"GLOBAL", "STACK_GLOBAL", "INST", "EXT1", "EXT2", "EXT4"}
_GETTING = {"GET", "BINGET", "LONG_BINGET"}
_PUTTING = {"PUT", "BINPUT", "LONG_BINPUT"}
# What may be used twice. A tuple of a tuple twice, sixty times over, is small and has no end.
_SHARED = {"GLOBAL", "BINUNICODE", "SHORT_BINUNICODE", "UNICODE", *_GETTING}
_ZIP_START = b"PK\x03\x04"
_OLD_PICKLES = 5  # magic number, version, system, state dict, names of the storages
_MARK = None  # among levels


class Refused(Exception):
    """A file is refused; the message says why."""


def check_pickles(stream: BinaryIO) -> None:
    """Look through the pickles of a file without unpickling them.

    stream (BinaryIO): The file.
    RAISES (Refused): They are too large, or hold what no state dict is made of.
    RAISES (Exception): It is no such file.
    """
    start = stream.read(len(_ZIP_START))
    n_bytes = stream.seek(0, 2)
    stream.seek(0)
    if start != _ZIP_START:
        pickles = BytesIO(stream.read(LARGEST_PICKLE + 1))
        for _ in range(_OLD_PICKLES):
            _check_pickle(pickles)
        return
    check_directory(stream)
    with zipfile.ZipFile(stream) as archive:
        members = archive.infolist()
        if len(members) > MAX_ENTRIES:
            raise Refused(f"it has {len(members):,} members")
        if sum(member.file_size for member in members) > n_bytes:  # PyTorch packs nothing
            raise Refused("it claims to hold more bytes than there are")
        pickled = [member for member in members if member.filename.endswith(".pkl")]
        _check_size(sum(member.file_size for member in pickled))
        for member in pickled:
            _check_pickle(BytesIO(archive.read(member)))


def _check_size(n_bytes: int) -> None:
    if n_bytes > LARGEST_PICKLE:
        raise Refused(f"its pickles have more than {LARGEST_PICKLE:,} bytes")


def _check_pickle(stream: BytesIO) -> None:
    """Names, levels, and what is used twice."""
    levels: list[Optional[int]] = []  # of all that is on the stack
    shared: set[object] = set()
    last = ""
    for opcode, argument, _ in pickletools.genops(stream):
        name = opcode.name
        _check_size(stream.tell())
        if name in _NAMING and not (name == "GLOBAL" and argument in _ALLOWED):
            wanted = shortened(str(argument or name).replace(" ", "."))
            raise Refused(f"its pickle asks for {wanted}, of which no state dict is made")
        if name in _GETTING and argument not in shared:
            raise Refused("its pickle uses one object twice, which no state dict does")
        if name not in _PUTTING:
            last = name
        elif last in _SHARED:
            shared.add(argument)
        else:
            shared.discard(argument)
        _step(levels, opcode)


def _step(levels: list[Optional[int]], opcode: pickletools.OpcodeInfo) -> None:
    """What an opcode does to the stack, of which the levels alone are known."""
    before, after = opcode.stack_before, opcode.stack_after
    taken: list[Optional[int]] = []
    n_below = len(before)
    if pickletools.markobject in before:
        n_below = before.index(pickletools.markobject)
        while (level := levels.pop()) is not _MARK:
            taken.append(level)
    taken += [levels.pop() for _ in range(n_below)]
    level = 1 + max((level for level in taken if level is not None), default=0)
    if level > MAX_PICKLE_LEVELS:
        raise Refused(f"its pickle has more than {MAX_PICKLE_LEVELS} levels")
    levels.extend(_MARK if item is pickletools.markobject else level for item in after)
