"""Conversion of labeled lines to .spacy files, for SST-5 and TREC.

A line is a label's number, a space and a text.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab
from wasabi import msg


def read_docs(
    path: Path,
    labels: Sequence[str],
    encoding: str = "utf8",
    split: Callable[[str], list[str]] = lambda line: [line],
) -> list[Doc]:
    """Read a file of labeled lines, and exit with a message if a line is wrong.

    The tokens are separated by spaces. The file does not record where the text had spaces, so
    training and evaluation use these tokens, not spaCy's tokenizer.

    path (Path): The file.
    labels (Sequence[str]): Names of the labels, by number.
    encoding (str): Encoding of the file.
    split (Callable): Splits a line into labeled lines. By default there is one Doc per line.
    RETURNS (List[Doc]): The Docs, with `cats`.
    """
    vocab = Vocab()
    try:
        with path.open(encoding=encoding, newline="\n") as file:
            lines = [(number, line.rstrip("\r\n")) for number, line in enumerate(file, 1)]
        docs = []
        for number, line in lines:
            if line.strip():
                docs += make_docs(vocab, line, labels, f"{path}:{number}", split)
        if not docs:
            raise ValueError(f"{path} is empty")
        return docs
    except ValueError as error:
        msg.fail("Can't convert the file", str(error), exits=1)


def make_docs(
    vocab: Vocab, line: str, labels: Sequence[str], place: str, split: Callable[[str], list[str]]
) -> list[Doc]:
    """Make the Docs of a line of the file; `place` (file and line) is for the error message."""
    try:
        parts = split(line)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None
    return [make_doc(vocab, part, labels, place) for part in parts]


def make_doc(vocab: Vocab, line: str, labels: Sequence[str], place: str) -> Doc:
    """Make the Doc of a labeled line; `place` (file and line) is for the error message."""
    label, _, text = line.partition(" ")
    if label not in map(str, range(len(labels))):
        raise ValueError(f"{place}: expected a label from 0 to {len(labels) - 1}, found {label!r}")
    # split() without an argument would split at the no-break space of tokens such as "2 1/2".
    words = [word for word in text.split(" ") if word.strip()]
    if not words:
        raise ValueError(f"{place}: no text after the label")
    doc = Doc(vocab, words=words)
    doc.cats = {name: float(i == int(label)) for i, name in enumerate(labels)}
    return doc


def write_docs(docs: Sequence[Doc], path: Path) -> None:
    """Write a .spacy file, and print the number of texts per label."""
    path.parent.mkdir(parents=True, exist_ok=True)
    DocBin(docs=docs).to_disk(path)
    msg.good(f"{path}: {len(docs):,} sentences, {sum(map(len, docs)):,} tokens")
    counts = {name: int(sum(doc.cats[name] for doc in docs)) for name in docs[0].cats}
    msg.text(", ".join(f"{name} {count:,}" for name, count in counts.items()))
