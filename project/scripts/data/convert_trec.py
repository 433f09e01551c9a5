"""Conversion of TREC's questions to a .spacy file.

A line is a label 0-5, a space and the text, in Latin-1. TREC has no dev set, so `--dev` makes one
from a tenth of the training set.
"""

from pathlib import Path
from random import Random
from typing import Optional

import typer

from .labeled_lines import read_docs, write_docs

LABELS = ("description", "entity", "abbreviation", "human", "location", "number")
DEV_SHARE = 0.1


def main(
    input_path: Path = typer.Argument(..., help="File of TREC", exists=True, dir_okay=False),
    output_path: Path = typer.Argument(..., help=".spacy file to write", dir_okay=False),
    dev_path: Optional[Path] = typer.Option(
        None, "--dev", help="Second .spacy file: gets a tenth; OUTPUT_PATH gets the others"
    ),
    seed: int = typer.Option(0, help="Random seed of the choice of that tenth"),
) -> None:
    """Convert a file of TREC to one .spacy file, or to two with --dev."""
    docs = read_docs(input_path, LABELS, encoding="latin-1")
    if dev_path is not None:
        order = Random(seed).sample(range(len(docs)), len(docs))
        dev = set(order[: round(DEV_SHARE * len(docs))])
        write_docs([doc for i, doc in enumerate(docs) if i in dev], dev_path)
        docs = [doc for i, doc in enumerate(docs) if i not in dev]
    write_docs(docs, output_path)


if __name__ == "__main__":
    typer.run(main)
