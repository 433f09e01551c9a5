"""Functions that load the pipeline in an argument of a command."""

from typing import TYPE_CHECKING

import spacy
from spacy.language import Language
from spacy.vectors import Mode
from thinc.api import to_numpy

from ..files import user_path

if TYPE_CHECKING:
    from ..weights.cove import WordVectors


def load_pipeline(name: str) -> Language:
    """Load a pipeline.

    name (str): A folder, or the name of a package.
    RETURNS (Language): The pipeline.
    RAISES (OSError): The pipeline does not exist.
    """
    path = user_path(name)
    return spacy.load(path if path.exists() else name)


def read_word_vectors(pipeline: str) -> "WordVectors":
    """Read the static word vectors of a pipeline.

    pipeline (str): Folder or package name of the pipeline.
    RETURNS (WordVectors): The words and their vectors.
    RAISES (ValueError): The pipeline has no vectors.
    """
    from ..weights.cove import WordVectors

    vocab = load_pipeline(pipeline).vocab
    if vocab.vectors.mode != Mode.default or not vocab.vectors.n_keys:
        raise ValueError(
            f"{pipeline} has no word vectors. Make a pipeline from a file like GloVe's: "
            f"`python -m spacy init vectors LANG FILE FOLDER`"
        )
    rows = vocab.vectors.key2row
    table = to_numpy(vocab.vectors.data)[list(rows.values())]
    return WordVectors([vocab.strings[key] for key in rows], table)
