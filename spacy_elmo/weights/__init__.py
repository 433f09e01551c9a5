"""Weights on disk: any readable format in, the biLM out.

spaCy imports this room for the registered readers: what reads files waits until something is
read."""

from pathlib import Path
from typing import TYPE_CHECKING, Optional, Union

from .named import BUNDLED, HOW_TO_GIVE_WEIGHTS, find_named, is_available, locate

if TYPE_CHECKING:
    from ..frozen.model import FrozenBiLM


def read_weights(path: Union[str, Path]) -> "FrozenBiLM":
    """Read a biLM of any readable format: a `.safetensors` file, a spaCy pipeline
    with an `elmo` pipe, AllenNLP's and bilm-tf's HDF5 with its options (a folder,
    the `.hdf5` file, or the common beginning of both names), a folder of
    ELMoForManyLangs, or a zip archive with one of the last two.

    path (Union[str, Path]): Where it is, a model's name, or a URL, as `locate` says.
    RETURNS (FrozenBiLM): The model.
    RAISES (ValueError): There is no such model, or its files are broken.
    RAISES (OSError): It cannot be downloaded.
    """
    from .formats import read_model

    return read_model(path, weights_only=True)[1].bilm


def language_of_weights(path: Union[str, Path]) -> Optional[str]:
    """Find the language of a biLM. A published model is not downloaded for that.

    path (Union[str, Path]): As of `read_weights`.
    RETURNS (Optional[str]): The language; None if the weights do not say it.
    RAISES (ValueError): There is no such model, or its files are broken.
    RAISES (OSError): It cannot be downloaded.
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
