"""Weights on disk: readers and writers for all formats.

spaCy imports this package to find the registered readers. Modules that need h5py or PyTorch are
imported when a file is read.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Optional, Union

from .named import BUNDLED, HOW_TO_GIVE_WEIGHTS, find_named, is_available, locate

if TYPE_CHECKING:
    from ..frozen.model import FrozenBiLM


def read_weights(path: Union[str, Path]) -> "FrozenBiLM":
    """Read a biLM in any of the supported formats.

    The path can be one of:

    * a `.safetensors` file, or a folder with one;
    * a spaCy pipeline with a pipe `elmo`;
    * a model of AllenNLP or bilm-tf: its folder, its `.hdf5` file, or the common prefix of `.hdf5`
      and options file;
    * a folder of ELMoForManyLangs;
    * a zip archive of a model of AllenNLP, bilm-tf or ELMoForManyLangs;
    * a checkpoint of bilm-tf, if TensorFlow is installed.

    path (Union[str, Path]): Path, name or URL; see `locate`.
    RAISES (ValueError): The model does not exist, or its files are broken.
    RAISES (OSError): The model cannot be downloaded.
    """
    from .formats import read_model

    return read_model(path, weights_only=True)[1].bilm


def language_of_weights(path: Union[str, Path]) -> Optional[str]:
    """Return the language code of a biLM. For a published model, no download is needed.

    path (Union[str, Path]): Path, name or URL; see `locate`.
    RETURNS (Optional[str]): None if the weights do not contain a language.
    RAISES (ValueError): The model does not exist, or its files are broken.
    RAISES (OSError): The model cannot be downloaded.
    """
    named = find_named(path)
    if named is not None and named.lang:
        return named.lang
    lang = read_weights(path).provenance.get("lang")
    return lang if isinstance(lang, str) else None


__all__ = [
    "BUNDLED",
    "HOW_TO_GIVE_WEIGHTS",
    "find_named",
    "is_available",
    "language_of_weights",
    "locate",
    "read_weights",
]
