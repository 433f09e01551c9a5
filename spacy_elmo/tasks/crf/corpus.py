"""Sentences with BIO tags from files."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Optional, Union

from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.vocab import Vocab

from ...files.errors import named_errors
from ...files.schema import Schema, String
from ...registry import registry
from ..shared.bio import parse_bio
from ..shared.spans import name_of
from ..shared.task_files import Words, copy_tokens, make_sentence, read_docs
from .gold import reference_spans

SCHEMA = Schema(
    {"words": Words, "tags": list[String]},
    '{"words": ["New", "York", ...], "tags": ["B-LOC", "I-LOC", ...]}',
)


@registry.readers("spacy-elmo.BIOCorpus.v1")
def make_bio_corpus(
    path: Union[str, Path], spans_key: Optional[str] = None
) -> Callable[[Language], Iterator[Example]]:
    """Read examples for `elmo_crf`, which have the tokens of the file: from a `.jsonl` file, which
    may be gzipped, a sentence a line, with `"words"` and their BIO `"tags"`; or from a `.spacy`
    file, such as `spacy convert --converter ner` writes of columns, of whose entities the span
    group is made if it is not there.

    path (Union[str, Path]): The file.
    spans_key (Optional[str]): The span group for the spans; None for the entities.
    RETURNS (Callable[[Language], Iterator[Example]]): The reader.
    """

    def read(nlp: Language) -> Iterator[Example]:
        def make(line: str) -> Doc:
            return read_bio(line, nlp.vocab)

        for doc in read_docs(path, nlp.vocab, make, partial(reference_spans, spans_key=spans_key)):
            with named_errors(path):
                gold = doc if spans_key is None else _regroup(doc, spans_key)
            yield Example(copy_tokens(doc), gold)

    return read


def _regroup(doc: Doc, spans_key: str) -> Doc:
    """Make a span group of the entities, where there is none, but entities are annotated.

    RAISES (ValueError): Those of some tokens are missing: a group cannot say so.
    """
    if spans_key in doc.spans or not doc.has_annotation("ENT_IOB"):
        return doc
    if not doc.has_annotation("ENT_IOB", require_complete=True):
        token = next(token for token in doc if not token.ent_iob_)
        raise ValueError(
            f"token {token.i} ({token.text!r}) of the Doc {name_of(doc)} has no entity tag, and "
            f"doc.spans[{spans_key!r}] cannot leave it open: annotate it, or train without a "
            f"spans_key"
        )
    doc.spans[spans_key] = list(doc.ents)
    doc.set_ents([], default="missing")
    return doc


def read_bio(line: str, vocab: Vocab) -> Doc:
    """Make the Doc of a line.

    line (str): The line.
    vocab (Vocab): The vocab.
    RETURNS (Doc): The Doc, with entities.
    RAISES (ValueError): The line is not as it must be.
    """
    entry = SCHEMA.parse(line)
    words, tags = entry["words"], entry["tags"]
    if len(words) != len(tags):
        raise ValueError(f"{len(words)} words, but {len(tags)} tags")
    doc = make_sentence(vocab, words)
    doc.ents = [Span(doc, start, end, label=label) for start, end, label in parse_bio(tags)]
    return doc
