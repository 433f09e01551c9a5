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

    The path can be a `.safetensors` file, a spaCy pipeline with an `elmo` pipe, weights of
    AllenNLP or bilm-tf with their options (the folder, the `.hdf5` file, or the common prefix of
    both names), or a folder of ELMoForManyLangs. A zip archive of the last two works, too.

    path (Union[str, Path]): The model's path, name or URL; see `locate`.
    RETURNS (FrozenBiLM): The model.
    RAISES (ValueError): The model does not exist, or its files are broken.
    RAISES (OSError): The model cannot be downloaded.
    """
    from .formats import read_model

    return read_model(path, weights_only=True)[1].bilm


def language_of_weights(path: Union[str, Path]) -> Optional[str]:
    """Return the language of a biLM. A model with a name is not downloaded for this.

    path (Union[str, Path]): The model's path, name or URL; see `locate`.
    RETURNS (Optional[str]): The language code; None if the weights do not store one.
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
