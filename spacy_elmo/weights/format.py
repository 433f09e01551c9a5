"""Base class of the formats of models."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, Optional

import numpy as np

from ..frozen.softmax import FrozenSoftmax
from .archives import File
from .bundle import ModelBundle
from .tensor_file import rounded


class Format(ABC):
    """Base class of models on disk: finds, reads and writes them. Each subclass is one format.

    name (str): Name of the format.
    suffixes (Tuple[str, ...]): Suffixes of files; empty if the format is a folder.
    marker (str): Name of a file that every folder of this format contains.
    written (FrozenSet[str]): Names of all files that `write` can create in a folder.
    contents (str): Description of the content of a folder, for error messages.
    programs (str): Other programs that read the format. They need weights in float32.
    keeps_alignment (bool): Whether the format can store the alignment matrix.
    path (Path): The path of the model.
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
        """Find a model of this format at a path.

        path (Union[Path, zipfile.Path]): A file, a folder, a folder in an archive, or a prefix of
            file names.
        RETURNS (Optional[Format]): The model; None if there is no model of this format.
        RAISES (ValueError): There are several models, or a file is missing.
        """

    @abstractmethod
    def read(self, *, weights_only: bool = False, softmax: bool = True) -> ModelBundle:
        """Read the model.

        weights_only (bool): If True, read only the biLM, and ignore `softmax`.
        softmax (bool): If True, also read the softmax and its vocabulary.
        RETURNS (ModelBundle): The model.
        RAISES (ValueError): A file is broken, or the files belong to different models.
        """

    @abstractmethod
    def files(self) -> list[Path]:
        """Return the files of the model, the weights first."""

    def dtype(self) -> Optional[str]:
        """Return the dtype of the weights on disk, such as "float16"; None if it is unknown."""
        return None

    @classmethod
    @abstractmethod
    def write(cls, bundle: ModelBundle, target: Path, dtype: str = "float32") -> None:
        """Write a model. If this fails, nothing is written.

        bundle (ModelBundle): The model. Everything that `losses` lists is omitted.
        target (Path): The file or folder. Its parent must exist.
        dtype (str): Type of the biLM's weights on disk, one of `DTYPES`.
        RAISES (ValueError): The format cannot store the model.
        """

    @classmethod
    def targets(cls, target: Path) -> list[Path]:
        """Return all paths that `write` may create, including the target."""
        return [target]

    @classmethod
    def is_foreign(cls, folder: Path) -> bool:
        """Return False if a folder is empty, or contains only a model of this format."""
        names = {path.name for path in folder.iterdir()}
        return bool(names) and not {cls.marker} <= names <= cls.written

    @classmethod  # noqa: B027
    def check(cls, bundle: ModelBundle) -> None:
        """Check that the format can store a model.

        RAISES (ValueError): The format cannot store the model, or it needs a language and the
            model has none.
        """

    @classmethod
    def has_room(cls, softmax: FrozenSoftmax) -> bool:
        """Return whether the format can store a softmax and its vocabulary."""
        return False

    @classmethod
    def stored(cls, name: str, weight: np.ndarray, dtype: str) -> np.ndarray:
        """Return the value that a weight has after writing and reading.

        name (str): Name of the weight.
        weight (numpy.ndarray): The value before.
        dtype (str): Type of the biLM's weights on disk.
        RETURNS (numpy.ndarray): The value after, in float32.
        """
        return rounded(weight, dtype)

    @classmethod
    def losses(cls, bundle: ModelBundle, dtype: str) -> list[str]:
        """List everything of a model that is lost if it is written in this format.

        bundle (ModelBundle): The model.
        dtype (str): Type of the biLM's weights on disk.
        RETURNS (List[str]): Descriptions, such as "the alignment matrix".
        """
        lost = list(bundle.extras)
        if bundle.prediction is not None and not cls.has_room(bundle.prediction[0]):
            softmax, vocabulary = bundle.prediction
            kind = "adaptive " if softmax.kind == "adaptive" else ""
            lost.append(
                f"the {kind}softmax and its vocabulary of {len(vocabulary):,} words "
                f"(set `keep_softmax=False` if you do not need them)"
            )
        if bundle.bilm.alignment is not None and not cls.keeps_alignment:
            lost.append("the alignment matrix")
        n_changed, largest = 0, 0.0
        for name, weight in bundle.bilm.arrays().items():
            errors = np.abs(cls.stored(name, weight, dtype) - weight)
            n_changed += int(np.count_nonzero(errors))
            largest = max(largest, float(errors.max(initial=0.0)))
        if n_changed:
            lost.append(
                f"precision ({n_changed:,} weights change in {dtype}, by up to {largest:.2g})"
            )
        return lost
