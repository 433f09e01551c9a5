"""Convert WNUT17 (CoNLL columns: token, tab, BIO tag) to spaCy's training data, one Doc a sentence.

In the published training file most separator lines hold a single tab; `spacy convert` takes them
for tokens and runs the sentences together, so the file is read here.
"""

from collections.abc import Iterator
from pathlib import Path

import typer
from spacy.tokens import Doc, DocBin, Span
from spacy.vocab import Vocab
from wasabi import msg


def read_sentences(path: Path) -> Iterator[list[tuple[int, str, str]]]:
    """Yield sentences as lists of (line number, token, tag)."""
    sentence: list[tuple[int, str, str]] = []
    with path.open(encoding="utf8", newline="\n") as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip("\r\n")
            if not line.strip():  # blank, or the single tab of the training file
                if sentence:
                    yield sentence
                sentence = []
                continue
            columns = line.split("\t")
            if len(columns) != 2 or not columns[0].strip():
                raise ValueError(f"{path}:{number}: expected 'token<TAB>tag', found {line!r}")
            sentence.append((number, columns[0], columns[1].strip()))
    if sentence:
        yield sentence


def make_doc(vocab: Vocab, sentence: list[tuple[int, str, str]], path: Path) -> Doc:
    """Make a Doc of one sentence.

    The corpus does not say where the text had spaces. A Doc without that knowledge is trained
    and evaluated on the tokens of the corpus, not on those of spaCy's tokenizer.
    """
    doc = Doc(vocab, words=[token for _, token, _ in sentence])
    spans: list[tuple[int, int, str]] = []
    previous = "O"
    for i, (number, _, tag) in enumerate(sentence):
        prefix, _, label = tag.partition("-")
        if tag != "O" and (prefix not in ("B", "I") or not label):
            raise ValueError(f"{path}:{number}: expected the tag O, B-... or I-..., found {tag!r}")
        if prefix == "B":
            spans.append((i, i + 1, label))
        elif prefix == "I":
            if previous not in (f"B-{label}", f"I-{label}"):
                raise ValueError(f"{path}:{number}: {tag} follows {previous}, no entity")
            spans[-1] = (spans[-1][0], i + 1, label)
        previous = tag
    doc.ents = [Span(doc, start, end, label) for start, end, label in spans]
    return doc


def main(
    input_path: Path = typer.Argument(..., help="CoNLL file", exists=True, dir_okay=False),
    output_path: Path = typer.Argument(..., help=".spacy file to write", dir_okay=False),
) -> None:
    """Convert a file of WNUT17 to a .spacy file."""
    vocab = Vocab()
    try:
        docs = [make_doc(vocab, sentence, input_path) for sentence in read_sentences(input_path)]
    except ValueError as error:
        msg.fail("Can't convert the file", str(error), exits=1)
    output_path.parent.mkdir(parents=True, exist_ok=True)
    DocBin(docs=docs).to_disk(output_path)
    tokens, ents = sum(map(len, docs)), sum(len(doc.ents) for doc in docs)
    msg.good(f"{output_path}: {len(docs):,} sentences, {tokens:,} tokens, {ents:,} entities")


if __name__ == "__main__":
    typer.run(main)
