"""Conversion of text pairs with labels (SNLI) to .spacy files, one Doc per pair.

SNLI has three parallel files, for example `s1.dev`, `s2.dev` and `labels.dev`, with tokens
separated by spaces. More pairs can come from a tab-separated file with a header; quotes have no
special meaning in it.
"""

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
    split: str = typer.Argument(..., help="Ending of the file names: dev or test"),
    output_path: Path = typer.Argument(..., help=".spacy file to write", dir_okay=False),
    dev_path: Optional[Path] = typer.Option(
        None, "--dev", help="Second .spacy file: gets the last pairs; OUTPUT_PATH gets the others"
    ),
    n_dev: int = typer.Option(1000, min=1, help="Number of pairs in the --dev file"),
    more_path: Optional[Path] = typer.Option(
        None, "--more", help="Tab-separated file of more pairs for OUTPUT_PATH", exists=True
    ),
) -> None:
    """Convert text pairs to one .spacy file, or to two with --dev."""
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
    """Read the pairs of three parallel files, one Doc per pair.

    RAISES (ValueError): The numbers of lines differ, or a label is unknown.
    """
    paths = [folder / f"{name}.{split}" for name in ("s1", "s2", "labels")]
    columns = [path.read_text("utf8").removesuffix("\n").split("\n") for path in paths]
    if len({len(lines) for lines in columns}) != 1:
        counts = ", ".join(f"{path} {len(lines):,}" for path, lines in zip(paths, columns))
        raise ValueError(f"the files must have equal numbers of lines: {counts}")
    for number, (first, second, label) in enumerate(zip(*columns), 1):
        yield make_doc(nlp, first.split(), second.split(), label, f"{paths[-1]}:{number}")


def read_tsv(path: Path, nlp: Language) -> Iterator[Doc]:
    """Read the pairs of a tab-separated file, one Doc per pair.

    RAISES (ValueError): The header is wrong, a line has not three fields, or a label is unknown.
    """
    lines = path.read_text("utf8").removesuffix("\n").split("\n")
    for number, line in enumerate(lines, 1):
        fields = line.split("\t")
        if len(fields) != 3 or (number == 1) != (fields == HEADER):
            raise ValueError(f"{path}:{number}: expected {', '.join(HEADER)}, found {line[:80]!r}")
        if number > 1:
            yield make_doc(nlp, *fields, f"{path}:{number}")


def make_doc(nlp: Language, first: object, second: object, label: str, place: str) -> Doc:
    """Make the Doc of a pair; `place` (file and line) is for the error message."""
    if label not in LABELS:
        raise ValueError(f"{place}: expected one of {', '.join(LABELS)}, found {label!r}")
    doc = make_pair(nlp, first, second)
    doc.cats = {name: float(name == label) for name in LABELS}
    return doc


def write_docs(docs: list[Doc], path: Path) -> None:
    """Write a .spacy file, and print the number of pairs per label."""
    path.parent.mkdir(parents=True, exist_ok=True)
    DocBin(docs=docs).to_disk(path)
    counts = Counter(max(doc.cats, key=doc.cats.__getitem__) for doc in docs)
    labels = ", ".join(f"{label} {counts[label]:,}" for label in LABELS)
    msg.good(f"{path}: {len(docs):,} pairs, {sum(map(len, docs)):,} tokens; {labels}")


if __name__ == "__main__":
    typer.run(main)
