"""A matrix that maps the vectors of one language onto those of another: Conneau et al. (2018),
and Schuster et al. (2019) for ELMo's."""

from pathlib import Path

import numpy as np

from ..files.errors import named_errors

_PYTORCH = (".pth", ".pt")


def read_alignment(path: Path, width: int) -> np.ndarray:
    """Read a matrix W, by which `W v` is the aligned vector of v.

    path (Path): A `.npy` file, or text: a row a line, numbers separated by spaces.
    width (int): Width of the vectors, 2P.
    RETURNS (numpy.ndarray): *Shape:* `(2P, 2P)`
    RAISES (ValueError): There is no such matrix of finite numbers in it.
    """
    if path.suffix in _PYTORCH:
        raise ValueError(
            f"align: {path} is a file of PyTorch's: save its matrix W by numpy.save('W.npy', W)"
        )
    with named_errors(f"align: no matrix can be read from {path}", (OSError, ValueError)):
        if path.suffix == ".npy":
            found = np.load(path, mmap_mode="r", allow_pickle=False)
        else:
            with path.open(encoding="utf-8-sig") as lines:
                found = np.loadtxt(lines, dtype="float32", ndmin=2, max_rows=width + 1)
    if found.shape != (width, width):
        raise ValueError(
            f"align: the matrix in {path} has shape {found.shape}, but the vectors are {width} "
            f"wide: it has to be {(width, width)}"
        )
    matrix = np.array(found, dtype="float32")
    if not np.isfinite(matrix).all():
        raise ValueError(f"align: the matrix in {path} holds numbers that are not finite")
    return matrix
