"""PyTorch's pickled state dicts, of which nothing is ever run."""

import warnings
from collections.abc import Mapping
from typing import Optional

import numpy as np
import torch

from ..files.errors import bounded
from ..frozen.config import shortened
from .archives import Readable, opened
from .pickles import Refused, check_pickles


class StateDict(dict[str, torch.Tensor]):
    """The tensors of a state dict by name, `StoredArrays`.

    tensors (Mapping[str, Tensor]): What was read.
    source (str): Name of the file in messages.
    """

    kind = "tensor"

    def __init__(self, tensors: Mapping[str, torch.Tensor], source: str):
        super().__init__(tensors)
        self.source = source

    def shape(self, name: str) -> Optional[tuple[int, ...]]:
        """As `StoredArrays` says."""
        tensor = self.get(name)
        if tensor is None:
            return None
        what = f"{self.source}: tensor {shortened(name)}"
        if not tensor.is_floating_point():
            raise ValueError(f"{what} holds {tensor.dtype}, not floats")
        is_dense = tensor.layout == torch.strided and tensor.device.type == "cpu"
        if not is_dense or tensor.untyped_storage().nbytes() < tensor.nbytes:
            raise ValueError(f"{what} claims to hold {tensor.nbytes:,} bytes, which are not there")
        return tuple(tensor.shape)

    def read(self, name: str) -> np.ndarray:
        """As `StoredArrays` says."""
        return self[name].detach().to(torch.float32).numpy()


def read_state_dict(file: Readable) -> StateDict:
    """Read a state dict with `weights_only=True`, and only if its pickle names
    nothing but what tensors are made of.

    file (Union[Path, zipfile.Path, OpenedFile]): The file.
    RETURNS (StateDict): Its tensors.
    RAISES (ValueError): It is no state dict, asks for something else, or is broken.
    """
    with opened(file) as stream:
        try:
            check_pickles(stream)
            stream.seek(0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tensors = torch.load(stream, map_location="cpu", weights_only=True)
        except Refused as error:
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


def without_advice(error: Exception) -> str:
    """RETURNS (str): One line of an error: PyTorch's advice is to read the file without care."""
    line = str(error).split("\n")[0].split(". ")[0]
    return bounded(line) if line and "eights" not in line else type(error).__name__
