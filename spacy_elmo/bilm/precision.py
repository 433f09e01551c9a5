"""In which numbers matrix products are computed by PyTorch."""

import torch


def resolve_precision(precision: str, device: torch.device) -> str:
    """Find what a precision means for a module; on a CPU it computes in float32.

    precision (str): "float32", "bfloat16", "int8", or "auto" for the fastest good one.
    device (torch.device): Where the module is.
    RETURNS (str): "float32", "bfloat16", or "float16" if the GPU has no bfloat16.
    """
    if precision == "float32" or device.type == "cpu":
        return "float32"
    return "bfloat16" if has_bfloat16(device) else "float16"


def has_bfloat16(device: torch.device) -> bool:
    """RETURNS (bool): Whether processor or GPU has instructions for bfloat16."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    # Private, and not in every release: where one is missing, float32 it is.
    names = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(getattr(torch.cpu, name, bool)() for name in names)
