"""Conversion of Universal NER to a .spacy file, one Doc per sentence.

The columns are number, token, BIO tag and annotators; lines that begin with # are comments. In
English EWT, only the training file has the type OTH, and some tags are B-O, a typing error. Both
become O.
"""

from collections.abc import Iterator
from pathlib import Path

import typer

from .bio import Sentence, make_docs, write_docs

LEFT_OUT = ("OTH", "O")
SENTENCE_ID = "# sent_id = "


def read_sentences(path: Path) -> Iterator[tuple[str, Sentence]]:
    """Yield the id and the tokens of each sentence of a file. The id may be empty."""
    name = ""
    sentence: Sentence = []
    with path.open(encoding="utf8", newline="\n") as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip("\r\n")
            if line.startswith("#"):
                if line.startswith(SENTENCE_ID):
                    name = line.removeprefix(SENTENCE_ID)
                continue
            if not line.strip():
                if sentence:
                    yield name, sentence
                name, sentence = "", []
                continue
            columns = line.split("\t")
            if len(columns) < 3 or not columns[0].isdigit() or not columns[1].strip():
                raise ValueError(
                    f"{path}:{number}: expected 'number<TAB>token<TAB>tag', found {line!r}"
                )
            tag = columns[2]
            sentence.append((number, columns[1], "O" if tag[2:] in LEFT_OUT else tag))
    if sentence:
        yield name, sentence


def main(
    input_path: Path = typer.Argument(..., help=".iob2 file", exists=True, dir_okay=False),
    output_path: Path = typer.Argument(..., help=".spacy file to write", dir_okay=False),
) -> None:
    """Convert a file of Universal NER to a .spacy file."""
    sentences = (sentence for _, sentence in read_sentences(input_path))
    write_docs(make_docs(sentences, input_path), output_path)


if __name__ == "__main__":
    typer.run(main)
