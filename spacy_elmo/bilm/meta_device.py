"""Modules whose weights come from a file: they are built without values."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode


class _WithoutNormal(TorchFunctionMode):
    """Leaves out `normal_`: on the meta device it fills nothing, but PyTorch imports its
    compiler for it, which takes longer than all the rest of loading a small model."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is nn.init.normal_:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))


@contextmanager
def on_meta_device() -> Iterator[None]:
    """Within it, modules get parameters of shape and type alone (on the meta device), for
    `load_state_dict(..., assign=True)`."""
    with torch.device("meta"), _WithoutNormal():
        yield
