"""Pipelines that are given to commands."""

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
    RAISES (OSError): There is none.
    """
    path = user_path(name)
    return spacy.load(path if path.exists() else name)


def read_word_vectors(pipeline: str) -> "WordVectors":
    """Read the vectors of a pipeline.

    pipeline (str): Its name or folder, as `python -m spacy init vectors` writes it.
    RETURNS (WordVectors): Its words and their vectors.
    RAISES (ValueError): It has none.
    """
    from ..weights.cove import WordVectors

    vocab = load_pipeline(pipeline).vocab
    if vocab.vectors.mode != Mode.default or not vocab.vectors.n_keys:
        raise ValueError(
            f"{pipeline} has no word vectors. From a file like GloVe's, "
            f"`python -m spacy init vectors LANG FILE FOLDER` makes such a pipeline"
        )
    rows = vocab.vectors.key2row
    table = to_numpy(vocab.vectors.data)[list(rows.values())]
    return WordVectors([vocab.strings[key] for key in rows], table)
