"""Softmax and vocabulary on disk: of spacy-elmo, or of an HDF5 file."""

from pathlib import Path
from typing import Optional

from safetensors import SafetensorError
from safetensors.torch import load_file, save

from ..bilm.softmax import Softmax, make_softmax
from ..bilm.vocabulary import Vocabulary
from . import allennlp, allennlp_extras

SOFTMAX_FILE = "softmax.safetensors"
VOCABULARY_FILE = "vocab.txt"
Prediction = tuple[Softmax, Vocabulary]


def find_prediction(path: Path, *, width: int) -> Optional[Prediction]:
    """Read softmax and vocabulary of a model, if it has both.

    path (Path): Where a readable model is: a pipeline's folder, weights, an archive.
    width (int): Size of a context vector, P.
    RETURNS (Optional[Tuple[Softmax, Vocabulary]]): Both.
    RAISES (ValueError): They do not fit one another, or the width.
    """
    if has_softmax(path):
        return read_softmax(path, width=width)
    with allennlp_extras.opened_files(path) as files:
        if files is None or not allennlp_extras.has_vocabulary(files[1]):
            return None
        found = allennlp.read_softmax(files)
    if found is None:
        return None
    softmax, words = found
    try:
        return softmax, Vocabulary([word or "" for word in words.strings])
    except ValueError as error:
        raise ValueError(f"{VOCABULARY_FILE} of {path}: {error}") from error


def lacks_vocabulary(path: Path) -> bool:
    """RETURNS (bool): Whether an HDF5 file has a softmax whose words nobody knows."""
    with allennlp_extras.opened_files(path) as files:
        if files is None or allennlp_extras.has_vocabulary(files[1]):
            return False
        return allennlp_extras.has_softmax(files[1])


def write_softmax(softmax: Softmax, vocabulary: Vocabulary, folder: Path) -> None:
    """Write softmax and vocabulary into an existing folder."""
    weights = {name: value.contiguous() for name, value in softmax.state_dict().items()}
    # Not by `save_file`: its errors are no OSError, and others may not read its file.
    (folder / SOFTMAX_FILE).write_bytes(save(weights))
    vocabulary.to_disk(folder / VOCABULARY_FILE)


def has_softmax(folder: Path) -> bool:
    """RETURNS (bool): Whether a model's folder holds softmax and vocabulary."""
    return all((folder / name).is_file() for name in (SOFTMAX_FILE, VOCABULARY_FILE))


def read_softmax(folder: Path, *, width: int) -> Prediction:
    """Read softmax and vocabulary from a model's folder.

    folder (Path): The folder.
    width (int): Size of a context vector, P.
    RETURNS (Tuple[Softmax, Vocabulary]): Both.
    RAISES (ValueError): They do not fit one another, or the width.
    """
    vocabulary = Vocabulary.from_disk(folder / VOCABULARY_FILE)
    try:
        weights = load_file(folder / SOFTMAX_FILE)
        kind = "full" if "weight" in weights else "adaptive"
        softmax = make_softmax(kind, n_words=len(vocabulary), width=width)
        softmax.load_state_dict(weights)
    except (SafetensorError, RuntimeError) as error:
        raise ValueError(
            f"{folder / SOFTMAX_FILE}: does not fit the {len(vocabulary)} words of "
            f"{VOCABULARY_FILE} and projection_dim {width}: {error}"
        ) from error
    return softmax, vocabulary
