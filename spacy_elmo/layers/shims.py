"""Helpers of shims, which contain PyTorch modules: the shims of language models and of tasks."""

import contextlib
import copy
from collections.abc import Iterator
from typing import Any, TypeVar

from thinc.api import Shim, xp2torch

ShimType = TypeVar("ShimType", bound=Shim)


def copy_shim(shim: ShimType) -> ShimType:
    """Copy a shim with its weights, under a new id.

    Optimizers use the id as a key of the weights, so two shims must not have the same id.
    """
    copied = copy.deepcopy(shim)
    copied.id = Shim(None).id
    return copied


@contextlib.contextmanager
def swapped_weights(shim: Shim, module: Any, params: dict) -> Iterator[bool]:
    """Context manager: a PyTorch module has other weights, such as the averages of an optimizer.

    Without a module, nothing changes.

    params (dict): A key is the id of the shim and the name of a weight.
    YIELDS (bool): Whether weights of the module have changed.
    """
    named = () if module is None else module.named_parameters()
    weights = {key: one.data for name, one in named if (key := (shim.id, name)) in params}
    kept = {key: values.clone() for key, values in weights.items()}
    for key, values in weights.items():
        values.copy_(xp2torch(params[key]))
    try:
        yield bool(weights)
    finally:
        for key, values in weights.items():
            values.copy_(kept[key])
