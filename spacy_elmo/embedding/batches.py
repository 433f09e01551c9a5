"""Docs in groups of so many tokens."""

from collections.abc import Iterable, Iterator, Sized
from typing import TypeVar

Counted = TypeVar("Counted", bound=Sized)


def by_tokens(docs: Iterable[Counted], max_tokens: int, max_docs: int) -> Iterator[list[Counted]]:
    """Group Docs, or what has tokens like them, in order.

    docs (Iterable[Doc]): The Docs.
    max_tokens (int): Most tokens of a group, unless one Doc alone has more.
    max_docs (int): Most Docs of a group.
    YIELDS (List[Doc]): A group.
    """
    group: list[Counted] = []
    n_tokens = 0
    for doc in docs:
        if group and (n_tokens + len(doc) > max_tokens or len(group) == max_docs):
            yield group
            group, n_tokens = [], 0
        group.append(doc)
        n_tokens += len(doc)
    if group:
        yield group
