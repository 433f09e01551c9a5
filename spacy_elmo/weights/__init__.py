"""Weights on disk: any readable format in, the biLM out.

spaCy imports this room for the registered readers: PyTorch waits until something is read."""

from pathlib import Path
from typing import TYPE_CHECKING, Optional, Union

from .named import NAMED, NamedModel, obtain

if TYPE_CHECKING:
    from ..bilm.model import BiLM
    from .archives import File

BUNDLED = "en_small"
_BUNDLED_FILE = Path(__file__).parent / f"{BUNDLED}.safetensors"
HOW_TO_GIVE_WEIGHTS = (
    "Give the pipe weights: nlp.add_pipe('elmo', config=spacy_elmo.pretrained(PATH)), or "
    "weights = PATH in [components.elmo] or [initialize.components.elmo] of a config. PATH is "
    "what `python -m spacy elmo pretrain` wrote, a .safetensors file, an AllenNLP or bilm-tf "
    "model (a folder or a .hdf5 file with its options.json), an ELMoForManyLangs model (of the "
    "last two also the .zip archive), or the name of a published model "
    "(`python -m spacy elmo download --list`)."
)


def read_weights(path: Union[str, Path]) -> "BiLM":
    """Read a biLM of any readable format: a `.safetensors` file, a spaCy pipeline
    with an `elmo` pipe, AllenNLP's and bilm-tf's HDF5 with its options (a folder,
    the `.hdf5` file, or the common beginning of both names), a folder of
    ELMoForManyLangs, or a zip archive with one of the last two.

    path (Union[str, Path]): Where it is, or a model's name, as `locate` says.
    RETURNS (BiLM): The model, in evaluation mode, its weights frozen.
    RAISES (ValueError): There is no such model, or its files are broken.
    """
    from . import archives, safetensors_file

    located = locate(path)
    file = safetensors_file.find(located) if located.exists() else None
    if file is not None:
        return safetensors_file.read(file)
    with archives.opened_path(located) as opened:
        bilm = _read_found(opened)
    if bilm is not None:
        return bilm
    if located.exists():
        raise ValueError(
            f"{located} is no model that spacy-elmo can read: neither .safetensors nor .hdf5 "
            f"with options.json, nor ELMoForManyLangs' encoder.pkl and token_embedder.pkl"
        )
    raise ValueError(f"no weights at '{path}'. {HOW_TO_GIVE_WEIGHTS}")


def _read_found(path: "File") -> Optional["BiLM"]:
    """Read what is there, if it is a format of other programs."""
    from . import allennlp, manylangs

    folder = manylangs.find(path)
    if folder is not None:
        return manylangs.read(folder)
    files = allennlp.find(path)
    return None if files is None else allennlp.read(files)


def locate(name_or_path: Union[str, Path]) -> Path:
    """Find a model by name or path. A published model that is not in the cache yet is
    downloaded.

    name_or_path (Union[str, Path]): A path; "en_small", the model in this package; or
        a published model: "small", "original", "german", "manylangs-fr" and others.
    RETURNS (Path): Where it is.
    RAISES (ValueError): The model is not in this package.
    RAISES (OSError): The model cannot be downloaded.
    """
    path = Path(name_or_path)
    named = find_named(name_or_path)
    if named is not None:
        return obtain(named)
    if str(name_or_path) != BUNDLED or path.exists():
        return path
    if not _BUNDLED_FILE.exists():
        raise ValueError(
            f"the model '{BUNDLED}' is not in this version of spacy-elmo. {HOW_TO_GIVE_WEIGHTS}"
        )
    return _BUNDLED_FILE


def find_named(name_or_path: Union[str, Path]) -> Optional[NamedModel]:
    """RETURNS (Optional[NamedModel]): The published model that is meant; None for a
    path. Something on disk that has the name of a model goes first."""
    from . import allennlp

    path = Path(name_or_path)
    named = NAMED.get(str(name_or_path))
    is_on_disk = path.exists() or allennlp.find(path) is not None
    return None if named is None or is_on_disk else named


def is_available(weights: object) -> bool:
    """RETURNS (bool): Whether these are weights to read, rather than none or a
    bundled model that this version of the package does not carry."""
    if weights == BUNDLED:
        return Path(BUNDLED).exists() or _BUNDLED_FILE.exists()
    return weights is not None


__all__ = ["BUNDLED", "HOW_TO_GIVE_WEIGHTS", "find_named", "is_available", "locate", "read_weights"]
