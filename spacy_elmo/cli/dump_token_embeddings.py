"""Command `python -m spacy elmo dump-token-embeddings`."""

from pathlib import Path

import typer

from ..files.terminal import msg
from .errors import check_new
from .options import FORCE


def dump_token_embeddings_cli(
    model: str = typer.Argument(..., help="Weights: anything that `info` can read"),
    vocabulary: Path = typer.Argument(..., help="vocab.txt, one word per line"),
    output: Path = typer.Argument(..., help="HDF5 file to write"),
    force: bool = FORCE,
) -> None:
    """Write the context-free vectors of a vocabulary.

    It is the HDF5 file of bilm-tf's function with the same name. bilm-tf and the reader
    spacy-elmo.allennlp.v1 (setting `embeddings`) can use it.

    Example: python -m spacy elmo dump-token-embeddings en_small vocab.txt embeddings.hdf5
    """
    from ..weights import read_weights
    from ..weights.token_embeddings import dump_token_embeddings

    check_new(output, force=force)
    n_words = dump_token_embeddings(read_weights(model), vocabulary, output, progress=True)
    msg.good(f"Wrote {output}", f"{n_words:,} words")
