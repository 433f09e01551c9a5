"""Weights on disk: readers and writers of every format.

spaCy imports this package for the registered readers. The modules that read files are imported
only when something is read.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Optional, Union

from .named import BUNDLED, HOW_TO_GIVE_WEIGHTS, find_named, is_available, locate

if TYPE_CHECKING:
    from ..frozen.model import FrozenBiLM


def read_weights(path: Union[str, Path]) -> "FrozenBiLM":
    """Read a biLM in any of the supported formats.

    Supported are a `.safetensors` file, a spaCy pipeline with an `elmo` pipe, an HDF5 file of
    AllenNLP or bilm-tf with its options (the folder, the `.hdf5` file, or the common prefix of
    both names), a folder of ELMoForManyLangs, and a zip archive of the last two.

    path (Union[str, Path]): The model's path, name or URL; see `locate`.
    RETURNS (FrozenBiLM): The model.
    RAISES (ValueError): There is no such model, or its files are broken.
    RAISES (OSError): The model cannot be downloaded.
    """
    from .formats import read_model

    return read_model(path, weights_only=True)[1].bilm


def language_of_weights(path: Union[str, Path]) -> Optional[str]:
    """Find the language of a biLM, without a download if the model has a name.

    path (Union[str, Path]): The model's path, name or URL; see `locate`.
    RETURNS (Optional[str]): The language's code; None if the weights do not store it.
    RAISES (ValueError): There is no such model, or its files are broken.
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
