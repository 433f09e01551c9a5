"""Entries: texts to embed, and their vectors."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Optional

import numpy as np

from ..embedding.segmenters import Segment
from .selection import SelectedSpan

INDEX = "sentence_to_index"  # as AllenNLP names it


@dataclass(frozen=True)
class TextEntry:
    """Sentence or Doc of the input.

    text (str): Its text.
    words (List[str]): Its tokens.
    segments (List[Segment]): The sequences that the language model reads.
    doc (Optional[bytes]): The Doc, if the output needs more of it than its tokens.
    selected (Optional[List[SelectedSpan]]): What gets a vector; None if every token does.
    """

    text: str
    words: list[str]
    segments: list[Segment]
    doc: Optional[bytes] = None
    selected: Optional[list[SelectedSpan]] = None

    def __len__(self) -> int:
        return len(self.words)


@dataclass(frozen=True)
class Embedded:
    """An entry with its vectors.

    text (str): Its text.
    words (List[str]): What has vectors: tokens and sentence marks, or the texts of spans.
    vectors (numpy.ndarray): *Shape:* `(n_words, width)`, or `(L + 1, n_words, width)`
    doc (Optional[bytes]): As in `TextEntry`.
    beside (Dict[str, List]): More columns with one value per vector, by name.
    """

    text: str
    words: list[str]
    vectors: np.ndarray
    doc: Optional[bytes] = None
    beside: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class WriteOptions:
    """Options of an output format.

    index (bool): Whether to write the texts, or `sentence_to_index`.
    sentence_keys (bool): Whether sentences, not numbers, name the datasets of HDF5, as with
        AllenNLP's `sentence_keys`. There is then no index, and repeated and empty sentences are
        left out.
    empty (Embedded): An entry without a token, which gives the columns of a table without rows.
    first (int): Number of the first entry.
    """

    index: bool
    sentence_keys: bool
    empty: Embedded
    first: int = 0


@dataclass
class EntryCounts:
    """Numbers of entries, tokens and vectors.

    entries (int): Sentences or Docs.
    tokens (int): Their tokens.
    vectors (int): Tokens or spans that get a vector.
    """

    entries: int = 0
    tokens: int = 0
    vectors: int = field(default=0, compare=False)

    def count(self, entries: Iterable[TextEntry]) -> Iterator[TextEntry]:
        """Count entries as they pass.

        entries (Iterable[TextEntry]): The entries.
        YIELDS (TextEntry): The same entries.
        """
        for entry in entries:
            n_vectors = len(entry.words if entry.selected is None else entry.selected)
            self += EntryCounts(1, len(entry), n_vectors)
            yield entry

    def __iadd__(self, other: "EntryCounts") -> "EntryCounts":
        self.entries += other.entries
        self.tokens += other.tokens
        self.vectors += other.vectors
        return self


def sentence(words: list[str]) -> TextEntry:
    """Make an entry of one sentence.

    words (List[str]): Its tokens.
    RETURNS (TextEntry): The entry. Its text is the tokens, separated by spaces.
    """
    n = len(words)
    return TextEntry(" ".join(words), words, [Segment(0, n, 0, n)] if n else [])


def read_json(text: Optional[Any]) -> dict[str, Any]:
    """Read the settings that an output contains.

    text (Optional[Any]): JSON, or something else if the file is not ours.
    RETURNS (dict): The settings; empty if the file is not ours.
    """
    try:
        value = json.loads(text) if text else {}
    except (ValueError, TypeError, RecursionError):  # An attribute of HDF5 has any type.
        return {}
    return value if isinstance(value, dict) else {}


def index_json(last: dict[str, int]) -> bytes:
    """Make AllenNLP's `sentence_to_index`, a JSON object with sorted keys.

    last (Dict[str, int]): From each sentence, as JSON, to the number of its last entry.
    RETURNS (bytes): The object.
    """
    return "{{{}}}".format(", ".join(f'{key}: "{last[key]}"' for key in sorted(last))).encode(
        "ascii"
    )
