"""This script converts documents with coreference to spaCy's training data, one Doc a document: the
columns of CoNLL 2012 (LitBank's .conll files) or CoNLL-U with the key Entity in MISC (OntoGUM's
.conllu files).

Where a corpus puts one span into two clusters, as OntoGUM does with five, it stays in the first.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import typer
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab
from wasabi import msg

from spacy_elmo.tasks.coref.clusters import read_clusters
from spacy_elmo.tasks.coref.corpus import make_doc

SPLITS = ("train", "dev", "test")
# "(3" begins a mention of the cluster 3, "3)" ends the latest one of it, "(3)" is one token.
BRACKETS = re.compile(r"(\()?([^()|]+)(\))?")


@dataclass
class Document:
    """A document as it is read."""

    words: list[str] = field(default_factory=list)
    sentence_starts: list[int] = field(default_factory=list)
    clusters: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    opened: dict[str, list[int]] = field(default_factory=dict)
    n_left_out: int = 0

    def add(self, word: str, brackets: str, starts_sentence: bool) -> None:
        """Add a token.

        RAISES (ValueError): A mention ends that has not begun.
        """
        token = len(self.words)
        self.words.append(word)
        if starts_sentence:
            self.sentence_starts.append(token)
        for begins, cluster, ends in BRACKETS.findall(brackets):
            if begins:
                self.opened.setdefault(cluster, []).append(token)
            if ends:
                if not self.opened.get(cluster):
                    raise ValueError(f"'{cluster})' ends a mention that has not begun")
                self._add_mention(cluster, self.opened[cluster].pop(), token + 1)

    def _add_mention(self, cluster: str, start: int, end: int) -> None:
        if any((start, end) in mentions for mentions in self.clusters.values()):
            self.n_left_out += 1
        else:
            self.clusters.setdefault(cluster, []).append((start, end))

    def make_doc(self, vocab: Vocab) -> Doc:
        """RETURNS (Doc): The document.
        RAISES (ValueError): A mention does not end."""
        endless = [cluster for cluster, starts in self.opened.items() if starts]
        if endless:
            raise ValueError(f"a mention '({endless[0]}' does not end")
        clusters = list(self.clusters.values())
        return make_doc(vocab, self.words, clusters, self.sentence_starts)


def read_document(path: Path) -> Document:
    """Read a document.

    path (Path): A file of the columns of CoNLL 2012, or of CoNLL-U if it is called so.
    RETURNS (Document): The document.
    RAISES (ValueError): A line has another form.
    """
    parse = parse_conllu if path.suffix == ".conllu" else parse_conll
    document = Document()
    starts_sentence = True
    with path.open(encoding="utf8", newline="\n") as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip("\r\n")
            if not line.strip():
                starts_sentence = True
            elif not line.startswith("#"):
                try:
                    for word, brackets in parse(line):
                        document.add(word, brackets, starts_sentence)
                        starts_sentence = False
                except ValueError as error:
                    raise ValueError(f"{path}:{number}: {error}") from None
    return document


def parse_conll(line: str) -> Iterator[tuple[str, str]]:
    """The word and the brackets of a line of CoNLL 2012."""
    columns = line.split("\t") if "\t" in line else re.split(" +", line.strip(" "))
    if len(columns) < 12 or not columns[3]:
        raise ValueError(f"expected the columns of CoNLL 2012, found {line!r}")
    yield columns[3], columns[-1].strip().strip("_-")


def parse_conllu(line: str) -> Iterator[tuple[str, str]]:
    """The word and the brackets of a line of CoNLL-U, if the line is a word's."""
    columns = line.split("\t")
    if len(columns) != 10 or not columns[1]:
        raise ValueError(f"expected ten columns of CoNLL-U, found {line!r}")
    if columns[0].isdigit():  # others are ranges and empty nodes
        keys = dict(pair.split("=", 1) for pair in columns[9].split("|") if "=" in pair)
        yield columns[1], keys.get("Entity", "")


def read_splits(path: Path) -> dict[str, str]:
    """RETURNS (Dict[str, str]): "train", "dev" or "test" by the name of a document."""
    lines = path.read_text("utf8").removesuffix("\n").split("\n")
    splits = dict(line.split("\t", 1) for line in lines if line.count("\t") == 1)
    if len(splits) != len(lines) or not set(splits.values()) <= set(SPLITS):
        raise ValueError(f"{path}: expected lines of 'name<TAB>train', dev or test, no name twice")
    return splits


def convert(input_dir: Path, splits: Path, prefix: Path) -> None:
    """Write the Docs of each part.

    RAISES (ValueError): A document is missing, or is not as it must be.
    """
    vocab = Vocab()
    parts: dict[str, list[Doc]] = {name: [] for name in SPLITS}
    n_left_out = 0
    files = {path.stem: path for path in sorted(input_dir.glob("*.conll*"))}
    for name, split in read_splits(splits).items():
        if name not in files:
            raise ValueError(f"{input_dir} has no {name}.conll or {name}.conllu, named in {splits}")
        document = read_document(files[name])
        n_left_out += document.n_left_out
        try:
            parts[split].append(document.make_doc(vocab))
        except ValueError as error:
            raise ValueError(f"{files[name]}: {error}") from None
    prefix.parent.mkdir(parents=True, exist_ok=True)
    for split, docs in parts.items():
        path = Path(f"{prefix}-{split}.spacy")
        DocBin(docs=docs).to_disk(path)
        clusters = [cluster for doc in docs for cluster in read_clusters(doc) or ()]
        msg.good(
            f"{path}: {len(docs):,} documents, {sum(map(len, docs)):,} tokens, "
            f"{sum(map(len, clusters)):,} mentions, {len(clusters):,} clusters"
        )
    if n_left_out:
        msg.info(f"{n_left_out} mentions were left out, which stand in another cluster, too")


def main(
    input_dir: Path = typer.Argument(..., help="Folder of documents", exists=True, file_okay=False),
    splits: Path = typer.Argument(..., help="name<TAB>train, dev or test", exists=True),
    prefix: Path = typer.Argument(..., help="PREFIX-train.spacy and so on are written"),
) -> None:
    """Convert a folder of documents to three .spacy files."""
    try:
        convert(input_dir, splits, prefix)
    except ValueError as error:
        msg.fail("Can't convert the documents", str(error), exits=1)


if __name__ == "__main__":
    typer.run(main)
