"""Number format in which frozen weights are stored and multiplied."""

import logging
from functools import cache

from .kernel import Kernel

logger = logging.getLogger("spacy")


def resolve_precision(precision: str, kernel: Kernel) -> str:
    """Return the number format in which a kernel computes, for a setting `precision`.

    If the kernel is not fast in the requested format, the result is "float32", and a warning is
    logged once (not for "auto").

    precision (str): "float32", "bfloat16", "int8", or "auto" for the fastest format whose vectors
        are close to float32 (cosine above 0.999).
    kernel (Kernel): The kernel.
    RETURNS (str): "float32", "bfloat16" or "int8".
    """
    wanted = "bfloat16" if precision == "auto" else precision
    if wanted == "float32" or wanted in kernel.fast_types:
        return wanted
    if precision != "auto":
        _say_once(precision, kernel.name)
    return "float32"


@cache
def _say_once(precision: str, kernel: str) -> None:
    logger.warning(
        "precision = '%s' has no fast operation on this machine (kernel '%s'). Using 'float32'.",
        *(precision, kernel),
    )
