"""Groups of Docs with a limit on tokens, with or without padding."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

Counted = TypeVar("Counted")


def by_tokens(
    docs: Iterable[Counted], max_tokens: int, max_docs: int, size: Callable[[Any], int] = len
) -> Iterator[list[Counted]]:
    """Group Docs, or other items that have tokens, in order.

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


def by_padded(lengths: Sequence[Sequence[int]], max_tokens: int) -> Iterator[list[int]]:
    """Group items of similar length, so that padding is small.

    lengths (Sequence[Sequence[int]]): Lengths of the sequences of each item. All items have the
        same number of sequences; each is padded to the longest of its group.
    max_tokens (int): Most tokens of a group, padding included, unless one item alone has more.
    YIELDS (List[int]): Indices of the items of a group, the longest first.
    """
    group: list[int] = []
    longest: tuple[int, ...] = ()
    for i in sorted(range(len(lengths)), key=lambda i: sum(lengths[i]), reverse=True):
        widest = tuple(map(max, zip(longest, lengths[i]))) if group else tuple(lengths[i])
        if group and sum(widest) * (len(group) + 1) > max_tokens:
            yield group
            group, widest = [], tuple(lengths[i])
        group.append(i)
        longest = widest
    if group:
        yield group
