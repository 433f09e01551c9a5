"""In which numbers matrix products are computed, and what this machine offers."""

import logging
from functools import cache

import torch

from .prepacked import can_multiply_int8

logger = logging.getLogger("spacy")

# Fastest first: where one is missing, the next takes its place.
_BY_SPEED = ("int8", "bfloat16", "float16", "float32")


def resolve_precision(precision: str, device: torch.device) -> str:
    """What a precision means on this machine. One that it has no fast operation
    for gives way to the next slower; the log says so once.

    precision (str): "float32", "bfloat16", "int8", or "auto": the fastest whose
        vectors stay near those of float32 (cosine above 0.999).
    device (torch.device): Where the model is.
    RETURNS (str): "float32", "bfloat16", "int8", or "float16", which GPUs without
        bfloat16 compute in.
    """
    slower = _BY_SPEED[1 if precision == "auto" else _BY_SPEED.index(precision) :]
    found = next(name for name in slower if _is_available(name, device))
    if precision not in (found, "auto"):
        _say_once(precision, found, device.type)
    return found


def has_bfloat16(device: torch.device) -> bool:
    """RETURNS (bool): Whether processor or GPU has instructions for bfloat16."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    # Private, and not in every release: where one is missing, float32 it is.
    names = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(getattr(torch.cpu, name, bool)() for name in names)


def _is_available(precision: str, device: torch.device) -> bool:
    if precision == "bfloat16":
        return has_bfloat16(device)
    if precision == "int8":
        return device.type == "cpu" and can_multiply_int8()
    return precision == "float32" or device.type == "cuda"


@cache
def _say_once(wanted: str, found: str, device: str) -> None:
    logger.warning(
        "precision = '%s' has no fast operation on this machine (%s): using '%s'",
        *(wanted, device, found),
    )
