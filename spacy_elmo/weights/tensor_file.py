"""The bytes of `.safetensors` files."""

from pathlib import Path
from typing import Union

import torch

from ..bilm.finite import is_finite
from ..files import OpenedFile
from .archives import opened
from .limits import LARGEST_JSON

N_SIZE = 8  # bytes that say how long the header is


def read_file(file: Union[Path, OpenedFile]) -> bytes:
    """Read a `.safetensors` file.

    file (Union[Path, OpenedFile]): The file.
    RETURNS (bytes): Its content.
    RAISES (ValueError): It is none, or its header larger than any model's.
    """
    with opened(file) as stream:
        start = stream.read(N_SIZE)
        size = header_size(start)
        if size > LARGEST_JSON:
            raise ValueError(
                f"{file}: not a readable .safetensors file: its header claims {size:,} bytes, "
                f"there may be {LARGEST_JSON:,}"
            )
        return start + stream.read()


def header_size(data: bytes) -> int:
    """RETURNS (int): Bytes of the header, as the file's beginning says."""
    return int.from_bytes(data[:N_SIZE], "little")


def cast(name: str, value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """RETURNS (torch.Tensor): A weight in the type that it has on disk.
    RAISES (ValueError): It is too large for the type, or not finite."""
    if not is_finite(value):
        raise ValueError(
            f"'{name}' holds NaN or infinity, and no such model is written: train again with a "
            f"lower learn_rate"
        )
    stored = value.to(dtype).contiguous()
    if dtype != value.dtype and stored.isinf().any():
        raise ValueError(
            f"'{name}' holds {value.abs().max():.3g}, which is too large for {dtype}: "
            f"use bfloat16 or float32"
        )
    return stored
