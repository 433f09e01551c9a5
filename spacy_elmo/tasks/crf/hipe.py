"""Corpus reader for the TSV files of HIPE: entities in historical newspapers.

A file has a header with the names of the columns, a line per token, and an empty line after each
document. Lines that begin with `#` and have no tab describe the document. The last column, `MISC`,
has flags: `NoSpaceAfter`, `EndOfLine` (of the printed line) and `EndOfSentence`.

OCR leaves words in two pieces at the ends of lines: `Fett¬ waarenfabrik`, or `Fett ¬ waarenfabrik`
in three tokens. Spans are read from the tokens of the file, and then moved to the joined words. So
a span that begins or ends within a word gets the whole word.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, Optional, Union

from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.vocab import Vocab

from ...files import check_regular, user_path
from ...files.errors import named_errors
from ...files.input_files import decode, numbered_lines
from ...registry import registry
from ..shared.task_files import Reader, copy_tokens
from .corpus import regroup

MISSING = "_"  # The column does not apply to this document, or its tags are hidden.
# `EndOfSentence` has the name `PySBDSegment` in HIPE-2020.
SENTENCE_ENDS = {"EndOfSentence", "PySBDSegment"}
# These signs only occur where a word is cut. A hyphen or `=` can also be part of a word, so it must
# end a line.
CUTS = "¬⸗\u00ad"
_HYPHEN = re.compile(rf"(^|[\w\u0300-\u036f])[-={CUTS}]$")
# No word is cut in *Haupt- und Nebensache*.
CONJUNCTIONS = {"und", "oder"}


class _Line(NamedTuple):
    """Line of a token: the cells of the columns that are used."""

    number: int
    token: str
    tag: str
    link: str
    flags: set[str]


@registry.readers("spacy-elmo.HIPECorpus.v1")
def make_hipe_corpus(
    path: Union[str, Path],
    column: str = "NE-COARSE-LIT",
    spans_key: Optional[str] = None,
    by_sentence: bool = True,
) -> Reader:
    """Make a corpus reader for the TSV files of HIPE (hipe-eval/HIPE-2022-data).

    The Docs keep the spaces and sentences of the file. Words that are cut at the end of a line are
    joined. An entity has the Wikidata ID of the column `NEL-LIT` or `NEL-METO` as its `kb_id`.
    `doc.user_data` has the document's `"source"` (its ID) and `"date"`. A token with the tag `_`
    has no annotation.

    path (Union[str, Path]): The file, which may be gzipped.
    column (str): The column of entities to read, such as "NE-FINE-LIT" or "NE-NESTED".
    spans_key (Optional[str]): The key of a span group for the entities; None for `doc.ents`.
    by_sentence (bool): Whether each sentence becomes a Doc. False: each document becomes a Doc. A
        sentence never ends within an entity.
    """

    def read(nlp: Language) -> Iterator[Example]:
        for doc in read_hipe(path, nlp.vocab, column, by_sentence=by_sentence):
            if spans_key is not None:
                with named_errors(path):
                    regroup(doc, spans_key)
            yield Example(copy_tokens(doc), doc)

    return read


def read_hipe(
    path: Union[str, Path], vocab: Vocab, column: str = "NE-COARSE-LIT", *, by_sentence: bool = True
) -> Iterator[Doc]:
    """Read the Docs of a TSV file of HIPE. The arguments are those of `make_hipe_corpus`.

    RAISES (ValueError): The file is not in this format, or has no such column.
    """
    path = user_path(path)
    check_regular(path)
    has_tags = False
    for about, lines in _read_documents(path, column):
        words = _join_words(lines)
        has_tags = has_tags or any(line.tag != MISSING for line in lines)
        has_sentences = any(SENTENCE_ENDS & line.flags for line in lines)
        for part in _split_sentences(words) if by_sentence else [words]:
            doc = _make_doc(path, vocab, part, has_sentences=has_sentences)
            doc.user_data.update(about)
            yield doc
    if not has_tags:
        raise ValueError(f"{path}: no token has a tag in the column '{column}'. Give another one")


def _read_documents(path: Path, column: str) -> Iterator[tuple[dict[str, str], list[_Line]]]:
    """Yield the ID and date of each document, and its lines."""
    columns: list[str] = []
    about: dict[str, str] = {}
    lines: list[_Line] = []
    for number, data in numbered_lines(path):
        with named_errors(f"{path}:{number}"):
            text = decode(data).rstrip("\r\n")
        if not columns:
            columns = text.split("\t")
            _check_columns(path, columns, column)
        elif not text.strip(" \t"):
            if lines:
                yield about, lines
            about, lines = {}, []
        elif text.startswith("#") and "\t" not in text:
            about.update(_parse_comment(text))
        else:
            cells = text.split("\t")
            if len(cells) != len(columns) or not cells[0].strip(" "):
                raise ValueError(
                    f"{path}:{number}: expected a token and {len(columns) - 1} more columns "
                    f"between tabs, as in the header, found {text[:60]!r}"
                )
            row = dict(zip(columns, cells))
            link = row.get(f"NEL-{column.rpartition('-')[2]}", MISSING)
            flags = set(row.get("MISC", "").split("|"))
            lines.append(_Line(number, cells[0], row[column], link, flags))
    if not columns:
        raise ValueError(f"{path} is empty. Give a TSV file of HIPE")
    if lines:
        yield about, lines


def _check_columns(path: Path, columns: Sequence[str], column: str) -> None:
    """Raise a ValueError if the first line is not the header of such a file."""
    if columns[0] != "TOKEN":
        raise ValueError(
            f"{path}:1: expected the header of a TSV file of HIPE, which begins with TOKEN, "
            f"found {columns[0][:40]!r}"
        )
    known = [name for name in columns if name.startswith("NE-")]
    if column not in known:
        raise ValueError(
            f"{path} has no entities in a column '{column}'. Give one of: {', '.join(known)}"
        )
    if columns.count(column) > 1:
        raise ValueError(f"{path}:1: several columns have the name '{column}'. Rename all but one")


def _parse_comment(text: str) -> dict[str, str]:
    """Return the source or the date from a comment such as `# hipe2022:date = 1895-07-06`."""
    name, _, value = text[1:].partition("=")
    key = name.strip().rpartition(":")[2]
    names = {"document_id": "source", "date": "date"}
    return {names[key]: value.strip()} if key in names else {}


def _join_words(lines: Sequence[_Line]) -> list[list[_Line]]:
    """Divide the lines of a document into words. A word has several lines if it was cut."""
    words: list[list[_Line]] = []
    for line in lines:
        if not words or not _is_cut(words[-1][-1], line):
            words.append([line])
        elif len(words[-1][-1].token) > 1:
            words[-1].append(line)
        elif len(words) > 1 and "NoSpaceAfter" in words[-2][-1].flags:
            hyphen = words.pop()
            words[-1] += [*hyphen, line]
        else:
            words.append([line])
    return words


def _is_cut(line: _Line, following: _Line) -> bool:
    """Return True if a line ends with a hyphen, and the following line continues the word."""
    if not _HYPHEN.search(line.token):
        return False
    is_at_end = line.token[-1] in CUTS or "EndOfLine" in line.flags
    rest = following.token
    return is_at_end and rest[0].islower() and rest not in CONJUNCTIONS


def _split_sentences(words: Sequence[list[_Line]]) -> Iterator[Sequence[list[_Line]]]:
    """Split a document after each end of a sentence, except within an entity."""
    start = 0
    for end, (word, following) in enumerate(pairwise(words), 1):
        if SENTENCE_ENDS & word[-1].flags and not following[0].tag.startswith("I-"):
            yield words[start:end]
            start = end
    yield words[start:]


def _make_doc(
    path: Path, vocab: Vocab, words: Sequence[list[_Line]], *, has_sentences: bool
) -> Doc:
    """Make a Doc of words, with spaces, sentences (if the document has any) and entities."""
    texts = [
        "".join(_HYPHEN.sub(r"\1", line.token) for line in word[:-1]) + word[-1].token
        for word in words
    ]
    spaces = ["NoSpaceAfter" not in word[-1].flags for word in words]
    starts = [True, *(bool(SENTENCE_ENDS & word[-1].flags) for word in words[:-1])]
    doc = Doc(vocab, words=texts, spaces=spaces, sent_starts=starts if has_sentences else None)
    hidden = [all(line.tag == MISSING for line in word) for word in words]
    missing = [doc[i : i + 1] for i, is_hidden in enumerate(hidden) if is_hidden]
    if len(missing) < len(doc):
        doc.set_ents(_find_entities(path, doc, words), missing=missing, default="outside")
    return doc


def _find_entities(path: Path, doc: Doc, words: Sequence[list[_Line]]) -> list[Span]:
    """Return the entities of a Doc.

    As in conlleval, the scorer of CoNLL-2003, a tag I that continues no entity begins one. If two
    entities share a joined word, the first one gets it.
    """
    found: list[tuple[int, int, str, str]] = []
    previous = ""
    for i, word in enumerate(words):
        for line in word:
            prefix, _, label = line.tag.partition("-")
            if prefix in ("B", "I") and label:
                free = found[-1][1] if found else 0
                if prefix == "B" or label != previous:
                    found.append((max(i, free), i + 1, label, line.link))
                else:
                    start, _, _, link = found[-1]
                    found[-1] = (start, i + 1, label, link)
            elif line.tag not in ("O", MISSING):
                raise ValueError(
                    f"{path}:{line.number}: expected the tag O, _, B-... or I-..., found "
                    f"{line.tag!r}"
                )
            previous = label
    return [
        Span(doc, start, end, label, kb_id="" if link == MISSING else link)
        for start, end, label, link in found
        if start < end
    ]
