"""This script converts pairs of texts to spaCy's training data: those of SNLI, in three files whose
lines belong together (`s1.dev`, `s2.dev`, `labels.dev`; tokens separated by blanks), and a file of
tab-separated pairs of texts and labels with a header, read without quoting."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Optional

import spacy
import typer
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from wasabi import msg

from spacy_elmo.tasks.texts import make_pair

LABELS = ("entailment", "neutral", "contradiction")
HEADER = ["sentence1", "sentence2", "gold_label"]


def main(
    folder: Path = typer.Argument(..., help="Folder of SNLI's files", exists=True, file_okay=False),
    split: str = typer.Argument(..., help="The end of their names: dev or test"),
    output_path: Path = typer.Argument(..., help=".spacy file to write", dir_okay=False),
    dev_path: Optional[Path] = typer.Option(
        None, "--dev", help=".spacy file for the last pairs, which the first then lacks"
    ),
    n_dev: int = typer.Option(1000, min=1, help="How many these are"),
    more_path: Optional[Path] = typer.Option(
        None, "--more", help="File of tab-separated pairs, which the first has besides", exists=True
    ),
) -> None:
    """Convert pairs of texts to a .spacy file, or to two."""
    nlp = spacy.blank("en")
    try:
        docs = list(read_lines(folder, split, nlp))
        if dev_path is not None:
            write_docs(docs[-n_dev:], dev_path)
            docs = docs[:-n_dev]
        write_docs([*docs, *(read_tsv(more_path, nlp) if more_path else ())], output_path)
    except (ValueError, OSError) as error:
        msg.fail("Can't convert the files", str(error), exits=1)


def read_lines(folder: Path, split: str, nlp: Language) -> Iterator[Doc]:
    """Read the pairs of three files.

    RAISES (ValueError): The files have not as many lines, or a label is unknown.
    """
    paths = [folder / f"{name}.{split}" for name in ("s1", "s2", "labels")]
    columns = [path.read_text("utf8").removesuffix("\n").split("\n") for path in paths]
    if len({len(lines) for lines in columns}) != 1:
        counts = ", ".join(f"{path} {len(lines):,}" for path, lines in zip(paths, columns))
        raise ValueError(f"the files must have as many lines as each other: {counts}")
    for number, (first, second, label) in enumerate(zip(*columns), 1):
        yield make_doc(nlp, first.split(), second.split(), label, f"{paths[-1]}:{number}")


def read_tsv(path: Path, nlp: Language) -> Iterator[Doc]:
    """Read the pairs of a tab-separated file.

    RAISES (ValueError): A line has not its three fields, or a label is unknown.
    """
    lines = path.read_text("utf8").removesuffix("\n").split("\n")
    for number, line in enumerate(lines, 1):
        fields = line.split("\t")
        if len(fields) != 3 or (number == 1) != (fields == HEADER):
            raise ValueError(f"{path}:{number}: expected {', '.join(HEADER)}, found {line[:80]!r}")
        if number > 1:
            yield make_doc(nlp, *fields, f"{path}:{number}")


def make_doc(nlp: Language, first: object, second: object, label: str, place: str) -> Doc:
    """Make the Doc of a pair; `place` is what an error calls it."""
    if label not in LABELS:
        raise ValueError(f"{place}: expected one of {', '.join(LABELS)}, found {label!r}")
    doc = make_pair(nlp, first, second)
    doc.cats = {name: float(name == label) for name in LABELS}
    return doc


def write_docs(docs: list[Doc], path: Path) -> None:
    """Write a .spacy file and say what it holds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    DocBin(docs=docs).to_disk(path)
    counts = Counter(max(doc.cats, key=doc.cats.__getitem__) for doc in docs)
    labels = ", ".join(f"{label} {counts[label]:,}" for label in LABELS)
    msg.good(f"{path}: {len(docs):,} pairs, {sum(map(len, docs)):,} tokens; {labels}")


if __name__ == "__main__":
    typer.run(main)
