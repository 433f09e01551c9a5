"""The registered weights readers: for `weights` in a config, where a path alone
would not say enough. They read when the weights are needed, not before."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Optional

from ..registry import registry

if TYPE_CHECKING:
    from ..bilm.model import BiLM


@registry.weights_readers("spacy-elmo.safetensors.v1")
def make_safetensors_reader(path: str) -> Callable[[], "BiLM"]:
    """Read a `.safetensors` file of spacy-elmo.

    path (str): The file, whatever its name.
    RETURNS (Callable[[], BiLM]): The reader.
    """
    return partial(_read_safetensors, path)


@registry.weights_readers("spacy-elmo.allennlp.v1")
def make_allennlp_reader(
    path: str,
    options: Optional[str] = None,
    embeddings: Optional[str] = None,
    vocabulary: Optional[str] = None,
) -> Callable[[], "BiLM"]:
    """Read an AllenNLP or bilm-tf model.

    path (str): The HDF5 file; without `options` also a folder, a zip archive or a prefix.
    options (Optional[str]): The options file, if it is not beside the weights.
    embeddings (Optional[str]): An HDF5 file of ready-made token vectors, which words
        of its vocabulary get in place of the character CNN's.
    vocabulary (Optional[str]): Their words, or those of a model without characters,
        if they are not in a `vocab.txt` beside them.
    RETURNS (Callable[[], BiLM]): The reader.
    """
    return partial(_read_allennlp, path, options, embeddings, vocabulary)


@registry.weights_readers("spacy-elmo.manylangs.v1")
def make_manylangs_reader(path: str) -> Callable[[], "BiLM"]:
    """Read an ELMoForManyLangs model.

    path (str): Its folder, or its zip archive.
    RETURNS (Callable[[], BiLM]): The reader.
    """
    return partial(_read_manylangs, path)


def _read_safetensors(path: str) -> "BiLM":
    from . import safetensors_file

    return safetensors_file.read(Path(path))


def _read_allennlp(
    path: str, options: Optional[str], embeddings: Optional[str], vocabulary: Optional[str]
) -> "BiLM":
    from . import allennlp, archives

    given = {
        name: None if file is None else Path(file)
        for name, file in (("embeddings", embeddings), ("vocabulary", vocabulary))
    }
    if options is not None:
        return allennlp.read((Path(options), Path(path)), **given)
    with archives.opened_path(Path(path)) as opened:
        files = allennlp.find(opened)
        if files is None:
            raise ValueError(f"no AllenNLP or bilm-tf weights at '{path}'")
        return allennlp.read(files, **given)


def _read_manylangs(path: str) -> "BiLM":
    from . import archives, manylangs

    with archives.opened_path(Path(path)) as opened:
        folder = manylangs.find(opened)
        if folder is None:
            raise ValueError(f"no ELMoForManyLangs model at '{path}'")
        return manylangs.read(folder)
