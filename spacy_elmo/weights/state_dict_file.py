"""PyTorch's pickled state dicts, of which nothing is ever run."""

import pickletools
import warnings
import zipfile
from collections.abc import Iterator
from typing import IO, BinaryIO, Optional

import numpy as np
import torch

from .archives import File, opened

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
_ZIP_START = b"PK\x03\x04"
_OLD_PICKLES = 5  # magic number, version, system, state dict, names of the storages


class StateDict:
    """The tensors of a state dict.

    tensors (Dict[str, Tensor]): What was read.
    source (str): Name of the file in messages.
    """

    kind = "tensor"

    def __init__(self, tensors: dict[str, torch.Tensor], source: str):
        self.source = source
        self._tensors = tensors

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def shape(self, name: str) -> Optional[tuple[int, ...]]:
        """As `StoredArrays` says."""
        tensor = self._tensors.get(name)
        if tensor is None:
            return None
        what = f"{self.source}: tensor '{name}'"
        if not tensor.is_floating_point():
            raise ValueError(f"{what} holds {tensor.dtype}, not floats")
        is_dense = tensor.layout == torch.strided and tensor.device.type == "cpu"
        if not is_dense or tensor.untyped_storage().nbytes() < tensor.nbytes:
            raise ValueError(f"{what} claims to hold {tensor.nbytes:,} bytes, which are not there")
        return tuple(tensor.shape)

    def read(self, name: str) -> np.ndarray:
        """As `StoredArrays` says."""
        return self._tensors[name].detach().to(torch.float32).numpy()


def read_state_dict(file: File) -> StateDict:
    """Read a state dict with `weights_only=True`, and only if its pickle names
    nothing but what tensors are made of.

    file (Union[Path, zipfile.Path]): The file.
    RETURNS (StateDict): Its tensors.
    RAISES (ValueError): It is no state dict, asks for something else, or is broken.
    """
    with opened(file) as stream:
        try:
            _check_pickles(stream)
            stream.seek(0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tensors = torch.load(stream, map_location="cpu", weights_only=True)
        except _Refused as error:
            raise ValueError(f"{file}: {error}. Nothing of it was run.") from error
        except Exception as error:  # PyTorch raises many kinds for broken files
            reason = without_advice(error)
            raise ValueError(f"{file}: not a readable state dict of PyTorch: {reason}") from None
    if not isinstance(tensors, dict) or not all(
        isinstance(name, str) and type(tensor) in (torch.Tensor, torch.nn.Parameter)
        for name, tensor in tensors.items()
    ):
        raise ValueError(f"{file}: not a state dict, which holds tensors by name")
    return StateDict(tensors, str(file))


class _Refused(Exception):
    pass


def _check_pickles(stream: BinaryIO) -> None:
    """Look through the pickles of a file without unpickling them."""
    start = stream.read(len(_ZIP_START))
    n_bytes = stream.seek(0, 2)
    stream.seek(0)
    if start != _ZIP_START:
        for _ in range(_OLD_PICKLES):
            _check_pickle(stream)
        return
    with zipfile.ZipFile(stream) as archive:
        members = archive.infolist()
        if sum(member.file_size for member in members) > n_bytes:  # PyTorch packs nothing
            raise _Refused("it claims to hold more bytes than there are")
        for member in members:
            if member.filename.endswith(".pkl"):
                with archive.open(member) as pickled:
                    _check_pickle(pickled)


def _check_pickle(stream: IO[bytes]) -> None:
    for opcode, argument, _ in pickletools.genops(stream):
        if opcode.name in _NAMING and not (opcode.name == "GLOBAL" and argument in _ALLOWED):
            wanted = str(argument or opcode.name).replace(" ", ".")
            raise _Refused(f"its pickle asks for '{wanted}', of which no state dict is made")


def without_advice(error: Exception) -> str:
    """RETURNS (str): One line of an error: PyTorch's advice is to read the file without care."""
    line = str(error).split("\n")[0].split(". ")[0]
    return line if line and "eights" not in line else type(error).__name__
