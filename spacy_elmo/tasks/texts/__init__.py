"""Docs that contain two texts: a premise and a hypothesis, or a question and its context."""

from collections.abc import Sequence
from typing import NamedTuple, Union

from spacy.language import Language
from spacy.tokens import Doc
from spacy.vocab import Vocab

from ..shared.spans import name_of
from ..shared.task_files import copy_tokens

ENTAILMENT = ("premise", "hypothesis")
QUESTION = ("question", "context")
ANSWER = "answer"  # Key of the span group with answers.
ANSWER_TEXTS = "texts"  # Key of its attribute with the original texts of gold answers.


class Halves(NamedTuple):
    """Tokens of the two texts of a Doc, as slices of the Doc."""

    first: slice
    second: slice


def make_pair(
    nlp: Union[Language, Vocab],
    first: Union[str, Sequence[str]],
    second: Union[str, Sequence[str]],
    groups: Sequence[str] = ENTAILMENT,
) -> Doc:
    """Make one Doc of two texts.

    Each text starts a sentence. Whether other tokens start a sentence is not set, so the pipeline
    can set it.

    nlp (Union[Language, Vocab]): A pipeline, to split the texts with its tokenizer; or a vocab, to
        split them at whitespace.
    first (Union[str, Sequence[str]]): The first text, or its words; likewise `second`.
    groups (Sequence[str]): Keys of the texts' span groups. Each gets one span.
    """
    halves = [_tokens(nlp, text) for text in (first, second)]
    # Otherwise `doc.text` would join the last word of one text and the first word of the other.
    if halves[0]:
        halves[0][-1] = (halves[0][-1][0], True)
    words = [word for half in halves for word, _ in half]
    spaces = [space for half in halves for _, space in half]
    start, end = len(halves[0]), len(words)
    starts = [True if i in (0, start) else None for i in range(end)]
    vocab = nlp if isinstance(nlp, Vocab) else nlp.vocab
    doc = Doc(vocab, words=words, spaces=spaces, sent_starts=starts)
    doc.spans[groups[0]] = [doc[:start]]
    doc.spans[groups[1]] = [doc[start:]]
    return doc


def _tokens(nlp: Union[Language, Vocab], text: Union[str, Sequence[str]]) -> list[tuple[str, bool]]:
    """Return the words of a text, and whether a space follows each."""
    if not isinstance(text, str):
        return [(word, True) for word in text]
    if isinstance(nlp, Vocab):
        return [(word, True) for word in text.split()]
    return [(token.text, bool(token.whitespace_)) for token in nlp.make_doc(text)]


def read_halves(doc: Doc, groups: Sequence[str]) -> Halves:
    """Return the tokens of the two texts of a Doc.

    groups (Sequence[str]): The keys of the span groups of the two texts.
    RAISES (ValueError): A group does not have exactly one span, or the two spans overlap.
    """
    found = []
    for group in groups:
        spans = doc.spans.get(group, ())
        if len(spans) != 1:
            raise ValueError(
                f"the Doc {name_of(doc)} needs one span in doc.spans[{group!r}], but has "
                f"{len(spans)}. Use spacy_elmo.tasks.texts.make_pair to make a Doc of two texts"
            )
        found.append(spans[0])
    first, second = found
    if first.start < second.end and second.start < first.end:
        raise ValueError(
            f"the spans {groups[0]} ({first.start}, {first.end}) and {groups[1]} "
            f"({second.start}, {second.end}) of the Doc {name_of(doc)} overlap"
        )
    return Halves(*(slice(span.start, span.end) for span in found))


def copy_pair(doc: Doc, groups: Sequence[str]) -> Doc:
    """Copy the tokens, sentences and two texts of a Doc, without other annotation.

    groups (Sequence[str]): The keys of the span groups of the two texts.
    RAISES (ValueError): A group does not have exactly one span, or the two spans overlap.
    """
    copy = copy_tokens(doc)
    for group, half in zip(groups, read_halves(doc, groups)):
        copy.spans[group] = [copy[half]]
    return copy
