"""What a probe labels: the tokens, spans or senses of a Doc, or the Doc."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from spacy.tokens import Doc, Token

TASKS = "tag, pos, dep, ent, cats, spans:NAME or senses:NAME"


class Item(NamedTuple):
    """Something with a label.

    start (int): Its first token.
    end (int): The token after its last one.
    label (str): The label.
    word (str): What stands there: the text, of a sense in lower case, of a Doc "".
    """

    start: int
    end: int
    label: str
    word: str


class Task(NamedTuple):
    """What a probe predicts.

    name (str): As on the command line, "tag" or "senses:NAME".
    unit (str): What is labelled: "token", "span" or "Doc".
    items (Callable[[Doc], List[Item]]): The labelled ones of a Doc.
    """

    name: str
    unit: str
    items: Callable[[Doc], list[Item]]

    @property
    def is_senses(self) -> bool:
        """RETURNS (bool): Whether each word has labels of its own."""
        return self.name.startswith("senses:")


def parse_task(name: str) -> Task:
    """Find a task by its name.

    name (str): "tag", "pos", "dep", "ent" (IOB with the type), "cats", "spans:NAME"
        or "senses:NAME", where NAME is a span group.
    RETURNS (Task): The task.
    RAISES (ValueError): There is no such task.
    """
    kind, colon, group = name.partition(":")
    if kind in _TOKEN_LABELS and not colon:
        return Task(name, "token", partial(_token_items, label_of=_TOKEN_LABELS[kind]))
    if kind == "cats" and not colon:
        return Task(name, "Doc", _doc_items)
    if kind in ("spans", "senses") and group:
        return Task(name, "span", partial(_span_items, group=group, lower=kind == "senses"))
    raise ValueError(f"there is no task '{name}': give {TASKS}")


def _entity(token: Token) -> str:
    """IOB and type; "" where it is not known whether there is an entity."""
    iob: str = token.ent_iob_
    return f"{iob}-{token.ent_type_}" if iob in ("B", "I") else iob


_TOKEN_LABELS: dict[str, Callable[[Token], str]] = {
    "tag": lambda token: token.tag_,
    "pos": lambda token: token.pos_,
    "dep": lambda token: token.dep_,
    "ent": _entity,
}


def _token_items(doc: Doc, label_of: Callable[[Token], str]) -> list[Item]:
    labelled = ((token, label_of(token)) for token in doc)
    return [Item(token.i, token.i + 1, label, token.text) for token, label in labelled if label]


def _span_items(doc: Doc, group: str, *, lower: bool) -> list[Item]:
    spans = [span for span in doc.spans.get(group, ()) if span.label_ and len(span)]
    return [
        Item(span.start, span.end, span.label_, span.text.lower() if lower else span.text)
        for span in spans
    ]


def _doc_items(doc: Doc) -> list[Item]:
    if not doc.cats or not len(doc):
        return []
    labels = [label for label, value in doc.cats.items() if value >= 0.5]
    if len(labels) != 1:
        raise ValueError(
            f"a Doc has the categories {labels}: a probe needs exactly one of them at 0.5 or "
            f"above. The Doc is {doc[:10].text!r} ..."
        )
    return [Item(0, len(doc), labels[0], "")]
