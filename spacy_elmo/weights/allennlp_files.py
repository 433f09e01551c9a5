"""Functions that find the files of a model of bilm-tf or AllenNLP."""

import re
from pathlib import PurePosixPath
from typing import Any, Optional

from ..model.vocabulary import InputVocabulary
from .archives import File, beside_weights, places_of, stem, suffix
from .vocabulary_files import PACKED, VOCABULARY_FILE, read_vocab

SUFFIXES = (".hdf5", ".h5")
OPTIONS_FILE = "options.json"
SOFTMAX = "softmax_weights"
# AllenNLP published its weights together with `vocab-2016-09-10.txt`.
_DATED = re.compile(rf"vocab.*\.txt({re.escape(PACKED)})?")


def weights_in(folder: File) -> Optional[File]:
    """Return the HDF5 file of the weights in a folder; None if there is none.

    Softmax files count only if there are no others. Of several files, return `weights.hdf5`, or
    else the one with "weights" in its name.

    RAISES (ValueError): Several files could be the weights.
    """
    found: list[Any] = [file for file in folder.iterdir() if suffix(file) in SUFFIXES]
    visible = [file for file in found if not file.name.startswith(".")]
    files = [file for file in visible if not stem(file).endswith(SOFTMAX)] or visible
    named = [file for file in files if "weights" in stem(file)]
    exact = [file for file in named if stem(file) == "weights"]
    choice = exact or named or files
    if len(choice) > 1:
        names = ", ".join(sorted(file.name for file in choice))
        raise ValueError(f"{folder} contains several weights: {names}. Give the path of one")
    return choice[0] if choice else None


def find_options(weights: File) -> Optional[File]:
    """Return the options file that belongs to the weights; None if there is none."""
    return _first(weights, OPTIONS_FILE)


def find_vocabulary(weights: File) -> Optional[File]:
    """Return the vocabulary file that belongs to the weights; None if there is none.

    For `elmo_weights.hdf5`, search for `elmo_vocab.txt`, then `vocab.txt`, then any `vocab*.txt` if
    the folder has only one. The file may be gzipped.
    """
    found = _first(weights, VOCABULARY_FILE, VOCABULARY_FILE + PACKED)
    if found is not None:
        return found
    for place in places_of(weights):
        folder: Any = place.parent
        files = [file for file in folder.iterdir() if _DATED.fullmatch(file.name)]
        dated = [file for file in files if file.is_file()]
        if len(dated) == 1:
            return beside_weights(dated[0], weights)
    return None


def vocabulary_of(
    name: str, n_words: int, path: File, vocabulary: Optional[File]
) -> InputVocabulary:
    """Read the words that belong to the rows of a dataset in an HDF5 file.

    vocabulary (Optional[Union[Path, zipfile.Path]]): The file of the words. Default: search in the
        folder of the HDF5 file.
    RAISES (ValueError): The file of the words is missing, or has another number of words.
    """
    vocabulary = vocabulary or find_vocabulary(path)
    if vocabulary is None:
        raise ValueError(
            f"{path}: the vocabulary of dataset '{name}' is missing. "
            f"Expected {expected(path, VOCABULARY_FILE)}"
        )
    words = read_vocab(vocabulary, n_words)
    if len(words) != n_words:
        raise ValueError(
            f"{vocabulary}: {len(words)} words, but dataset '{name}' in {path} has {n_words} rows"
        )
    return words


def find_softmax(weights: File) -> Optional[File]:
    """Return the softmax file of the weights (`elmo_small_softmax_weights.hdf5`), or None."""
    return _first(weights, *(SOFTMAX + suffix for suffix in SUFFIXES))


def expected(weights: File, name: str) -> str:
    """Return the paths where a file is expected, as text for error messages."""
    folder: Any = weights.parent
    return " or ".join(str(folder / one) for one in names_beside(weights.name, name))


def names_beside(weights: str, name: str) -> list[str]:
    """Return the possible names of a file that belongs to the weights, the most specific first.

    For `elmo.hdf5` or `elmo_weights.hdf5`, the options can be `elmo_options.json`,
    `elmooptions.json` or `options.json`.
    """
    start = PurePosixPath(weights).stem.removesuffix("weights")
    separator = "_" if start[-1:].isalnum() else ""
    return list(dict.fromkeys([f"{start}{separator}{name}", f"{start}{name}", name]))


def _first(weights: File, *names: str) -> Optional[File]:
    """Return the first file with one of some general names, such as "options.json"."""
    for place in places_of(weights):
        folder: Any = place.parent
        for name in names:
            for file in (folder / one for one in names_beside(place.name, name)):
                if file.is_file():
                    return beside_weights(file, weights)
    return None
