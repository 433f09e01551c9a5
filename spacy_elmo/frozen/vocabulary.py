"""Vocabularies: code points and words of a token encoder, and words of a softmax."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Optional

import numpy as np

from ..files import atomic_write
from ..files.errors import named_errors
from .config import listed, shortened

SENTENCE_START = "<S>"
SENTENCE_END = "</S>"
UNKNOWN = "<UNK>"
SPECIAL = (SENTENCE_START, SENTENCE_END, UNKNOWN)
UNKNOWN_ID = SPECIAL.index(UNKNOWN)


class InputVocabulary:
    """Strings that a token encoder has embeddings of, by id.

    strings (Sequence[Optional[str]]): The string of every id; None for an id without a string.
    RAISES (ValueError): A string appears twice.
    """

    def __init__(self, strings: Sequence[Optional[str]]):
        self.strings = tuple(strings)
        self._ids = {string: i for i, string in enumerate(self.strings) if string is not None}
        if len(self._ids) + self.strings.count(None) != len(self.strings):
            twice = next(
                s for i, s in enumerate(self.strings) if s is not None and self._ids[s] != i
            )
            raise ValueError(f"{shortened(twice)} appears twice in the vocabulary. Remove one.")

    def __len__(self) -> int:
        return len(self.strings)

    def __contains__(self, string: object) -> bool:
        return string in self._ids

    def __getitem__(self, string: str) -> int:
        return self._ids[string]

    def __deepcopy__(self, memo: object) -> "InputVocabulary":
        return self  # A vocabulary never changes.

    def ids_of(self, strings: Iterable[str], unknown: int) -> np.ndarray:
        """Return the ids of some strings.

        strings (Iterable[str]): The strings.
        unknown (int): The id of strings that are not in the vocabulary.
        RETURNS (numpy.ndarray): Their ids, int64.
        """
        return np.array([self._ids.get(string, unknown) for string in strings], dtype="int64")

    def to_bytes(self) -> bytes:
        """Return the vocabulary as JSON."""
        return json.dumps(self.strings, ensure_ascii=False).encode("utf8", "surrogatepass")

    @classmethod
    def from_bytes(cls, data: bytes, n_strings: int) -> "InputVocabulary":
        """Read the output of `to_bytes`.

        data (bytes): JSON.
        n_strings (int): Expected number of strings. Much longer lists are refused unparsed.
        RETURNS (InputVocabulary): The vocabulary.
        RAISES (ValueError): The data are no vocabulary, or too long.
        """
        if sum(map(data.count, (b",", b"[", b"{"))) > 1000 + 8 * n_strings:
            raise ValueError(
                f"there are more than the expected {n_strings:,} strings. The file is damaged."
            )
        try:
            strings = json.loads(data.decode("utf8", "surrogatepass"))
        except RecursionError:
            strings = None
        if not isinstance(strings, list) or not all(
            string is None or isinstance(string, str) for string in strings
        ):
            raise ValueError("not a list of strings. The file is damaged.")
        return cls(strings)


class Vocabularies(NamedTuple):
    """Vocabularies of a token encoder; a model that reads only bytes has none.

    characters (Optional[InputVocabulary]): Code points, and the marks.
    words (Optional[InputVocabulary]): Words, and the marks.
    """

    characters: Optional[InputVocabulary] = None
    words: Optional[InputVocabulary] = None


class Vocabulary(InputVocabulary):
    """Words of the softmax, as in bilm-tf's `vocab.txt`.

    The first three are `<S>`, `</S>` and `<UNK>`. The others follow by falling count.

    words (Sequence[str]): All words; the position of a word is its id.
    RAISES (ValueError): The three special words are not first, or a word appears twice or has a
        line break.
    """

    def __init__(self, words: Sequence[str]):
        if tuple(words[:3]) != SPECIAL:
            raise ValueError(
                f"a vocabulary starts with {', '.join(SPECIAL)}, but this one with "
                f"{listed([repr(word) for word in words[:3]])}. Add the three as its first lines."
            )
        # Files of such a vocabulary have one word a line.
        if "\n".join(words).count("\n") >= len(words):
            broken = next(word for word in words if "\n" in word)
            raise ValueError(f"a word has a line break: {shortened(broken)}. Remove it.")
        super().__init__(words)
        self.words = list(words)

    @classmethod
    def from_counts(
        cls, types: Sequence[str], counts: np.ndarray, *, min_count: int, max_size: int
    ) -> "Vocabulary":
        """Choose the most frequent words of a text; equal counts are ordered by spelling.

        types (Sequence[str]): The token types of the text.
        counts (numpy.ndarray): Count of each type. *Shape:* `(n_types,)`
        min_count (int): Minimum count of a word.
        max_size (int): Maximum number of words, special ones included.
        RETURNS (Vocabulary): The vocabulary.
        """
        words = [
            (-int(counts[i]), word)
            for i, word in enumerate(types)
            if counts[i] >= min_count and word not in SPECIAL and fits_a_line(word)
        ]
        chosen = sorted(words)[: max_size - len(SPECIAL)]
        return cls([*SPECIAL, *(word for _, word in chosen)])

    @classmethod
    def from_disk(cls, path: Path) -> "Vocabulary":
        """Read a `vocab.txt` with one word a line.

        path (Path): The file.
        RETURNS (Vocabulary): The vocabulary.
        RAISES (ValueError): The file is no vocabulary, or not UTF-8.
        """
        with named_errors(path):
            return cls(path.read_bytes().decode("utf8").split("\n")[:-1])

    def to_disk(self, path: Path) -> None:
        """Write a `vocab.txt`."""
        atomic_write(path, "".join(f"{word}\n" for word in self.words))

    def ids_of(self, strings: Iterable[str], unknown: int = UNKNOWN_ID) -> np.ndarray:
        """Return the ids of some words; words outside the vocabulary are `<UNK>`."""
        return super().ids_of(strings, unknown)


def fits_a_line(word: str) -> bool:
    """Return whether a word can be a line of a UTF-8 file.

    word (str): The word.
    RETURNS (bool): True if it has neither a line break nor half of a surrogate pair.
    """
    return not any(c in "\r\n" or "\ud800" <= c <= "\udfff" for c in word)
