"""Conversion of WNUT17 (lines of token, tab, BIO tag) to a .spacy file, one Doc per sentence.

In the published training file, most lines between sentences contain a tab. `spacy convert` reads
them as tokens and joins the sentences, so this script reads the file itself.
"""

from collections.abc import Iterator
from pathlib import Path

import typer

from .bio import Sentence, make_docs, write_docs


def read_sentences(path: Path, *, skip_empty: bool = False) -> Iterator[Sentence]:
    """Yield the sentences of a file.

    path (Path): The file.
    skip_empty (bool): Whether to skip lines without a token. Otherwise, they are an error.
    RAISES (ValueError): A line is not in this format.
    """
    sentence: Sentence = []
    with path.open(encoding="utf8", newline="\n") as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip("\r\n")
            if not line.strip():
                if sentence:
                    yield sentence
                sentence = []
                continue
            columns = line.split("\t")
            if skip_empty and len(columns) == 2 and not columns[0].strip():
                continue
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
    write_docs(make_docs(read_sentences(input_path), input_path), output_path)


if __name__ == "__main__":
    typer.run(main)
