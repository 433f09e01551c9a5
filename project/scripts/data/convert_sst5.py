"""Conversion of SST-5 to a .spacy file.

A line is a label 0-4, a space and the text, or a tree such as `(3 (2 A) (4 film))`, in which each
phrase has a label.
"""

from pathlib import Path

import typer

from .labeled_lines import read_docs, write_docs
from .trees import phrases as phrases_of

LABELS = ("very negative", "negative", "neutral", "positive", "very positive")


def main(
    input_path: Path = typer.Argument(..., help="File of SST-5", exists=True, dir_okay=False),
    output_path: Path = typer.Argument(..., help=".spacy file to write", dir_okay=False),
    phrases: bool = typer.Option(
        False, "--phrases", help="Write every phrase of the trees as a text, for training"
    ),
) -> None:
    """Convert a file of SST-5 to a .spacy file."""

    def split(line: str) -> list[str]:
        if not (phrases or line.startswith("(")):
            return [line]
        return phrases_of(line)[: None if phrases else 1]

    write_docs(read_docs(input_path, LABELS, split=split), output_path)


if __name__ == "__main__":
    typer.run(main)
