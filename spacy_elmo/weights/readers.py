"""Readers of files in a config: registered readers for `weights`, and the reader for `align`.

Registered readers are for models that need more than a path. Their files are read when the weights
are needed, not when the pipe is created.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Optional

import numpy as np

from ..files import PathSetting, user_path
from ..files.errors import named_errors
from ..registry import registry
from . import read_weights

if TYPE_CHECKING:
    from ..frozen.model import FrozenBiLM


@registry.weights_readers("spacy-elmo.safetensors.v1")
def make_safetensors_reader(path: PathSetting) -> Callable[[], "FrozenBiLM"]:
    """Make a reader of a `.safetensors` file.

    path (Union[str, int, Path]): The file. Its name may have any suffix.
    RETURNS (Callable[[], FrozenBiLM]): The reader.
    """
    return partial(_read_safetensors, path)


@registry.weights_readers("spacy-elmo.allennlp.v1")
def make_allennlp_reader(
    path: PathSetting,
    options: Optional[PathSetting] = None,
    embeddings: Optional[PathSetting] = None,
    vocabulary: Optional[PathSetting] = None,
) -> Callable[[], "FrozenBiLM"]:
    """Make a reader of an AllenNLP or bilm-tf model.

    path (Union[str, int, Path]): The HDF5 file. Without `options`, it can also be a folder,
        a zip archive or a prefix of file names.
    options (Union[str, int, Path, None]): The options file. Default: the options in the folder
        of the weights.
    embeddings (Union[str, int, Path, None]): An HDF5 file with precomputed token vectors of
        some words. They replace the vectors of the character CNN.
    vocabulary (Union[str, int, Path, None]): The words of `embeddings`, or of a model without
        characters. Default: the `vocab.txt` in the folder of the vectors.
    RETURNS (Callable[[], FrozenBiLM]): The reader.
    """
    return partial(_read_allennlp, path, options, embeddings, vocabulary)


@registry.weights_readers("spacy-elmo.manylangs.v1")
def make_manylangs_reader(path: PathSetting) -> Callable[[], "FrozenBiLM"]:
    """Make a reader of an ELMoForManyLangs model, which reads a path like `read_weights`.

    path (Union[str, int, Path]): Folder or zip archive of the model.
    RETURNS (Callable[[], FrozenBiLM]): The reader.
    """
    return partial(read_weights, str(path))


def _read_safetensors(path: PathSetting) -> "FrozenBiLM":
    from .safetensors_file import SafetensorsFile

    return SafetensorsFile(user_path(path)).read(weights_only=True).bilm


def _read_allennlp(
    path: PathSetting,
    options: Optional[PathSetting],
    embeddings: Optional[PathSetting],
    vocabulary: Optional[PathSetting],
) -> "FrozenBiLM":
    from .allennlp import AllenNLP
    from .archives import opened_path

    with opened_path(user_path(path)) as opened:
        model = AllenNLP.find(opened) if options is None else AllenNLP(user_path(options), opened)
        if model is None:
            raise ValueError(f"no AllenNLP or bilm-tf weights at '{path}'")
        model.embeddings = None if embeddings is None else user_path(embeddings)
        model.vocabulary = None if vocabulary is None else user_path(vocabulary)
        return model.read(weights_only=True).bilm


def read_alignment(path: Path, width: int) -> np.ndarray:
    """Read an alignment matrix W, which maps a vector v of one language to `W v` of another.

    Conneau et al. (2018) align word vectors, Schuster et al. (2019) align vectors of ELMo. *Shape:*
    `(width, width)`

    path (Path): A `.npy` file, or a text file with one row per line and spaces between numbers.
    width (int): Width of the vectors.
    RAISES (ValueError): The file does not contain a finite matrix of this shape.
    """
    if path.suffix in (".pth", ".pt"):
        raise ValueError(
            f"align: {path} is a PyTorch file. Save its matrix W with numpy.save('W.npy', W)"
        )
    with named_errors(f"align: {path} does not contain a readable matrix", (OSError, ValueError)):
        if path.suffix == ".npy":
            # Mapped, so that the shape of a large file can be refused before its values are read.
            found = np.load(path, mmap_mode="r", allow_pickle=False)
        else:
            with path.open(encoding="utf-8-sig") as lines:
                # One row too many is enough to see that the matrix is too large.
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
