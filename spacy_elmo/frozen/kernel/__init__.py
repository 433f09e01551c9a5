"""The kernel that multiplies frozen weights: compiled where it can be, numpy otherwise.

`SPACY_ELMO_KERNEL` forces one of `numpy`, `avx2`, `avx512` and `neon`. Without it the fastest is
taken that was built and that the processor has.
"""

import os
from functools import cache
from typing import Any, Protocol

import numpy as np

from .compiled import KERNELS, CompiledKernel, load_compiled
from .numpy_kernel import NumpyKernel

VARIABLE = "SPACY_ELMO_KERNEL"
NUMPY = "numpy"


class Kernel(Protocol):
    """Operations on frozen weights.

    name (str): "numpy", "avx2", "avx512" or "neon".
    fast_types (Tuple[str, ...]): Types of weights that it multiplies faster than float32.
    """

    name: str
    fast_types: tuple[str, ...]

    def make_linear(self, weight: np.ndarray, bias: Any, type: str) -> Any: ...

    def make_lstm(self, weights: Any, type: str, *, cell_clip: float, proj_clip: float) -> Any: ...

    def convolve(self, table: np.ndarray, index: np.ndarray) -> np.ndarray: ...


@cache
def find_kernel(name: str = "") -> Kernel:
    """Find the kernel to compute with.

    name (str): Its name; if empty, `SPACY_ELMO_KERNEL` or the fastest.
    RETURNS (Kernel): The kernel.
    RAISES (ValueError): There is no such kernel, or this machine cannot run it.
    """
    wanted = name or os.environ.get(VARIABLE, "")
    known = (NUMPY, *KERNELS)
    if wanted and wanted not in known:
        raise ValueError(f"{VARIABLE} is '{wanted}'. Set it to one of {', '.join(known)}.")
    for kind in [wanted] if wanted else reversed(KERNELS):
        library = load_compiled(kind)
        if library is not None:
            return CompiledKernel(kind, library)
    if wanted not in ("", NUMPY):
        raise ValueError(
            f"{VARIABLE} is '{wanted}', but this installation was built without it or the "
            f"processor lacks it. Available: {', '.join(available_kernels())}."
        )
    return NumpyKernel()


def available_kernels() -> list[str]:
    """RETURNS (List[str]): Names of the kernels that this machine can run, slowest first."""
    return [NUMPY, *(name for name in KERNELS if load_compiled(name) is not None)]
