"""Docs from a task's files: `.spacy`, and `.jsonl`, one a line."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, TypeVar, Union

from pydantic import Field, PlainValidator
from spacy.tokens import Doc
from spacy.vocab import Vocab

from ...files import check_regular, user_path
from ...files.docbin import read_docbin
from ...files.errors import named_errors
from ...files.lines import numbered_lines

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
        raise ValueError("should be a text, or a list of its words")
    return value


Words = list[Annotated[str, Field(strict=True, min_length=1)]]
Text = Annotated[Union[str, list[str]], PlainValidator(_check_text)]


Made = TypeVar("Made")


def read_lines(path: Union[str, Path], make: Callable[[str], Made]) -> Iterator[Made]:
    """Make something of each line that is not empty.

    path (Union[str, Path]): The file, which may be gzipped.
    make (Callable[[str], Made]): What makes it.
    YIELDS (Made): What was made.
    RAISES (ValueError): A line is not as it must be, no UTF-8, or too long, and its number is
        named; or the file is no whole gzip file.
    """
    path = user_path(path)
    check_regular(path)
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        try:
            made = make(line.decode("utf8"))
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}:{number}: this is no UTF-8: {error.reason}") from None
        except ValueError as error:
            raise ValueError(f"{path}:{number}: {error}") from None
        yield made


def read_docs(
    path: Union[str, Path],
    vocab: Vocab,
    make: Callable[[str], Doc],
    check: Callable[[Doc], object],
) -> Iterator[Doc]:
    """Read the Docs of a `.spacy` file, or make one of each line of another.

    path (Union[str, Path]): The file.
    vocab (Vocab): The vocab.
    make (Callable[[str], Doc]): What makes a Doc of a line.
    check (Callable[[Doc], object]): What raises a ValueError if the annotation of a Doc of a
        `.spacy` file is wrong.
    YIELDS (Doc): A Doc.
    RAISES (ValueError): As `read_lines`, or the annotation is wrong.
    """
    path = user_path(path)
    check_regular(path)
    if path.suffix == ".spacy":
        for doc in read_docbin(path, vocab):
            with named_errors(path):
                check(doc)
            yield doc
    else:
        yield from read_lines(path, make)


def make_sentence(vocab: Vocab, words: Sequence[str]) -> Doc:
    """RETURNS (Doc): A Doc of these words that is one sentence."""
    return Doc(vocab, words=list(words), sent_starts=[i == 0 for i in range(len(words))])


def copy_tokens(doc: Doc) -> Doc:
    """RETURNS (Doc): Another Doc with the same words, spaces and sentences, to predict from."""
    return Doc(
        doc.vocab,
        words=[token.text for token in doc],
        spaces=[bool(token.whitespace_) for token in doc],
        sent_starts=[token.is_sent_start for token in doc],
    )
