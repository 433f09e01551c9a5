"""Conversion of QAMR (questions about single sentences) to a .spacy file, one Doc per question.

A span cannot have a gap, so answers with a gap are left out, and questions with only such answers.
"""

from collections.abc import Iterator
from pathlib import Path

import spacy
import typer
from spacy.tokens import Doc, DocBin
from wasabi import msg

from spacy_elmo.tasks.texts import QUESTION, make_pair

BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


def main(
    questions: Path = typer.Argument(..., help="Tab-separated questions", exists=True),
    sentences: Path = typer.Argument(..., help="Tab-separated names and sentences", exists=True),
    output_path: Path = typer.Argument(..., help=".spacy file to write", dir_okay=False),
) -> None:
    """Convert questions and their sentences to a .spacy file."""
    try:
        docs = list(read_docs(questions, read_sentences(sentences)))
    except ValueError as error:
        msg.fail("Can't convert the files", str(error), exits=1)
    output_path.parent.mkdir(parents=True, exist_ok=True)
    DocBin(docs=docs).to_disk(output_path)
    msg.good(f"{output_path}: {len(docs):,} questions, {sum(map(len, docs)):,} tokens")


def read_sentences(path: Path) -> dict[str, list[str]]:
    """Return the words of each sentence, by the sentence's name."""
    pairs = (line.split("\t", 1) for line in path.read_text("utf8").split("\n"))
    return {name: text.split() for name, text in (pair for pair in pairs if len(pair) == 2)}


def read_docs(path: Path, sentences: dict[str, list[str]]) -> Iterator[Doc]:
    """Yield a Doc per question, with the answers of all annotators.

    RAISES (ValueError): A line is not in QAMR's format.
    """
    nlp = spacy.blank("en")
    for number, line in enumerate(path.read_text("utf8").removesuffix("\n").split("\n"), 1):
        fields = line.split("\t")
        try:
            words, question = sentences[fields[0]], fields[5]
            # First the answer of the question's author: token numbers. Then other annotators'
            # answers: annotator, colon, token numbers.
            answers = [fields[6], *(other.split(":", 1)[1] for other in fields[7:])]
            tokens = [[int(token) for token in answer.split()] for answer in answers]
            if not all(0 <= token < len(words) for found in tokens for token in found):
                raise IndexError
        except (KeyError, IndexError, ValueError):
            raise ValueError(f"{path}:{number}: expected a question, found {line[:80]!r}") from None
        whole = [one for one in tokens if one and one[-1] - one[0] + 1 == len(one)]
        if not whole:
            continue
        doc = make_pair(
            nlp, question.strip(), [BRACKETS.get(word, word) for word in words], QUESTION
        )
        start = doc.spans["context"][0].start
        doc.spans["answer"] = [doc[start + one[0] : start + one[-1] + 1] for one in whole]
        yield doc


if __name__ == "__main__":
    typer.run(main)
