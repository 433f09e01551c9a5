"""Pairs of texts from files."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Union

from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

from ..files import user_path
from ..files.docbin import read_docbin
from ..files.schema import Schema, String
from ..registry import registry
from .naming import checked_spans, name_of
from .pairs import ENTAILMENT, copy_pair, make_pair, read_halves
from .qa_scorer import KEY
from .schema import Text
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
        doc.cats = {entry["label"]: 1.0}
        return doc

    schema = Schema(
        {**dict.fromkeys(groups, Text), "label": String},
        json.dumps({**dict.fromkeys(groups, "..."), "label": "..."}),
    )
    return lambda nlp: read_examples(user_path(path), nlp, groups, schema, parse)


def read_examples(
    path: Path,
    nlp: Language,
    groups: Sequence[str],
    schema: Schema,
    parse: Callable[[Language, dict[str, Any]], Doc],
) -> Iterator[Example]:
    """Read Docs of two texts, each with a copy to predict from.

    path (Path): A `.spacy`, `.jsonl` or `.jsonl.gz` file.
    nlp (Language): The pipeline.
    groups (Sequence[str]): The names of the span groups.
    schema (Schema): What a line must be like.
    parse (Callable[[Language, dict], Doc]): Makes a Doc of what stands there.
    RETURNS (Iterator[Example]): The examples.
    RAISES (ValueError): A line, or a Doc, is not as it must be.
    """
    if path.suffix == ".spacy":
        return copy_examples(path, read_docbin(path, nlp.vocab), groups)

    def make(line: str) -> Example:
        return _make_example(parse(nlp, schema.parse(line)), groups)

    return read_lines(path, make)


def _make_example(doc: Doc, groups: Sequence[str]) -> Example:
    """Of a gold Doc, with a copy to predict from."""
    for group, half in zip(groups, read_halves(doc, groups)):
        if half.start == half.stop:  # spaCy copies Docs, and cannot copy such a span
            raise ValueError(f"the {group} of the Doc {name_of(doc)} has no tokens: leave it out")
    list(checked_spans(doc, KEY, labeled=False))
    if any(not label.strip() for label in doc.cats):
        raise ValueError(f"a label in doc.cats of the Doc {name_of(doc)} is empty: leave it out")
    return Example(copy_pair(doc, groups), doc)


def copy_examples(path: Path, docs: Iterable[Doc], groups: Sequence[str]) -> Iterator[Example]:
    """Make examples of gold Docs.

    path (Path): The file they are from.
    docs (Iterable[Doc]): The Docs.
    groups (Sequence[str]): The names of the span groups.
    YIELDS (Example): A Doc with a copy to predict from.
    RAISES (ValueError): A Doc has not both texts, or one is empty.
    """
    for doc in docs:
        try:
            example = _make_example(doc, groups)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        yield example
