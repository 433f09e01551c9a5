"""This script converts WNUT17 (CoNLL columns: token, tab, BIO tag) to spaCy's training data, one
Doc a sentence.

In the published training file most separator lines hold a single tab; `spacy convert` takes them
for tokens and runs the sentences together, so the file is read here.
"""

from collections.abc import Iterator
from pathlib import Path

import typer

from .bio import Sentence, convert


def read_sentences(path: Path) -> Iterator[Sentence]:
    """Yield the sentences of a file."""
    sentence: Sentence = []
    with path.open(encoding="utf8", newline="\n") as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip("\r\n")
            if not line.strip():  # blank, or the single tab of the training file
                if sentence:
                    yield sentence
                sentence = []
                continue
            columns = line.split("\t")
            if len(columns) != 2 or not columns[0].strip():
                raise ValueError(f"{path}:{number}: expected 'token<TAB>tag', found {line!r}")
            sentence.append((number, columns[0], columns[1].strip()))
    if sentence:
        yield sentence


def main(
    input_path: Path = typer.Argument(..., help="CoNLL file", exists=True, dir_okay=False),
    output_path: Path = typer.Argument(..., help=".spacy file to write", dir_okay=False),
) -> None:
    """Convert a file of WNUT17 to a .spacy file."""
    convert(read_sentences(input_path), input_path, output_path)


if __name__ == "__main__":
    typer.run(main)
