"""Split of a text into a training text and a held-out text, for pretraining."""

from pathlib import Path

import typer
from wasabi import msg

from spacy_elmo.cli.errors import no_traceback
from spacy_elmo.files import atomic_write
from spacy_elmo.text.reading import read_sentences


def main(
    text: Path = typer.Argument(
        ..., help="Text: one sentence per line, tokens separated by spaces"
    ),
    train: Path = typer.Argument(..., help="Text file to write", dir_okay=False),
    dev: Path = typer.Argument(..., help="Text file to write: held-out text", dir_okay=False),
    sentences: int = typer.Option(10_000, min=1, help="Number of sentences to hold out"),
) -> None:
    """Hold out the last sentences of a text."""
    with no_traceback():
        lines = [" ".join(tokens) for tokens in read_sentences([text]) if tokens]
        if len(lines) <= sentences:
            raise ValueError(
                f"{text} has only {len(lines):,} sentences: {sentences:,} cannot be held out. "
                "Lower --sentences, or use a longer text."
            )
        for path, part in ((train, lines[:-sentences]), (dev, lines[-sentences:])):
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic_write(path, "\n".join(part) + "\n")
            msg.good(f"{path}: {len(part):,} sentences")


if __name__ == "__main__":
    typer.run(main)
