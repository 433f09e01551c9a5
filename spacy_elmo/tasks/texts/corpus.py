"""Corpus readers for `elmo_textpair` (labeled pairs) and `elmo_qa` (questions with answers)."""

import codecs
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Union

from spacy.language import Language
from spacy.tokens import Doc, SpanGroup
from spacy.training import Example

from ...files import PathSetting, check_regular, user_path
from ...files.schema import Integer, Schema, String, records
from ...registry import registry
from ..shared.spans import checked_spans, name_of
from ..shared.task_files import Reader, Text, gold_reader
from . import ANSWER, ANSWER_TEXTS, ENTAILMENT, QUESTION, copy_pair, make_pair, read_halves

GOLD_ANSWER = {"text": String, "answer_start": Integer}
SQUAD_QUESTION = {"id": Any, "question": String, "answers": records(GOLD_ANSWER)}
SQUAD_PARAGRAPH = {"context": String, "qas": records(SQUAD_QUESTION)}
SQUAD = Schema(
    {"data": records({"paragraphs": records(SQUAD_PARAGRAPH)})},
    "a file of SQuAD 1.1 or 2.0; a file with one question per line must be named .jsonl",
)


@registry.readers("spacy-elmo.TextPairCorpus.v1")
def make_textpair_corpus(path: PathSetting, groups: Sequence[str] = list(ENTAILMENT)) -> Reader:
    """Make a corpus reader for `elmo_textpair`.

    The file is one of:

    * `.jsonl`, also gzipped: one pair per line, with the two texts and a `"label"`. The keys of the
      texts are `groups`. A text can be a list of words.
    * `.spacy`: Docs with both span groups and `doc.cats`.

    path (Union[str, int, Path]): The file.
    groups (Sequence[str]): The names of the two texts: their keys in JSON lines and `doc.spans`.
    """

    def make(nlp: Language, entry: dict[str, Any]) -> Doc:
        doc = make_pair(nlp, entry[groups[0]], entry[groups[1]], groups)
        doc.cats = {entry["label"]: 1.0}
        return doc

    example = json.dumps({**dict.fromkeys(groups, "..."), "label": "..."})
    schema = Schema({**dict.fromkeys(groups, Text), "label": String}, example)
    check, copy = partial(check_pair, groups=groups), partial(copy_pair, groups=groups)
    return gold_reader(path, schema, make, check, copy)


def check_pair(doc: Doc, groups: Sequence[str]) -> None:
    """Check the texts, answers and labels of a gold Doc.

    RAISES (ValueError): A text is missing, or a text, answer or label is empty.
    """
    for group, half in zip(groups, read_halves(doc, groups)):
        if half.start == half.stop:  # spaCy cannot copy a Doc with an empty span.
            raise ValueError(f"the {group} of the Doc {name_of(doc)} has no tokens. Remove the Doc")
    list(checked_spans(doc, ANSWER, labeled=False))
    if any(not label.strip() for label in doc.cats):
        raise ValueError(f"a label in doc.cats of the Doc {name_of(doc)} is empty. Remove it")


@registry.readers("spacy-elmo.QACorpus.v1")
def make_qa_corpus(path: PathSetting, groups: Sequence[str] = list(QUESTION)) -> Reader:
    """Make a corpus reader for `elmo_qa`.

    The file is one of:

    * `.jsonl`, also gzipped: one question per line, with the two texts and `"answers"`. The keys of
      the texts are `groups`. An answer has `"text"` and `"answer_start"`, the index of its first
      character in the context. A question without an answer has an empty list.
    * `.json`: the format of SQuAD 1.1 or 2.0.
    * `.spacy`: Docs with both span groups and `doc.spans["answer"]`.

    path (Union[str, int, Path]): The file.
    groups (Sequence[str]): The names of question and context: their keys in JSON lines and
        `doc.spans`.
    """
    path = user_path(path)
    answer = {"text": "...", "answer_start": 0}
    example = json.dumps({**dict.fromkeys(groups, "..."), "answers": [answer]})
    fields = {groups[0]: Text, groups[1]: String, "answers": records(GOLD_ANSWER)}
    schema = Schema(fields, example)
    check, copy = partial(check_pair, groups=groups), partial(copy_pair, groups=groups)

    def make(nlp: Language, entry: dict[str, Any]) -> Doc:
        question, context = (entry[group] for group in groups)
        return make_question(nlp, question, context, entry["answers"], groups)

    def read(nlp: Language) -> Iterator[Example]:
        return (Example(copy(doc), doc) for _, doc in read_squad(path, nlp, groups))

    return read if path.suffix == ".json" else gold_reader(path, schema, make, check, copy)


def make_question(
    nlp: Language,
    question: Union[str, Sequence[str]],
    context: str,
    answers: Iterable[dict[str, Any]],
    groups: Sequence[str] = QUESTION,
) -> Doc:
    """Make a Doc of a question, its context and its gold answers.

    The spans of answers in `doc.spans["answer"]` are extended to whole tokens. The original texts
    are in `doc.spans["answer"].attrs["texts"]`.

    question (Union[str, Sequence[str]]): The question, or its words.
    answers (Iterable[dict]): `"text"`, and `"answer_start"`, the index of its first character in
        the context. Whitespace around the text is ignored. Empty for a question without an answer.
    RAISES (ValueError): The context does not contain an answer at its `"answer_start"`.
    """
    doc = make_pair(nlp, question, context, groups)
    tokens = read_halves(doc, groups).second
    first = doc[tokens.start].idx if tokens.start < len(doc) else 0
    spans, texts = [], []
    for answer in answers:
        text, start = answer["text"], answer["answer_start"]
        if type(start) is not int or not isinstance(text, str):
            raise ValueError(
                f'"text" must be a text and "answer_start" an integer, got {text!r} and {start!r}'
            )
        if not text.strip() or start < 0 or context[start : start + len(text)] != text:
            raise ValueError(
                f"the answer {text!r} is not at character {start} of the context of the question "
                f"{question!r}"
            )
        begin = first + start + len(text) - len(text.lstrip())
        spans.append(doc.char_span(begin, begin + len(text.strip()), alignment_mode="expand"))
        texts.append(text)
    doc.spans[ANSWER] = SpanGroup(doc, name=ANSWER, spans=spans, attrs={ANSWER_TEXTS: texts})
    return doc


def read_squad(
    path: Path, nlp: Language, groups: Sequence[str] = QUESTION
) -> Iterator[tuple[int, Doc]]:
    """Read the questions from a file in the format of SQuAD 1.1 or 2.0.

    YIELDS (Tuple[int, Doc]): The index of the article, and the Doc of a question.
    RAISES (ValueError): The file has another format, or a context does not contain an answer at its
        `"answer_start"`.
    """
    check_regular(path)
    name, content = "", path.read_bytes().removeprefix(codecs.BOM_UTF8)
    try:
        for number, article in enumerate(SQUAD.parse(content)["data"]):
            for paragraph in article["paragraphs"]:
                for one in paragraph["qas"]:
                    name = f", question {one['id']}"
                    texts = (one["question"], paragraph["context"])
                    doc = make_question(nlp, *texts, one["answers"], groups)
                    check_pair(doc, groups)
                    yield number, doc
    except ValueError as error:
        raise ValueError(f"{path}{name}: {error}") from None
