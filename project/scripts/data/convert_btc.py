"""Conversion of the Broad Twitter Corpus to two .spacy files, one Doc per post.

The corpus has no dev set. The second half of the last section becomes the dev set, and the rest the
training set. The lines have the format of WNUT17, but a few have no token: they are left out.
"""

from pathlib import Path

import typer

from .bio import make_docs, write_docs
from .convert_wnut17 import read_sentences


def main(
    sections: list[Path] = typer.Argument(..., help="CoNLL files", exists=True, dir_okay=False),
    train: Path = typer.Option(..., help=".spacy file of the training set", dir_okay=False),
    dev: Path = typer.Option(..., help=".spacy file of the dev set", dir_okay=False),
) -> None:
    """Convert the sections of the Broad Twitter Corpus to two .spacy files."""
    docs = []
    for path in sections:
        posts = make_docs(read_sentences(path, skip_empty=True), path)
        docs += posts
    n_train = len(docs) - (len(posts) + 1) // 2
    write_docs(docs[:n_train], train)
    write_docs(docs[n_train:], dev)


if __name__ == "__main__":
    typer.run(main)
