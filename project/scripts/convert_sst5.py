"""Convert SST-5 (lines of a label 0-4, a space, and the text) to spaCy's training data."""

from pathlib import Path

import typer
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab
from wasabi import msg

LABELS = ("very negative", "negative", "neutral", "positive", "very positive")


def read_docs(path: Path, vocab: Vocab) -> list[Doc]:
    """Read one Doc a line.

    The texts come in tokens separated by spaces. The Docs do not claim to know where the original
    text had spaces, and so are trained and evaluated on these tokens as they are.
    """
    docs = []
    with path.open(encoding="utf8", newline="\n") as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip("\r\n")
            if not line.strip():
                continue
            label, _, text = line.partition(" ")
            if label not in ("0", "1", "2", "3", "4"):
                raise ValueError(f"{path}:{number}: expected a label from 0 to 4, found {label!r}")
            # Not split(): a few tokens hold a no-break space, as in "2 1/2".
            words = [word for word in text.split(" ") if word.strip()]
            if not words:
                raise ValueError(f"{path}:{number}: no text behind the label")
            doc = Doc(vocab, words=words)
            doc.cats = {name: float(i == int(label)) for i, name in enumerate(LABELS)}
            docs.append(doc)
    return docs


def main(
    input_path: Path = typer.Argument(..., help="File of SST-5", exists=True, dir_okay=False),
    output_path: Path = typer.Argument(..., help=".spacy file to write", dir_okay=False),
) -> None:
    """Convert a file of SST-5 to a .spacy file."""
    try:
        docs = read_docs(input_path, Vocab())
    except ValueError as error:
        msg.fail("Can't convert the file", str(error), exits=1)
    output_path.parent.mkdir(parents=True, exist_ok=True)
    DocBin(docs=docs).to_disk(output_path)
    msg.good(f"{output_path}: {len(docs):,} sentences, {sum(map(len, docs)):,} tokens")
    counts = {name: int(sum(doc.cats[name] for doc in docs)) for name in LABELS}
    msg.text(", ".join(f"{name} {count:,}" for name, count in counts.items()))


if __name__ == "__main__":
    typer.run(main)
