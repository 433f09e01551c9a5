"""Entries: texts to embed, and their vectors."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Optional

import numpy as np

from ..embedding.segmenters import Segment
from .selection import SelectedSpan

INDEX = "sentence_to_index"  # AllenNLP's name of this dataset.


@dataclass(frozen=True)
class TextEntry:
    """Sentence or Doc of the input.

    text (str): The text.
    words (List[str]): The tokens.
    segments (List[Segment]): The sequences that the language model reads, such as sentences.
    doc (Optional[bytes]): The bytes of the Doc, if the output contains Docs.
    selected (Optional[List[SelectedSpan]]): The tokens or spans that get a vector; None for every
        token.
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
    """Entry with its vectors.

    text (str): The text.
    words (List[str]): One string per vector: a token, a sentence mark, or the text of a span.
    vectors (numpy.ndarray): *Shape:* `(n_words, width)`, or with all layers
        `(n_layers + 1, n_words, width)`
    doc (Optional[bytes]): The bytes of the Doc, if the output contains Docs.
    beside (Dict[str, List]): Other columns by name, such as "labels", with one value per vector.
    """

    text: str
    words: list[str]
    vectors: np.ndarray
    doc: Optional[bytes] = None
    beside: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class WriteOptions:
    """Options of an output format.

    index (bool): Whether to write the texts: `sentence_to_index` in HDF5 and npz, the column `text`
        in Parquet.
    sentence_keys (bool): Whether to name the HDF5 datasets by sentences instead of numbers, like
        AllenNLP's `--use-sentence-keys`. The file then has no `sentence_to_index`. Repeated and
        empty sentences are left out.
    empty (Embedded): Entry without tokens. It defines the columns of a table without rows.
    first (int): Index of the file's first entry in the whole output; above 0 in later shards.
    """

    index: bool
    sentence_keys: bool
    empty: Embedded
    first: int = 0

    def describe(self) -> dict[str, bool]:
        """Return the options that differ from the defaults. The output stores them."""
        described = {} if self.index else {"sentence_index": False}
        return described | ({"sentence_keys": True} if self.sentence_keys else {})


@dataclass
class EntryCounts:
    """Counts of entries, tokens and vectors.

    entries (int): Number of sentences or Docs.
    tokens (int): Number of tokens.
    vectors (int): Number of tokens or spans with a vector.
    """

    entries: int = 0
    tokens: int = 0
    vectors: int = field(default=0, compare=False)

    def describe(self) -> dict[str, int]:
        """Return the counts that the output stores: `vectors` only if it differs from `tokens`."""
        numbers = {"entries": self.entries, "tokens": self.tokens}
        return numbers if self.vectors == self.tokens else {**numbers, "vectors": self.vectors}

    @classmethod
    def pop_from(cls, settings: dict[str, Any]) -> "Optional[EntryCounts]":
        """Remove the counts from the settings that an output stores, and return them.

        settings (dict): The settings.
        RETURNS (Optional[EntryCounts]): The counts; None if `entries` or `tokens` is missing.
        """
        entries, tokens = settings.pop("entries", None), settings.pop("tokens", None)
        numbers = (entries, tokens, settings.pop("vectors", tokens))
        return cls(*numbers) if all(type(number) is int for number in numbers) else None

    def count(self, entries: Iterable[TextEntry]) -> Iterator[TextEntry]:
        """Yield entries unchanged, and add them to these counts.

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

    words (List[str]): The tokens.
    RETURNS (TextEntry): The entry. The text is the tokens, joined by spaces.
    """
    n = len(words)
    return TextEntry(" ".join(words), words, [Segment(0, n, 0, n)] if n else [])


def parse_settings(text: Optional[Any]) -> dict[str, Any]:
    """Parse the settings that an output file contains as JSON.

    text (Optional[Any]): The JSON. Files of other programs can have any value, or None.
    RETURNS (dict): The settings; empty if another program wrote the file.
    """
    try:
        value = json.loads(text) if text else {}
    except (ValueError, TypeError, RecursionError):  # An HDF5 attribute can have any type.
        return {}
    return value if isinstance(value, dict) else {}


def index_json(last: dict[str, int]) -> bytes:
    """Make AllenNLP's `sentence_to_index`, a JSON object with sorted keys.

    last (Dict[str, int]): For each sentence (as a JSON string), the index of the last entry that
        has this text.
    RETURNS (bytes): The JSON object.
    """
    pairs = ", ".join(f'{key}: "{last[key]}"' for key in sorted(last))
    return f"{{{pairs}}}".encode("ascii")
