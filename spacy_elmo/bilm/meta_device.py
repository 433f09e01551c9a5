"""Construction of modules without values: `load_state_dict` sets the values afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode


class _WithoutNormal(TorchFunctionMode):
    """PyTorch mode in which `nn.init.normal_` does nothing.

    `normal_` has no effect on the meta device, but PyTorch imports its compiler to run it. This
    takes longer than all other steps of loading a small model.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is nn.init.normal_:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))


@contextmanager
def on_meta_device() -> Iterator[None]:
    """Context manager: modules that are made in the block are on PyTorch's meta device.

    There, parameters have a shape and a type, but no values and no memory. Afterwards, set the
    values with `load_state_dict(..., assign=True)`.
    """
    with torch.device("meta"), _WithoutNormal():
        yield
