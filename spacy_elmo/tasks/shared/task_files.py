"""Readers of gold Docs from `.spacy` files, and from `.jsonl` files with one Doc per line."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Any, TypeVar, Union

from pydantic import Field, PlainValidator
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

from ...files import PathSetting, check_regular, user_path
from ...files.errors import named_errors
from ...files.input_files import decode, numbered_lines, read_docbin
from ...files.schema import Schema

Made = TypeVar("Made")
Reader = Callable[[Language], Iterator[Example]]

# The reader of training files of each component.
READERS = {
    "elmo_crf": "spacy-elmo.BIOCorpus.v1",
    "elmo_srl": "spacy-elmo.SRLCorpus.v1",
    "elmo_coref": "spacy-elmo.CorefCorpus.v1",
    "elmo_textpair": "spacy-elmo.TextPairCorpus.v1",
    "elmo_qa": "spacy-elmo.QACorpus.v1",
}


def _check_text(value: object) -> object:
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError("must be a string, or a list of words")
    return value


# Types of values in JSON lines.
Words = list[Annotated[str, Field(strict=True, min_length=1)]]
Text = Annotated[Union[str, list[str]], PlainValidator(_check_text)]


def parse_lines(path: PathSetting, make: Callable[[str], Made]) -> Iterator[Made]:
    """Yield the result of `make` for each line of a file, except empty lines.

    path (Union[str, int, Path]): The file, which may be gzipped.
    RAISES (ValueError): A line is wrong, not UTF-8, or too long (the message has the line number),
        or a gzip file is truncated.
    """
    path = user_path(path)
    check_regular(path)
    for number, line in numbered_lines(path):
        if line.strip():
            with named_errors(f"{path}:{number}"):
                made = make(decode(line))
            yield made


def copy_tokens(doc: Doc) -> Doc:
    """Copy the words, spaces and sentences of a Doc, without other annotation."""
    return Doc(
        doc.vocab,
        words=[token.text for token in doc],
        spaces=[bool(token.whitespace_) for token in doc],
        sent_starts=[token.is_sent_start for token in doc],
    )


def gold_reader(
    path: PathSetting,
    schema: Schema,
    make: Callable[[Language, dict[str, Any]], Doc],
    check: Callable[[Doc], object],
    copy: Callable[[Doc], Doc] = copy_tokens,
) -> Reader:
    """Make a corpus reader for a `.spacy` or `.jsonl` file.

    path (Union[str, int, Path]): A `.spacy` file, or a file with one JSON object per line.
    make (Callable[[Language, dict], Doc]): Makes a gold Doc from a JSON object.
    check (Callable[[Doc], object]): Raises a ValueError if the annotation of a gold Doc is wrong.
    copy (Callable[[Doc], Doc]): Makes the predicted Doc of an example from the gold Doc.
    RETURNS (Callable[[Language], Iterator[Example]]): Its ValueErrors contain the file and, for
        JSON lines, the line number.
    """
    path = user_path(path)

    def make_checked(nlp: Language, line: str) -> Doc:
        doc = make(nlp, schema.parse(line))
        check(doc)
        return doc

    def read_docs(nlp: Language) -> Iterator[Doc]:
        check_regular(path)
        for doc in read_docbin(path, nlp.vocab):
            with named_errors(path):
                check(doc)
            yield doc

    def read(nlp: Language) -> Iterator[Example]:
        is_packed = path.suffix == ".spacy"
        docs = read_docs(nlp) if is_packed else parse_lines(path, partial(make_checked, nlp))
        return (Example(copy(doc), doc) for doc in docs)

    return read
