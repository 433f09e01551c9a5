"""Content of a model in any format, and base class of the formats that read and write it."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Optional

import numpy as np
import srsly

from ..files.errors import named_errors, shortened
from ..files.paths import content_names
from ..frozen.model import FrozenBiLM
from ..frozen.softmax import FrozenSoftmax
from ..model.vocabulary import Vocabulary
from .archives import File
from .tensor_file import rounded

Prediction = tuple[FrozenSoftmax, Vocabulary]


@dataclass
class ModelBundle:
    """Content of a model. Readers return a bundle, and writers write a bundle.

    prediction (Optional[Tuple[FrozenSoftmax, Vocabulary]]): The softmax and its words.
    lang (Optional[str]): The language code; None if unknown.
    extras (List[str]): Descriptions of everything in the source that a bundle cannot store.
    missing (str): If `prediction` is None: name of the missing file; "softmax" if it is unknown.
    """

    bilm: FrozenBiLM
    prediction: Optional[Prediction] = None
    lang: Optional[str] = None
    extras: list[str] = field(default_factory=list)
    missing: str = "softmax"

    @property
    def provenance(self) -> dict[str, Any]:
        """Description of how the model was made: a dict of JSON values, in `bilm.provenance`."""
        return self.bilm.provenance

    def add_provenance(self, provenance: Any, source: object) -> None:
        """Set provenance and language from the provenance that the file `source` contains, if any.

        RAISES (ValueError): The provenance is invalid, see `checked_provenance`.
        """
        if provenance is not None:
            self.bilm.provenance = checked_provenance(provenance, source)
            self.lang = provenance.get("lang")


def checked_provenance(provenance: Any, source: object) -> dict[str, Any]:
    """Check the provenance of the file `source`, and return it.

    RAISES (ValueError): The provenance is not a dict, its language is not a string, or one of its
        strings cannot be encoded in UTF-8.
    """
    if not isinstance(provenance, dict):
        raise ValueError(f"{source}: the provenance is not a JSON object")
    lang = provenance.get("lang")
    if not isinstance(lang, (str, type(None))):
        raise ValueError(
            f"{source}: 'lang' in its provenance is {shortened(lang)}. It must be a language "
            f"code, such as 'en'"
        )
    with named_errors(f"{source}: the provenance is not UTF-8", UnicodeEncodeError):
        srsly.json_dumps(provenance).encode()
    return provenance


class Format(ABC):
    """Base class of models on disk: finds, reads and writes them. Each subclass is one format.

    name (str): Name of the format.
    suffixes (Tuple[str, ...]): Suffixes of files; empty if the format is a folder.
    marker (str): Name of a file that every folder of this format contains.
    written (FrozenSet[str]): Relative paths of all files that `write` can create in a folder.
    contents (str): Description of the content of a folder, for error messages.
    programs (str): Other programs that read the format. They need weights in float32.
    keeps_alignment (bool): Whether the format can store the alignment matrix.
    rounds_softmax (bool): Whether `write` stores the softmax in the type of the biLM's weights.
    path (Path): The path that the user gave, such as an archive. `read_model` sets it.
    """

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]] = ()
    marker: ClassVar[str] = ""
    written: ClassVar[frozenset[str]] = frozenset()
    contents: ClassVar[str] = ""
    programs: ClassVar[str] = ""
    keeps_alignment: ClassVar[bool] = False
    rounds_softmax: ClassVar[bool] = False
    path: Path

    @classmethod
    @abstractmethod
    def find(cls, path: File) -> Optional["Format"]:
        """Find a model of this format at a path; None if there is no such model.

        path (Union[Path, zipfile.Path]): A file, a folder, a folder in an archive, or a prefix of
            file names.
        RAISES (ValueError): There are several models, or a file is missing.
        """

    @abstractmethod
    def read(self, *, weights_only: bool = False, softmax: bool = True) -> ModelBundle:
        """Read the model.

        weights_only (bool): If True, read only the biLM, and ignore `softmax`.
        softmax (bool): If True, also read the softmax and its vocabulary.
        RAISES (ValueError): A file is broken, or the files belong to different models.
        """

    @abstractmethod
    def files(self) -> list[Path]:
        """Return the paths of the model's files."""

    def dtype(self) -> Optional[str]:
        """Return the dtype of the weights on disk, such as "float16"; None if it is unknown."""
        return None

    @classmethod
    @abstractmethod
    def write(cls, bundle: ModelBundle, target: Path, dtype: str = "float32") -> None:
        """Write a model. If this fails, nothing is written.

        bundle (ModelBundle): Everything that `losses` lists is omitted.
        target (Path): The file or folder. Its parent must exist.
        dtype (str): Type of the biLM's weights on disk, one of `DTYPES`.
        RAISES (ValueError): The format cannot store the model.
        """

    @classmethod
    def targets(cls, target: Path) -> list[Path]:
        """Return all paths that `write` may create, including the target."""
        return [target]

    @classmethod
    def find_foreign(cls, folder: Path) -> Optional[str]:
        """Return why a folder is not only a model of this format; None if it is."""
        names = content_names(folder)
        if names - cls.written:
            return f"it contains {shortened(min(names - cls.written))}"
        return f"it has no {cls.marker}" if names and cls.marker not in names else None

    @classmethod
    def is_foreign(cls, folder: Path) -> bool:
        """Return whether a folder contains anything other than a model of this format."""
        return cls.find_foreign(folder) is not None

    @classmethod  # noqa: B027
    def check(cls, bundle: ModelBundle) -> None:
        """Check that the format can store a model.

        RAISES (ValueError): The format cannot store the model, or it needs a language and the
            model has none.
        """

    @classmethod
    def stores_softmax(cls, softmax: FrozenSoftmax) -> bool:
        """Return whether the format can store a softmax and its vocabulary."""
        return False

    @classmethod
    def as_read(cls, name: str, weight: np.ndarray, dtype: str) -> np.ndarray:
        """Return a weight as a reader gets it, in float32, after it was written in this format."""
        return rounded(weight, dtype)

    @classmethod
    def losses(cls, bundle: ModelBundle, dtype: str) -> list[str]:
        """List everything of a model that is lost if it is written in this format.

        RETURNS (List[str]): Descriptions, such as "the alignment matrix".
        """
        lost = list(bundle.extras)
        if bundle.prediction is not None and not cls.stores_softmax(bundle.prediction[0]):
            softmax, vocabulary = bundle.prediction
            kind = "adaptive " if softmax.kind == "adaptive" else ""
            lost.append(
                f"the {kind}softmax and its vocabulary of {len(vocabulary):,} words "
                f"(set `keep_softmax=False` if you do not need them)"
            )
        if bundle.bilm.alignment is not None and not cls.keeps_alignment:
            lost.append("the alignment matrix")
        weights = bundle.bilm.arrays()
        read = (cls.as_read(name, weight, dtype) for name, weight in weights.items())
        lost += _rounding("weights", weights.values(), read, dtype)
        if bundle.prediction is not None and cls.rounds_softmax:
            weights = bundle.prediction[0].arrays()
            read = (rounded(weight, dtype) for weight in weights.values())
            lost += _rounding("weights of the softmax", weights.values(), read, dtype)
        return lost


def _rounding(
    kind: str, weights: Iterable[np.ndarray], read: Iterable[np.ndarray], dtype: str
) -> list[str]:
    """Describe what weights lose if a reader gets `read` in their place; empty if nothing."""
    n_changed, largest = 0, 0.0
    for before, after in zip(weights, read):
        errors = np.abs(after - before)
        n_changed += int(np.count_nonzero(errors))
        largest = max(largest, float(errors.max(initial=0.0)))
    if not n_changed:
        return []
    return [f"precision ({n_changed:,} {kind} change in {dtype}, by up to {largest:.2g})"]
