"""Conversion of questions in SQuAD's format to three .spacy files, one Doc per question.

The last articles become the test set, the articles before them the dev set, the rest the training
set. So no text is in two sets.
"""

from pathlib import Path
from typing import Optional

import spacy
import typer
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab
from wasabi import msg

from spacy_elmo.tasks.texts.corpus import read_squad


def main(
    input_path: Path = typer.Argument(..., help="File of SQuAD", exists=True, dir_okay=False),
    output: Path = typer.Argument(..., help="Beginning of the output: OUTPUT-train.spacy ..."),
    n_articles: int = typer.Option(
        5, min=1, help="Number of articles in the test set and in the dev set"
    ),
    more: Optional[Path] = typer.Option(
        None, help=".spacy file of more training questions", exists=True, dir_okay=False
    ),
) -> None:
    """Convert a file of SQuAD's format to three .spacy files."""
    try:
        docs = list(read_squad(input_path, spacy.blank("en")))
    except ValueError as error:
        msg.fail("Can't convert the file", str(error), exits=1)
    numbers = sorted({number for number, _ in docs})
    if len(numbers) <= 2 * n_articles:
        msg.fail(
            f"{input_path} has only {len(numbers)} articles with questions. Lower --n-articles.",
            exits=1,
        )
    test, dev = numbers[-n_articles], numbers[-2 * n_articles]
    train = [doc for number, doc in docs if number < dev]
    if more is not None:
        train += DocBin().from_disk(more).get_docs(Vocab())
    write_docs(train, Path(f"{output}-train.spacy"))
    write_docs([doc for number, doc in docs if dev <= number < test], Path(f"{output}-dev.spacy"))
    write_docs([doc for number, doc in docs if number >= test], Path(f"{output}-test.spacy"))


def write_docs(docs: list[Doc], path: Path) -> None:
    """Write a .spacy file, and print the numbers of questions, tokens and answers."""
    path.parent.mkdir(parents=True, exist_ok=True)
    DocBin(docs=docs).to_disk(path)
    n_answers = sum(len(doc.spans["answer"]) for doc in docs)
    msg.good(
        f"{path}: {len(docs):,} questions, {sum(map(len, docs)):,} tokens, {n_answers:,} answers"
    )


if __name__ == "__main__":
    typer.run(main)
