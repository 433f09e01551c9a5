"""What a format of stored models is."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, Optional

import numpy as np

from ..frozen.softmax import FrozenSoftmax
from .archives import File
from .bundle import ModelBundle
from .tensor_file import rounded


class Format(ABC):
    """A model on disk. Its class is its format.

    name (str): The format, as users write it.
    suffixes (Tuple[str, ...]): How the names of its files end; none of a folder.
    marker (str): A file that every folder of the format has.
    written (FrozenSet[str]): Names of all that `write` writes into a folder.
    contents (str): What such a folder holds, in words.
    programs (str): Other programs that read the format, in float32 alone.
    keeps_alignment (bool): Whether it has room for a matrix that aligns the layers.
    path (Path): Where the model was found.
    """

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]] = ()
    marker: ClassVar[str] = ""
    written: ClassVar[frozenset[str]] = frozenset()
    contents: ClassVar[str] = ""
    programs: ClassVar[str] = ""
    keeps_alignment: ClassVar[bool] = False
    path: Path

    @classmethod
    @abstractmethod
    def find(cls, path: File) -> Optional["Format"]:
        """Find a model.

        path (Union[Path, zipfile.Path]): A file, a folder, the folder of an archive; or the
            beginning of names.
        RETURNS (Optional[Format]): The model, or None if the path means something else.
        RAISES (ValueError): There are several, or a part is missing.
        """

    @abstractmethod
    def read(self, *, weights_only: bool = False, softmax: bool = True) -> ModelBundle:
        """Read the model.

        weights_only (bool): Read the biLM, and nothing that stands with it.
        softmax (bool): Whether to read the softmax and its words, too.
        RETURNS (ModelBundle): The model.
        RAISES (ValueError): A file is broken, or they do not fit one another.
        """

    @abstractmethod
    def files(self) -> list[Path]:
        """RETURNS (List[Path]): The files that make the model, the weights first."""

    def dtype(self) -> Optional[str]:
        """RETURNS (Optional[str]): The type of the weights on disk, where it is easily known."""
        return None

    @classmethod
    @abstractmethod
    def write(cls, bundle: ModelBundle, target: Path, dtype: str = "float32") -> None:
        """Write a model, whole or not at all.

        bundle (ModelBundle): The model; what the format has no room for is left out.
        target (Path): The file or folder; its own folder exists.
        dtype (str): Type of the biLM's weights on disk, one of `DTYPES`.
        RAISES (ValueError): The format has no place for such a model.
        """

    @classmethod
    def targets(cls, target: Path) -> list[Path]:
        """RETURNS (List[Path]): What `write` would write: the target, and files beside it."""
        return [target]

    @classmethod
    def is_foreign(cls, folder: Path) -> bool:
        """RETURNS (bool): Whether a folder holds something that `write` does not write."""
        names = {path.name for path in folder.iterdir()}
        return bool(names) and not {cls.marker} <= names <= cls.written

    @classmethod  # noqa: B027
    def check(cls, bundle: ModelBundle) -> None:
        """RAISES (ValueError): The format has no place for a model of such sizes, or needs
        something else."""

    @classmethod
    def has_room(cls, softmax: FrozenSoftmax) -> bool:
        """RETURNS (bool): Whether the format has room for a softmax and its vocabulary."""
        return False

    @classmethod
    def losses(cls, bundle: ModelBundle, dtype: str) -> list[str]:
        """Find what the format has no room for.

        bundle (ModelBundle): The model.
        dtype (str): Type of the biLM's weights on disk.
        RETURNS (List[str]): What would be lost, in words.
        """
        lost = list(bundle.extras)
        if bundle.prediction is not None and not cls.has_room(bundle.prediction[0]):
            softmax, vocabulary = bundle.prediction
            kind = "adaptive " if softmax.kind == "adaptive" else ""
            lost.append(
                f"the {kind}softmax and its vocabulary of {len(vocabulary):,} words "
                f"(`keep_softmax=False` if they are not wanted)"
            )
        if bundle.bilm.alignment is not None and not cls.keeps_alignment:
            lost.append("the matrix that aligns its layers with another model's")
        weights = bundle.bilm.arrays().values()
        n_changed, largest = rounding((weight, rounded(weight, dtype)) for weight in weights)
        if n_changed:
            lost.append(
                f"precision ({n_changed:,} weights change in {dtype}, by up to {largest:.2g})"
            )
        return lost


def rounding(stored: Iterable[tuple[np.ndarray, np.ndarray]]) -> tuple[int, float]:
    """Count the weights that are stored as something else.

    stored (Iterable[Tuple[numpy.ndarray, numpy.ndarray]]): Weights, and what is stored of them.
    RETURNS (Tuple[int, float]): How many weights change, and by how much at most.
    """
    n_changed, largest = 0, 0.0
    for weight, again in stored:
        errors = np.abs(again - weight)
        n_changed += int(np.count_nonzero(errors))
        largest = max(largest, float(errors.max(initial=0.0)))
    return n_changed, largest
