"""Copies to a GPU that the CPU does not wait for."""

import torch
from torch import Tensor


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor from the CPU to a device; on a CPU, return the tensor itself.

    A copy from ordinary memory waits until the GPU has computed everything before it. Only pinned
    memory can be copied later.
    """
    if device.type != "cuda" or tensor.is_cuda:
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
