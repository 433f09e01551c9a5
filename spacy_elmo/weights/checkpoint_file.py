"""Reader of bilm-tf's checkpoints, which needs TensorFlow."""

import re
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, ClassVar, Optional

import numpy as np

from ..files.errors import named_errors
from ..files.optional import import_optional
from .allennlp import BIAS, EMBEDDING, WEIGHT, AllenNLP
from .archives import File
from .layout import StoredArrays

STATE_FILE = "checkpoint"  # TensorFlow writes the path of the latest checkpoint to this file.
INDEX = ".index"
_SCOPE = "lm/"
_LATEST = re.compile(r'^model_checkpoint_path:\s*"(?:.*[/\\])?([^"/\\]+)"', re.MULTILINE)
# Parts of variable names that bilm-tf's `dump_weights` replaces.
_NAMES = (("multi_rnn_cell/cell_", "MultiRNNCell/Cell"), ("lstm_cell/", "LSTMCell/"))
# Parts that it replaces only in models with two directions.
_TWO_DIRECTIONS = (
    ("/rnn/", "/RNN/"),
    ("projection/kernel", "W_P_0"),
    ("/kernel", "/W_0"),
    ("/bias", "/B"),
)


class Checkpoint(AllenNLP):
    """Checkpoint `model.ckpt-NUMBER` (`.index` and `.data` files) with its `options.json`.

    It contains the same weights as the HDF5 file that bilm-tf's `dump_weights` writes, and also
    the softmax. Checkpoints can only be read.
    """

    name = "checkpoint"
    suffixes: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def find(cls, path: File) -> Optional[AllenNLP]:
        """Find a checkpoint by its prefix, its `.index` file or its folder."""
        if not isinstance(path, Path):
            return None
        prefix = _latest(path) if path.is_dir() else _prefix(path)
        return None if prefix is None else cls._of(prefix)

    def files(self) -> list[Path]:
        """Return the files of the checkpoint, and the options."""
        prefix, *others = super().files()
        return [*sorted(prefix.parent.glob(f"{prefix.name}.*")), *others]

    def dtype(self) -> Optional[str]:
        """Return None, because the type is unknown without TensorFlow."""
        return None

    def _opened(self, path: File) -> AbstractContextManager[Any]:
        return nullcontext(CheckpointArrays(_load(path), str(path)))


class CheckpointArrays(StoredArrays):
    """Variables of a checkpoint, by the names of the datasets in bilm-tf's HDF5 files.

    Variables of the optimizer, such as `WEIGHT/Adagrad`, are omitted.
    """

    kind = "variable"

    def __init__(self, reader: Any, source: str):
        self._reader = reader
        with _named_errors(source):
            self._shapes = dict(reader.get_variable_to_shape_map())
            self._dtypes = dict(reader.get_variable_to_dtype_map())
        scoped = [name for name in sorted(self._shapes) if name.startswith(_SCOPE)]
        variables = [name for name in scoped if name.rpartition("/")[0] not in self._shapes]
        if not variables:
            raise ValueError(f"{source}: not a checkpoint of bilm-tf: no variables '{_SCOPE}...'")
        super().__init__({hdf5_name(name): name for name in variables}, source)
        if BIAS in self and WEIGHT not in self and EMBEDDING in self:
            self[WEIGHT] = self[EMBEDDING]  # The option `share_embedding_softmax`.

    def _checked_shape(self, name: str) -> tuple[int, ...]:
        theirs = self[name]
        if not self._dtypes[theirs].is_floating:
            raise ValueError(f"{self.source}: variable '{theirs}' does not contain floats")
        return tuple(self._shapes[theirs])

    def read(self, name: str) -> np.ndarray:
        """Return a variable, converted to float32."""
        with _named_errors(self.source):
            return np.asarray(self._reader.get_tensor(self[name]), dtype="float32")

    def attribute(self, name: str) -> None:
        """Return None, because a checkpoint has no attributes."""


def hdf5_name(variable: str) -> str:
    """Return the HDF5 name of a checkpoint's variable, as bilm-tf's `dump_weights` writes it."""
    name = variable.removeprefix(_SCOPE)
    for theirs, dumped in (*_NAMES, *(_TWO_DIRECTIONS if name.startswith("RNN_") else ())):
        name = name.replace(theirs, dumped)
    return name


def _load(prefix: File) -> Any:
    tensorflow = import_optional(
        "tensorflow",
        f"The checkpoint {prefix}",
        ", or convert it to HDF5 with bilm-tf: "
        f"bilm.training.dump_weights('{getattr(prefix, 'parent', '')}', 'weights.hdf5')",
    )
    with _named_errors(str(prefix)):
        return tensorflow.train.load_checkpoint(str(prefix))


def _named_errors(source: str) -> AbstractContextManager[None]:
    # TensorFlow raises its own exception types.
    return named_errors(f"{source}: TensorFlow cannot read this checkpoint", Exception)


def _latest(folder: Path) -> Optional[Path]:
    """Return the prefix of the latest checkpoint in a folder; None if there is no checkpoint.

    TensorFlow writes the path of the latest checkpoint to the file `checkpoint`. Only the file name
    is used, because the folder may have been moved.

    RAISES (ValueError): There are several checkpoints, and it is unknown which is the latest.
    """
    found = sorted(folder.glob(f"*ckpt*{INDEX}"))
    if len(found) > 1 and (folder / STATE_FILE).is_file():
        noted = _LATEST.search((folder / STATE_FILE).read_text("utf8", "replace"))
        found = [file for file in found if noted and file.name == f"{noted[1]}{INDEX}"] or found
    if len(found) > 1:
        raise ValueError(
            f"{folder} contains several checkpoints. Give the path of one of them, such as "
            f"{found[0].with_suffix('')}"
        )
    return found[0].with_suffix("") if found else None


def _prefix(path: Path) -> Optional[Path]:
    if path.suffix == INDEX and path.is_file():
        return path.with_suffix("")
    return path if path.with_name(f"{path.name}{INDEX}").is_file() else None
