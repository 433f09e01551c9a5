"""Change of the share of the tokens that come from one source, in a text for pretraining."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Optional

import typer
from wasabi import msg

from spacy_elmo.cli.errors import no_traceback
from spacy_elmo.files import atomic_stream
from spacy_elmo.files.compression import compression_of, unpack

LINES_OF_DOCUMENT = 200


class Document(NamedTuple):
    """Document of a text.

    source (str): Name of the source.
    lines (List[str]): The sentences.
    """

    source: str
    lines: list[str]

    @property
    def n_tokens(self) -> int:
        """Number of tokens in all sentences."""
        return sum(len(line.split()) for line in self.lines)


def main(
    text: Path = typer.Argument(
        ..., help="Text: one sentence per line, tokens separated by spaces"
    ),
    index: Path = typer.Argument(
        ..., help="Lines of source, name, first line (from 0), number of lines; tab-separated"
    ),
    output: Path = typer.Argument(..., help="Text file to write", dir_okay=False),
    source: str = typer.Option(..., help="Source whose share changes"),
    share: float = typer.Option(
        ..., min=0.0, max=0.99, help="New share of the source, of all tokens"
    ),
    rounds: int = typer.Option(1, min=1, help="Number of times to write the other sources"),
    also_text: list[Path] = typer.Option(
        [], help="Further text; its index is the next --also-index"
    ),
    also_index: list[Path] = typer.Option(
        [], help="Index of a further text. Texts after the last index are one source each"
    ),
    without: list[str] = typer.Option([], help="Source to leave out"),
    seed: int = typer.Option(0, help="Random seed of the order of documents"),
) -> None:
    """Write a text, or several texts, so that a source has another share of the tokens.

    Each round contains all documents of the other sources, and as many documents of SOURCE as its
    share requires. The next round continues with the next documents of SOURCE, so that all of them
    are used.
    """
    with no_traceback():
        documents = read_documents(text, index)
        for i, other in enumerate(also_text):
            documents += read_documents(other, also_index[i] if i < len(also_index) else None)
        documents = [document for document in documents if document.source not in without]
        known = sorted({document.source for document in documents})
        if source not in known:
            raise ValueError(f"{index} has no source '{source}'. It has {', '.join(known)}.")
        sizes = {True: 0, False: 0}
        with atomic_stream(output) as stream:
            for document in weigh(documents, source, share, rounds, random.Random(seed)):
                sizes[document.source == source] += document.n_tokens
                stream.write("".join(f"{line}\n" for line in [*document.lines, ""]).encode())
    total = sum(sizes.values())
    msg.good(f"{output}: {total:,} tokens, {sizes[True] / total:.1%} of them from {source}")


def read_documents(text: Path, index: Optional[Path]) -> list[Document]:
    """Return the documents of a text.

    text (Path): One sentence per line.
    index (Optional[Path]): One document per line: source, name, first line (from 0), number of
        lines. Without an index, the source has the name of the file, and its documents have
        `LINES_OF_DOCUMENT` lines.
    RAISES (ValueError): The text has fewer lines than the index requires.
    """
    lines = _read(text).split("\n")
    if index is None:
        lines, source = list(filter(None, lines)), text.name.partition(".")[0]
        starts = range(0, len(lines), LINES_OF_DOCUMENT)
        return [Document(source, lines[start : start + LINES_OF_DOCUMENT]) for start in starts]
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
    """Yield the documents of all rounds, shuffled within each round (see `main`)."""
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
    compression = compression_of(path.name)
    with path.open("rb") as file, unpack(file, compression) if compression else file as content:
        return content.read().decode("utf8")


if __name__ == "__main__":
    typer.run(main)
