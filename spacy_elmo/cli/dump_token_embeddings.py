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

    The output is an HDF5 file in the format of bilm-tf. You can use it in bilm-tf, or as
    `embeddings` of spacy-elmo.allennlp.v1.

    Example: python -m spacy elmo dump-token-embeddings en_small vocab.txt embeddings.hdf5
    """
    from ..weights import read_weights
    from ..weights.token_embeddings import dump_token_embeddings

    check_new(output, force=force)
    n_words = dump_token_embeddings(read_weights(model), vocabulary, output)
    msg.good(f"Wrote {output}", f"{n_words:,} words")
