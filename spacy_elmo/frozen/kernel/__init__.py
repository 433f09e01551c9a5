"""Kernels: multiply frozen weights and run LSTMs, compiled if possible, else in NumPy.

`kernel.cpp` explains the design. It is compiled once for each instruction set. `numpy_kernel.py`
is the readable reference and the fallback. Invariant: each compiled kernel computes the same as the
reference. The tests compare them.

The default is the fastest kernel that was built and that the processor supports: the last one of
`KERNELS` that is worthwhile there (see `processor.h`). Set `SPACY_ELMO_KERNEL` to `numpy` or to one
of `KERNELS` to use another kernel. `resolve_precision` chooses the number format for a kernel.
"""

import logging
import os
from functools import cache
from typing import TypeAlias, Union

from .compiled import KERNELS, CompiledKernel, load_compiled
from .numpy_kernel import NumpyKernel

VARIABLE = "SPACY_ELMO_KERNEL"
NUMPY = "numpy"
# Number formats whose vectors are close to float32: with the weights of `en_small`, the cosine of
# each token's vectors is above 0.9999. int8 only reaches 0.9994 (docs/precision.md).
CLOSE = ("bfloat16",)

logger = logging.getLogger("spacy")

Kernel: TypeAlias = Union[NumpyKernel, CompiledKernel]


@cache
def find_kernel(name: str = "") -> Kernel:
    """Return a kernel, by default the fastest one on this machine.

    name (str): Name of the kernel. Default: the value of `SPACY_ELMO_KERNEL`, or the fastest.
    RETURNS (Kernel): The kernel.
    RAISES (ValueError): The kernel is unknown, or this machine cannot run it.
    """
    wanted = name or os.environ.get(VARIABLE, "")
    known = (NUMPY, *KERNELS)
    if wanted and wanted not in known:
        raise ValueError(f"{VARIABLE} is '{wanted}'. Set it to one of {', '.join(known)}.")
    for kind in [wanted] if wanted else reversed(KERNELS):
        library = load_compiled(kind)
        if library is not None and (wanted or library.elmo_is_worthwhile()):
            return CompiledKernel(kind, library)
    if wanted not in ("", NUMPY):
        raise ValueError(
            f"{VARIABLE} is '{wanted}', but this installation was built without it or the "
            f"processor lacks it. Available: {', '.join(available_kernels())}."
        )
    return NumpyKernel()


def available_kernels() -> list[str]:
    """Return the names of the kernels that this machine can run, slowest first."""
    return [NUMPY, *(name for name in KERNELS if load_compiled(name) is not None)]


def resolve_precision(precision: str, kernel: Kernel) -> str:
    """Return the number format in which a kernel computes, for a setting `precision`.

    If the kernel is not fast in the requested format, the result is "float32", and a warning is
    logged once (not for "auto").

    precision (str): "float32", "bfloat16", "int8", or "auto" for the fastest format of the kernel
        whose vectors are close to float32 (`CLOSE`).
    kernel (Kernel): The kernel.
    RETURNS (str): "float32", "bfloat16" or "int8".
    """
    if precision == "auto":
        return next((each for each in kernel.fast_types if each in CLOSE), "float32")
    if precision == "float32" or precision in kernel.fast_types:
        return precision
    _say_once(precision, kernel.name)
    return "float32"


@cache
def _say_once(precision: str, kernel: str) -> None:
    logger.warning(
        "precision = '%s' has no fast operation on this machine (kernel '%s'). Using 'float32'.",
        *(precision, kernel),
    )
