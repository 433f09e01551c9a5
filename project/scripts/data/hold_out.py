"""This script splits a text into one to train a language model on and a held-out end."""

from pathlib import Path

import typer
from wasabi import msg

from spacy_elmo.cli.errors import no_traceback
from spacy_elmo.files import atomic_write
from spacy_elmo.text.reading import read_sentences


def main(
    text: Path = typer.Argument(..., help="A sentence a line, tokens separated by spaces"),
    train: Path = typer.Argument(..., help="Text file to write", dir_okay=False),
    dev: Path = typer.Argument(..., help="Text file to write: the end of the text", dir_okay=False),
    sentences: int = typer.Option(10_000, min=1, help="Sentences that are held out"),
) -> None:
    """Hold out the last sentences of a text."""
    with no_traceback():
        lines = [" ".join(tokens) for tokens in read_sentences([text]) if tokens]
        if len(lines) <= sentences:
            raise ValueError(
                f"{text} has {len(lines):,} sentences: {sentences:,} cannot be held out"
            )
        for path, part in ((train, lines[:-sentences]), (dev, lines[-sentences:])):
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic_write(path, "\n".join(part) + "\n")
            msg.good(f"{path}: {len(part):,} sentences")


if __name__ == "__main__":
    typer.run(main)
