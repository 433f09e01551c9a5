"""Docs in groups of so many tokens."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

Counted = TypeVar("Counted")


def by_tokens(
    docs: Iterable[Counted], max_tokens: int, max_docs: int, size: Callable[[Any], int] = len
) -> Iterator[list[Counted]]:
    """Group Docs, or what has tokens like them, in order.

    docs (Iterable[Doc]): The Docs.
    max_tokens (int): Most tokens of a group, unless one Doc alone has more.
    max_docs (int): Most Docs of a group.
    size (Callable): What to count in place of tokens.
    YIELDS (List[Doc]): A group.
    """
    group: list[Counted] = []
    n_tokens = 0
    for doc in docs:
        if group and (n_tokens + size(doc) > max_tokens or len(group) == max_docs):
            yield group
            group, n_tokens = [], 0
        group.append(doc)
        n_tokens += size(doc)
    if group:
        yield group
