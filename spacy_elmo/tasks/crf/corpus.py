"""Corpus reader for `elmo_crf`: sentences with BIO tags."""

from typing import Any, Optional

from spacy.language import Language
from spacy.tokens import Doc, Span

from ...embedding.docs import make_sentence
from ...files import PathSetting
from ...files.schema import Schema, String
from ...registry import registry
from ..shared.bio import parse_bio
from ..shared.spans import name_of
from ..shared.task_files import Reader, Words, gold_reader
from .gold import reference_spans

BIO_SCHEMA = Schema(
    {"words": Words, "tags": list[String]},
    '{"words": ["New", "York", ...], "tags": ["B-LOC", "I-LOC", ...]}',
)


@registry.readers("spacy-elmo.BIOCorpus.v1")
def make_bio_corpus(path: PathSetting, spans_key: Optional[str] = None) -> Reader:
    """Make a corpus reader for `elmo_crf`. The Docs have the tokens of the file.

    The file is one of:

    * `.jsonl`, also gzipped: one sentence per line, with `"words"` and BIO `"tags"`;
    * `.spacy`: Docs with entities or the span group. If a Doc does not have the group, its entities
      are used. `spacy convert --converter ner` makes such files from files with columns.

    path (Union[str, int, Path]): The file.
    spans_key (Optional[str]): The key of the span group; None for entities.
    """

    def check(doc: Doc) -> None:
        reference_spans(doc, spans_key)
        if spans_key is not None and spans_key not in doc.spans:
            regroup(doc, spans_key)

    return gold_reader(path, BIO_SCHEMA, _make_tagged, check)


def regroup(doc: Doc, spans_key: str) -> None:
    """Move the entities of a Doc to a span group, if entities are annotated.

    RAISES (ValueError): Only some tokens are annotated. A span group cannot store which ones.
    """
    if not doc.has_annotation("ENT_IOB"):
        return
    if not doc.has_annotation("ENT_IOB", require_complete=True):
        token = next(token for token in doc if not token.ent_iob_)
        raise ValueError(
            f"token {token.i} ({token.text!r}) of the Doc {name_of(doc)} has no entity annotation, "
            f"but doc.spans[{spans_key!r}] needs it. Annotate it, or train without a spans_key"
        )
    doc.spans[spans_key] = list(doc.ents)
    doc.set_ents([], default="missing")


def _make_tagged(nlp: Language, entry: dict[str, Any]) -> Doc:
    words, tags = entry["words"], entry["tags"]
    if len(words) != len(tags):
        raise ValueError(f"{len(words)} words, but {len(tags)} tags")
    doc = make_sentence(nlp.vocab, words)
    doc.ents = [Span(doc, start, end, label=label) for start, end, label in parse_bio(tags)]
    return doc
