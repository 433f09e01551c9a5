"""Word vectors of a pipeline, for the commands that make an encoder of CoVe."""

from typing import TYPE_CHECKING

from spacy.vectors import Mode
from thinc.api import to_numpy

from .pipelines import load_pipeline

if TYPE_CHECKING:
    from ..weights.cove import WordVectors


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
            f"{pipeline} has no word vectors: make such a pipeline of a file like GloVe's with "
            f"`python -m spacy init vectors LANG FILE FOLDER`"
        )
    rows = vocab.vectors.key2row
    table = to_numpy(vocab.vectors.data)[list(rows.values())]
    return WordVectors([vocab.strings[key] for key in rows], table)
