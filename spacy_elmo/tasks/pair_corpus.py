"""Pairs of texts from files."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Union

from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.training import Example

from ..registry import registry
from .pairs import ENTAILMENT, copy_pair, make_pair
from .sentences import read_lines

Reader = Callable[[Language], Iterator[Example]]


@registry.readers("spacy-elmo.TextPairCorpus.v1")
def make_textpair_corpus(
    path: Union[str, Path],
    groups: Sequence[str] = list(ENTAILMENT),
) -> Reader:
    """Read examples for `elmo_textpair` from a `.jsonl` file, which may be gzipped, a pair a
    line: the two texts by the names of their groups, and a `"label"`. A text can be a list of
    words, too. Or from a `.spacy` file of Docs with both groups and `doc.cats`.

    path (Union[str, Path]): The file.
    groups (Sequence[str]): The names of the two texts, and of their span groups.
    RETURNS (Callable[[Language], Iterator[Example]]): The reader.
    """

    def parse(nlp: Language, entry: dict[str, Any]) -> Doc:
        doc = make_pair(nlp, entry[groups[0]], entry[groups[1]], groups)
        if not isinstance(entry["label"], str):
            raise TypeError
        doc.cats = {entry["label"]: 1.0}
        return doc

    expected = json.dumps({**dict.fromkeys(groups, "..."), "label": "..."})
    return lambda nlp: read_examples(Path(path), nlp, groups, parse, expected)


def read_examples(
    path: Path,
    nlp: Language,
    groups: Sequence[str],
    parse: Callable[[Language, dict[str, Any]], Doc],
    expected: str,
) -> Iterator[Example]:
    """Read Docs of two texts, each with a copy to predict from.

    path (Path): A `.spacy`, `.jsonl` or `.jsonl.gz` file.
    nlp (Language): The pipeline.
    groups (Sequence[str]): The names of the span groups.
    parse (Callable[[Language, dict], Doc]): Makes a Doc of a line.
    expected (str): How a line looks.
    RETURNS (Iterator[Example]): The examples.
    RAISES (ValueError): A line, or a Doc, is not as it must be.
    """
    if path.suffix == ".spacy":
        docs = DocBin().from_disk(path).get_docs(nlp.vocab)
    else:
        docs = _parsed(path, nlp, groups, parse, expected)
    return copy_examples(path, docs, groups)


def copy_examples(path: Path, docs: Iterable[Doc], groups: Sequence[str]) -> Iterator[Example]:
    """Make examples of gold Docs.

    path (Path): The file they are from.
    docs (Iterable[Doc]): The Docs.
    groups (Sequence[str]): The names of the span groups.
    YIELDS (Example): A Doc with a copy to predict from.
    RAISES (ValueError): A Doc has not both texts.
    """
    for doc in docs:
        try:
            copy = copy_pair(doc, groups)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        yield Example(copy, doc)


def _parsed(
    path: Path, nlp: Language, groups: Sequence[str], parse: Callable, expected: str
) -> Iterator[Doc]:
    def make(line: str) -> Doc:
        try:
            entry = json.loads(line)
            check_texts(entry, groups)
            return parse(nlp, entry)
        except (json.JSONDecodeError, KeyError, TypeError):
            raise ValueError(f"expected {expected}, found {line.strip()[:80]}") from None

    return read_lines(path, make)


def check_texts(entry: dict[str, Any], groups: Sequence[str]) -> None:
    """RAISES (KeyError, TypeError): A text is missing, or is no text and no list of words."""
    for group in groups:
        text = entry[group]
        words = [text] if isinstance(text, str) else text
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise TypeError(group)
