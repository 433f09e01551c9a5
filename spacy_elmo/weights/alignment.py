"""Reader of alignment matrices, which map the vectors of one language to those of another.

Conneau et al. (2018) align word vectors. Schuster et al. (2019) align vectors of ELMo.
"""

from pathlib import Path

import numpy as np

from ..files.errors import named_errors

_PYTORCH = (".pth", ".pt")


def read_alignment(path: Path, width: int) -> np.ndarray:
    """Read an alignment matrix W, which maps a vector v to `W v`.

    path (Path): A `.npy` file, or a text file with one row per line and spaces between numbers.
    width (int): Width of the vectors, 2P.
    RETURNS (numpy.ndarray): *Shape:* `(2P, 2P)`
    RAISES (ValueError): The file does not contain a finite matrix of this shape.
    """
    if path.suffix in _PYTORCH:
        raise ValueError(
            f"align: {path} is a PyTorch file. Save its matrix W with numpy.save('W.npy', W)"
        )
    with named_errors(f"align: {path} does not contain a readable matrix", (OSError, ValueError)):
        if path.suffix == ".npy":
            found = np.load(path, mmap_mode="r", allow_pickle=False)
        else:
            with path.open(encoding="utf-8-sig") as lines:
                found = np.loadtxt(lines, dtype="float32", ndmin=2, max_rows=width + 1)
    if found.shape != (width, width):
        raise ValueError(
            f"align: the matrix in {path} has shape {found.shape}. The vectors have width {width}, "
            f"so it must be {(width, width)}"
        )
    matrix = np.array(found, dtype="float32")
    if not np.isfinite(matrix).all():
        raise ValueError(f"align: the matrix in {path} contains NaN or infinity. Compute it again")
    return matrix
