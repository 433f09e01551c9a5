"""Conversion of coreference documents to .spacy files, one Doc per document.

Reads the columns of CoNLL 2012 (LitBank, .conll) or CoNLL-U with the key `Entity` in the column
MISC (OntoGUM, .conllu). A span can be in only one cluster. If the corpus has it in two (five spans
of OntoGUM), the first cluster keeps it.
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
# "(3" begins a mention of cluster 3, "3)" ends its latest mention, "(3)" is a mention of one token.
BRACKETS = re.compile(r"(\()?([^()|]+)(\))?")


@dataclass
class Document:
    """Document that is being read.

    words (List[str]): The tokens.
    sentence_starts (List[int]): Index of the first token of each sentence.
    clusters (Dict[str, List[Tuple[int, int]]]): Start and end of the mentions, by cluster.
    opened (Dict[str, List[int]]): Index of the first token of each mention that has not ended, by
        cluster.
    n_left_out (int): Number of mentions left out because another cluster has the same span.
    """

    words: list[str] = field(default_factory=list)
    sentence_starts: list[int] = field(default_factory=list)
    clusters: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    opened: dict[str, list[int]] = field(default_factory=dict)
    n_left_out: int = 0

    def add(self, word: str, brackets: str, starts_sentence: bool) -> None:
        """Add a token, and the mentions that end with it.

        word (str): The token.
        brackets (str): The mentions that begin or end here, as in "(3" or "(3)|4)".
        starts_sentence (bool): Whether the token is the first of its sentence.
        RAISES (ValueError): A bracket closes a mention that was not opened.
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
                    raise ValueError(f"'{cluster})' closes a mention that was not opened")
                self._add_mention(cluster, self.opened[cluster].pop(), token + 1)

    def _add_mention(self, cluster: str, start: int, end: int) -> None:
        if any((start, end) in mentions for mentions in self.clusters.values()):
            self.n_left_out += 1
        else:
            self.clusters.setdefault(cluster, []).append((start, end))

    def make_doc(self, vocab: Vocab) -> Doc:
        """Return the Doc, with its clusters and sentences.

        RAISES (ValueError): A mention was opened but not closed.
        """
        endless = [cluster for cluster, starts in self.opened.items() if starts]
        if endless:
            raise ValueError(f"the mention '({endless[0]}' is not closed")
        clusters = list(self.clusters.values())
        return make_doc(vocab, self.words, clusters, self.sentence_starts)


def read_document(path: Path) -> Document:
    """Read a document.

    path (Path): A CoNLL-U file if the name ends in .conllu, else a CoNLL 2012 file.
    RETURNS (Document): The document.
    RAISES (ValueError): A line is not in this format.
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
    """Yield the word and the brackets of a line of CoNLL 2012."""
    columns = line.split("\t") if "\t" in line else re.split(" +", line.strip(" "))
    if len(columns) < 12 or not columns[3]:
        raise ValueError(f"expected the columns of CoNLL 2012, found {line!r}")
    yield columns[3], columns[-1].strip().strip("_-")


def parse_conllu(line: str) -> Iterator[tuple[str, str]]:
    """Yield the word and the brackets of a line of CoNLL-U; nothing if it is not a word."""
    columns = line.split("\t")
    if len(columns) != 10 or not columns[1]:
        raise ValueError(f"expected ten columns of CoNLL-U, found {line!r}")
    if columns[0].isdigit():  # The other lines are ranges and empty nodes.
        keys = dict(pair.split("=", 1) for pair in columns[9].split("|") if "=" in pair)
        yield columns[1], keys.get("Entity", "")


def read_splits(path: Path) -> dict[str, str]:
    """Read the part of each document: train, dev or test.

    path (Path): File with lines of name, tab, and "train", "dev" or "test".
    RETURNS (Dict[str, str]): The part of each document, by name.
    RAISES (ValueError): A line is not in this format, or a name occurs twice.
    """
    lines = path.read_text("utf8").removesuffix("\n").split("\n")
    splits = dict(line.split("\t", 1) for line in lines if line.count("\t") == 1)
    if len(splits) != len(lines) or not set(splits.values()) <= set(SPLITS):
        raise ValueError(f"{path}: expected lines 'name<TAB>train' (or dev, test), each name once")
    return splits


def convert(input_dir: Path, splits: Path, prefix: Path) -> None:
    """Convert the documents of a folder, and write PREFIX-train.spacy, -dev.spacy and -test.spacy.

    input_dir (Path): Folder of .conll or .conllu files.
    splits (Path): File with the part of each document (see `read_splits`).
    prefix (Path): Beginning of the output paths.
    RAISES (ValueError): A document is missing or damaged.
    """
    vocab = Vocab()
    parts: dict[str, list[Doc]] = {name: [] for name in SPLITS}
    n_left_out = 0
    files = {path.stem: path for path in sorted(input_dir.glob("*.conll*"))}
    for name, split in read_splits(splits).items():
        if name not in files:
            raise ValueError(f"{input_dir} has no {name}.conll or {name}.conllu; {splits} lists it")
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
        msg.info(f"{n_left_out} mentions left out: another cluster has the same span")


def main(
    input_dir: Path = typer.Argument(..., help="Folder of documents", exists=True, file_okay=False),
    splits: Path = typer.Argument(
        ..., help="File of lines 'name<TAB>train', dev or test", exists=True
    ),
    prefix: Path = typer.Argument(..., help="Beginning of the output: PREFIX-train.spacy ..."),
) -> None:
    """Convert a folder of documents to three .spacy files."""
    try:
        convert(input_dir, splits, prefix)
    except ValueError as error:
        msg.fail("Can't convert the documents", str(error), exits=1)


if __name__ == "__main__":
    typer.run(main)
