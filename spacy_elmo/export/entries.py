"""Entries: texts to embed, and their vectors."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Optional

import numpy as np

from ..embedding.segmenters import Segment
from .selection import SelectedSpan

INDEX = "sentence_to_index"  # AllenNLP's name of this dataset.
# How to write the texts. "index": as `sentence_to_index` in HDF5 and npz, and as the column `text`
# in Parquet. "keys": as names of the HDF5 datasets, like AllenNLP's `--use-sentence-keys`; repeated
# and empty sentences are left out. "none": not at all.
TEXTS = "index", "keys", "none"


class Source(NamedTuple):
    """Place of an entry in the input.

    file (str): The file, as the user named it.
    line (int): Number of the line, from 1, in which the entry begins. In formats without lines: the
        number of the row or Doc, from 1.
    """

    file: str = ""
    line: int = 0


UNKNOWN = Source()


@dataclass(frozen=True)
class TextEntry:
    """Sentence or Doc of the input.

    text (str): The text.
    words (List[str]): The tokens.
    segments (List[Segment]): The sequences that the language model reads, such as sentences.
    doc (Optional[bytes]): The bytes of the Doc, if the output contains Docs.
    selected (Optional[List[SelectedSpan]]): The tokens or spans that get a vector; None for every
        token.
    source (Source): The place of the entry in the input.
    """

    text: str
    words: list[str]
    segments: list[Segment]
    doc: Optional[bytes] = None
    selected: Optional[list[SelectedSpan]] = None
    source: Source = UNKNOWN

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
    source (Source): The place of the entry in the input.
    """

    text: str
    words: list[str]
    vectors: np.ndarray
    doc: Optional[bytes] = None
    beside: dict[str, Any] = field(default_factory=dict)
    source: Source = UNKNOWN


@dataclass(frozen=True)
class WriteOptions:
    """Options of an output format.

    texts (str): How to write the texts, one of `TEXTS`.
    empty (Embedded): Entry without tokens. It defines the columns of a table without rows.
    first (int): Index of the file's first entry in the whole output; above 0 in later shards.
    """

    texts: str
    empty: Embedded
    first: int = 0


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

    @classmethod
    def pop_from(cls, settings: dict[str, Any]) -> "Optional[EntryCounts]":
        """Remove the counts from the settings that an output stores, and return them.

        settings (dict): The settings.
        RETURNS (Optional[EntryCounts]): The counts; None if one is missing.
        """
        numbers = [settings.pop(name, None) for name in ("entries", "tokens", "vectors")]
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
