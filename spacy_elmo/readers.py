"""The registered weights readers: for `weights` in a config, where a path alone
would not say enough. They read when the weights are needed, not before."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Optional

from .registry import registry

if TYPE_CHECKING:
    from .bilm.model import BiLM


@registry.weights_readers("spacy-elmo.safetensors.v1")
def make_safetensors_reader(path: str) -> Callable[[], "BiLM"]:
    """Read a `.safetensors` file of spacy-elmo.

    path (str): The file, whatever its name.
    RETURNS (Callable[[], BiLM]): The reader.
    """
    return partial(_read_safetensors, path)


@registry.weights_readers("spacy-elmo.allennlp.v1")
def make_allennlp_reader(path: str, options: Optional[str] = None) -> Callable[[], "BiLM"]:
    """Read an AllenNLP or bilm-tf model.

    path (str): The HDF5 file; without `options` also a folder or a prefix.
    options (Optional[str]): The options file, if it is not beside the weights.
    RETURNS (Callable[[], BiLM]): The reader.
    """
    return partial(_read_allennlp, path, options)


def _read_safetensors(path: str) -> "BiLM":
    from .weights import safetensors_file

    return safetensors_file.read(Path(path))


def _read_allennlp(path: str, options: Optional[str]) -> "BiLM":
    from .weights import allennlp

    files = (Path(options), Path(path)) if options else allennlp.find(Path(path))
    if files is None:
        raise ValueError(f"no AllenNLP or bilm-tf weights at '{path}'")
    return allennlp.read(files)
