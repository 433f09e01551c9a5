"""What gets vectors, and what got them."""

from dataclasses import dataclass
from typing import Optional

import numpy as np

from ..embedding.segmenters import Segment


@dataclass(frozen=True)
class Entry:
    """A sentence or a Doc of the input.

    text (str): Its text.
    words (List[str]): Its tokens.
    segments (List[Segment]): The sequences that the language model reads.
    doc (Optional[bytes]): The Doc, if it has more than its tokens and is wanted.
    """

    text: str
    words: list[str]
    segments: list[Segment]
    doc: Optional[bytes] = None

    def __len__(self) -> int:
        return len(self.words)


@dataclass(frozen=True)
class Embedded:
    """An entry with its vectors.

    text (str): Its text.
    words (List[str]): Its tokens, and sentence marks where they have vectors.
    vectors (numpy.ndarray): *Shape:* `(n_tokens, width)`, or `(L + 1, n_tokens, width)`
    doc (Optional[bytes]): As in `Entry`.
    """

    text: str
    words: list[str]
    vectors: np.ndarray
    doc: Optional[bytes] = None


def sentence(words: list[str]) -> Entry:
    """RETURNS (Entry): A sentence; its text are the tokens, separated by spaces."""
    n = len(words)
    return Entry(" ".join(words), words, [Segment(0, n, 0, n)] if n else [])
