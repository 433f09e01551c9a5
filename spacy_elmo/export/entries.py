"""What gets vectors, and what got them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Optional

import numpy as np

from ..embedding.segmenters import Segment
from .keeping import Kept


@dataclass(frozen=True)
class Entry:
    """A sentence or a Doc of the input.

    text (str): Its text.
    words (List[str]): Its tokens.
    segments (List[Segment]): The sequences that the language model reads.
    doc (Optional[bytes]): The Doc, if it has more than its tokens and is wanted.
    kept (Optional[List[Kept]]): What gets a vector; None where each token does.
    """

    text: str
    words: list[str]
    segments: list[Segment]
    doc: Optional[bytes] = None
    kept: Optional[list[Kept]] = None

    def __len__(self) -> int:
        return len(self.words)


@dataclass(frozen=True)
class Embedded:
    """An entry with its vectors.

    text (str): Its text.
    words (List[str]): What has vectors: its tokens, and sentence marks; or texts of `Kept`.
    vectors (numpy.ndarray): *Shape:* `(n_words, width)`, or `(L + 1, n_words, width)`
    doc (Optional[bytes]): As in `Entry`.
    beside (Dict[str, List]): Columns of what stands beside each vector, by their names.
    """

    text: str
    words: list[str]
    vectors: np.ndarray
    doc: Optional[bytes] = None
    beside: dict[str, Any] = field(default_factory=dict)


@dataclass
class Counts:
    """How much was read, and to be written.

    entries (int): Sentences or Docs.
    tokens (int): Their tokens.
    vectors (int): Tokens, or what was chosen of them, with a vector each.
    """

    entries: int = 0
    tokens: int = 0
    vectors: int = field(default=0, compare=False)  # which no output says

    def of(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """YIELDS (Entry): The entries, counted as they go by."""
        for entry in entries:
            self += Counts(1, len(entry), len(entry.words if entry.kept is None else entry.kept))
            yield entry

    def __iadd__(self, other: "Counts") -> "Counts":
        self.entries += other.entries
        self.tokens += other.tokens
        self.vectors += other.vectors
        return self


def sentence(words: list[str]) -> Entry:
    """RETURNS (Entry): A sentence; its text are the tokens, separated by spaces."""
    n = len(words)
    return Entry(" ".join(words), words, [Segment(0, n, 0, n)] if n else [])
