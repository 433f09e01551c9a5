"""Safe reader of PyTorch's pickled state dicts.

`torch.load(weights_only=True)` does not run code from the file, but does not limit time and memory.
Examples with PyTorch 2.13:

* A file of 1 KB with a `bytearray` took 2 GB of memory.
* A file with sixty nested tuples as a key, each used twice, never finished.
* A file of 250 KB with 250,000 nested tuples as a key crashed the process.

So the reader scans the pickles first. It refuses names that no state dict needs, objects that are
used twice, and deep nesting.
"""

import pickletools
import warnings
import zipfile
from io import BytesIO
from typing import TYPE_CHECKING, Any, BinaryIO, Optional

import numpy as np

from ..files.errors import bounded
from ..frozen.config import shortened
from .archives import Readable, check_directory, opened
from .layout import StoredArrays
from .limits import LARGEST_PICKLE, MAX_ENTRIES, MAX_PICKLE_LEVELS

if TYPE_CHECKING:
    import torch

# Names that the pickle of a state dict with tensors of floats needs.
_ALLOWED = {
    "collections OrderedDict",
    *("torch._utils _rebuild_tensor", "torch._utils _rebuild_tensor_v2"),
    "torch._utils _rebuild_parameter",
    *("torch BFloat16Storage", "torch DoubleStorage", "torch FloatStorage", "torch HalfStorage"),
}
_GETTING = {"GET", "BINGET", "LONG_BINGET"}
_PUTTING = {"PUT", "BINPUT", "LONG_BINPUT"}
# Opcodes of objects that may be used twice: names and strings. A state dict needs no others.
_SHARED = {"GLOBAL", "BINUNICODE", "SHORT_BINUNICODE", "UNICODE", *_GETTING}
# Number of pickles in a file of the old format: magic number, version, system, state dict, storage
# names.
_OLD_PICKLES = 5
_MARK = None  # Item in a list of levels: a mark on the stack of the pickle machine.


class Refused(Exception):
    """Error for a file with content that does not belong in a state dict."""


class StateDict(StoredArrays):
    """Tensors of a state dict of PyTorch."""

    def _checked_shape(self, name: str) -> tuple[int, ...]:
        tensor: torch.Tensor = self[name]
        what = f"{self.source}: tensor {shortened(name)}"
        if not tensor.is_floating_point():
            raise ValueError(f"{what} contains {tensor.dtype}, not floats")
        is_dense = str(tensor.layout) == "torch.strided" and tensor.device.type == "cpu"
        if not is_dense or tensor.untyped_storage().nbytes() < tensor.nbytes:
            raise ValueError(f"{what} claims to contain {tensor.nbytes:,} bytes, but has fewer")
        return tuple(tensor.shape)

    def read(self, name: str) -> np.ndarray:
        """Return a tensor, converted to float32."""
        return np.asarray(self[name].detach().float().numpy())


def read_state_dict(file: Readable) -> StateDict:
    """Scan the pickles of a state dict, and read it with `weights_only=True`.

    file (Union[Path, zipfile.Path, OpenedFile]): The file.
    RETURNS (StateDict): The tensors.
    RAISES (ValueError): The file is broken or not a state dict, or PyTorch is not installed.
    """
    torch = import_torch(f"{file} is a state dict of PyTorch")
    with opened(file) as stream:
        try:
            check_pickles(stream)
            stream.seek(0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tensors = torch.load(stream, map_location="cpu", weights_only=True)
        except Refused as error:
            raise ValueError(f"{file}: {error}. No code from this file was run.") from error
        except Exception as error:  # PyTorch raises many types of errors for broken files.
            reason = without_advice(error)
            raise ValueError(f"{file}: not a readable state dict of PyTorch: {reason}") from None
    if not isinstance(tensors, dict) or not all(
        isinstance(name, str) and type(tensor) in (torch.Tensor, torch.nn.Parameter)
        for name, tensor in tensors.items()
    ):
        raise ValueError(f"{file}: not a state dict, which is a dict of tensors")
    return StateDict(tensors, str(file))


def import_torch(reason: str) -> Any:
    """Import PyTorch for a format that needs it.

    reason (str): The file or format, for the error message: "REASON, which needs PyTorch".
    RETURNS (ModuleType): PyTorch.
    RAISES (ValueError): PyTorch is not installed.
    """
    try:
        import torch
    except ImportError:
        raise ValueError(f"{reason}, which needs PyTorch. Run: pip install torch") from None
    return torch


def check_pickles(stream: BinaryIO) -> None:
    """Check the pickles of a file without unpickling them.

    stream (BinaryIO): The file.
    RAISES (Refused): The pickles are too large, or have content that does not belong in a state
        dict.
    RAISES (Exception): The file is neither a zip archive nor a pickle.
    """
    is_archive = stream.read(4) == b"PK\x03\x04"
    n_bytes = stream.seek(0, 2)
    stream.seek(0)
    if not is_archive:
        pickles = BytesIO(stream.read(LARGEST_PICKLE + 1))
        for _ in range(_OLD_PICKLES):
            _check_pickle(pickles)
        return
    check_directory(stream)
    with zipfile.ZipFile(stream) as archive:
        members = archive.infolist()
        if len(members) > MAX_ENTRIES:
            raise Refused(f"it has {len(members):,} members")
        # PyTorch's archives are not compressed.
        if sum(member.file_size for member in members) > n_bytes:
            raise Refused("its members claim more bytes than the file has")
        pickled = [member for member in members if member.filename.endswith(".pkl")]
        _check_size(sum(member.file_size for member in pickled))
        for member in pickled:
            _check_pickle(BytesIO(archive.read(member)))


def _check_size(n_bytes: int) -> None:
    if n_bytes > LARGEST_PICKLE:
        raise Refused(f"its pickles have more than {LARGEST_PICKLE:,} bytes")


def _check_pickle(stream: BytesIO) -> None:
    """Check size, imported names and depth of a pickle, and that it uses no object twice.

    Strings and imported names may be used twice.
    """
    levels: list[Optional[int]] = []  # Nesting depth of each object on the stack.
    shared: set[object] = set()
    last = ""
    for opcode, argument, _ in pickletools.genops(stream):
        name = opcode.name
        _check_size(stream.tell())
        # PyTorch itself refuses the other opcodes that import a name.
        if name == "GLOBAL" and argument not in _ALLOWED:
            asked = shortened(str(argument).replace(" ", "."))
            raise Refused(f"its pickle asks for {asked}, which no state dict needs")
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
    """Apply one opcode of a pickle to `levels`, the nesting depth of each object on its stack."""
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


def without_advice(error: Exception) -> str:
    """Return the first sentence of an error, without PyTorch's advice to load the file anyway."""
    line = str(error).split("\n")[0].split(". ")[0]
    return bounded(line) if line and "eights" not in line else type(error).__name__
