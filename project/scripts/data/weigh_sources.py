"""This script writes a text anew with another share of one of its sources."""

import gzip
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import typer
from wasabi import msg

from spacy_elmo.cli.errors import no_traceback
from spacy_elmo.files import atomic_stream


class Document(NamedTuple):
    """A document: its source, and its sentences."""

    source: str
    lines: list[str]

    @property
    def n_tokens(self) -> int:
        """RETURNS (int): Tokens of all sentences."""
        return sum(len(line.split()) for line in self.lines)


def main(
    text: Path = typer.Argument(..., help="A sentence a line, tokens separated by spaces"),
    index: Path = typer.Argument(
        ..., help="A document a line: source, name, number of its first line, number of lines"
    ),
    output: Path = typer.Argument(..., help="Text file to write", dir_okay=False),
    source: str = typer.Option(..., help="The source whose share changes"),
    share: float = typer.Option(..., min=0.0, max=0.99, help="Its share of the tokens"),
    rounds: int = typer.Option(1, min=1, help="How often the other sources are written"),
    seed: int = typer.Option(0, help="Of the order of documents"),
) -> None:
    """Write the documents of all other sources in each round, and among them as many documents of
    the source as its share asks for. Each round goes on where the one before stopped, so that all
    of its documents come in turn."""
    with no_traceback():
        documents = read_documents(text, index)
        known = sorted({document.source for document in documents})
        if source not in known:
            raise ValueError(f"{index} has no source '{source}'. It has {', '.join(known)}.")
        sizes = {True: 0, False: 0}
        with atomic_stream(output) as stream:
            for document in weigh(documents, source, share, rounds, random.Random(seed)):
                sizes[document.source == source] += document.n_tokens
                stream.write("".join(f"{line}\n" for line in [*document.lines, ""]).encode())
    total = sum(sizes.values())
    msg.good(f"{output}: {total:,} tokens, {sizes[True] / total:.1%} of them of {source}")


def read_documents(text: Path, index: Path) -> list[Document]:
    """Read a text by its index.

    RAISES (ValueError): The text has fewer lines than the index says.
    """
    lines = _read(text).split("\n")
    documents = []
    for row in _read(index).splitlines():
        source, name, *place = row.split("\t")
        first, number = map(int, place)
        if first + number > len(lines):
            raise ValueError(f"{text} ends before line {first + number}, the end of '{name}'.")
        if number:
            found = [line for line in lines[first : first + number] if line]
            documents.append(Document(source, found))
    return documents


def weigh(
    documents: list[Document], source: str, share: float, rounds: int, rng: random.Random
) -> Iterator[Document]:
    """Yield the documents of all rounds, each round in an order of its own."""
    others = [document for document in documents if document.source != source]
    waiting = [document for document in documents if document.source == source]
    rng.shuffle(waiting)
    wanted = share / (1.0 - share) * sum(document.n_tokens for document in others)
    at, surplus = 0, 0.0
    for _ in range(rounds):
        chosen = list(others)
        while surplus < wanted:
            chosen.append(waiting[at % len(waiting)])
            surplus += chosen[-1].n_tokens
            at += 1
        surplus -= wanted
        rng.shuffle(chosen)
        yield from chosen


def _read(path: Path) -> str:
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf8")


if __name__ == "__main__":
    typer.run(main)
