"""Construction of modules without values, for weights that come from a file."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode


class _WithoutNormal(TorchFunctionMode):
    """Mode in which `normal_` does nothing.

    On the meta device it fills nothing, but PyTorch imports its compiler for it. That takes longer
    than everything else in loading a small model.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is nn.init.normal_:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))


@contextmanager
def on_meta_device() -> Iterator[None]:
    """Create modules on the meta device, where parameters have a shape and a type but no values.

    Fill them with `load_state_dict(..., assign=True)`.
    """
    with torch.device("meta"), _WithoutNormal():
        yield
