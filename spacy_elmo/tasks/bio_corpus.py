"""Sentences with BIO tags from `.jsonl` files."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Optional, Union

from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.vocab import Vocab

from ..registry import registry
from .bio import parse_bio
from .sentences import make_sentence, read_lines

EXPECTED = '{"words": ["New", "York", ...], "tags": ["B-LOC", "I-LOC", ...]}'


@registry.readers("spacy-elmo.BIOCorpus.v1")
def make_bio_corpus(
    path: Union[str, Path], spans_key: Optional[str] = None
) -> Callable[[Language], Iterator[Example]]:
    """Read examples for `elmo_crf` from a `.jsonl` file, which may be gzipped: a sentence a
    line, with `"words"` and their BIO `"tags"`. The Docs have the words of the file, and are
    one sentence each.

    path (Union[str, Path]): The file.
    spans_key (Optional[str]): The span group for the spans; None for the entities.
    RETURNS (Callable[[Language], Iterator[Example]]): The reader.
    """

    def read(nlp: Language) -> Iterator[Example]:
        for doc in read_lines(path, lambda line: read_bio(line, nlp.vocab, spans_key)):
            yield Example(make_sentence(nlp.vocab, [token.text for token in doc]), doc)

    return read


def read_bio(line: str, vocab: Vocab, spans_key: Optional[str] = None) -> Doc:
    """Make the Doc of a line.

    line (str): The line.
    vocab (Vocab): The vocab.
    spans_key (Optional[str]): The span group for the spans; None for the entities.
    RETURNS (Doc): The Doc.
    RAISES (ValueError): The line is not as it must be.
    """
    try:
        entry = json.loads(line)
        words, tags = list(entry["words"]), list(entry["tags"])
        is_whole = all(isinstance(one, str) and one for one in [*words, *tags])
    except (ValueError, TypeError, KeyError):
        is_whole = False
    if not is_whole:
        raise ValueError(f"expected {EXPECTED}, found {line.strip()[:80]}")
    if len(words) != len(tags):
        raise ValueError(f"{len(words)} words, but {len(tags)} tags")
    doc = make_sentence(vocab, words)
    spans = [Span(doc, start, end, label=label) for start, end, label in parse_bio(tags)]
    if spans_key is None:
        doc.ents = spans
    else:
        doc.spans[spans_key] = spans
    return doc
