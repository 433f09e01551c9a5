"""This script converts SST-5 (lines of a label 0-4, a space, and the text) to spaCy's training
data."""

from pathlib import Path

import typer

from .labeled_lines import read_docs, write_docs

LABELS = ("very negative", "negative", "neutral", "positive", "very positive")


def main(
    input_path: Path = typer.Argument(..., help="File of SST-5", exists=True, dir_okay=False),
    output_path: Path = typer.Argument(..., help=".spacy file to write", dir_okay=False),
) -> None:
    """Convert a file of SST-5 to a .spacy file."""
    write_docs(read_docs(input_path, LABELS), output_path)


if __name__ == "__main__":
    typer.run(main)
