"""Vocabularies: code points and words of a token encoder, and words of a softmax."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Optional

import numpy as np

from ..files import atomic_write
from ..files.errors import listed, named_errors, shortened
from ..files.input_files import decode

SENTENCE_START = "<S>"
SENTENCE_END = "</S>"
UNKNOWN = "<UNK>"
SPECIAL = (SENTENCE_START, SENTENCE_END, UNKNOWN)
UNKNOWN_ID = SPECIAL.index(UNKNOWN)


class InputVocabulary:
    """Vocabulary of a token encoder, which maps strings to the ids of embeddings.

    strings (Sequence[Optional[str]]): The string of each id; None for an id without a string.
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
        return self  # Copies are the same object, because a vocabulary never changes.

    def ids_of(self, strings: Iterable[str], unknown: int) -> np.ndarray:
        """Return the ids of strings, int64; `unknown` for strings outside the vocabulary."""
        return np.array([self._ids.get(string, unknown) for string in strings], dtype="int64")

    def to_bytes(self) -> bytes:
        """Return the list of strings as JSON in UTF-8."""
        # Vocabularies of ELMoForManyLangs may contain lone surrogates, which UTF-8 refuses.
        return json.dumps(self.strings, ensure_ascii=False).encode("utf8", "surrogatepass")

    @classmethod
    def from_bytes(cls, data: bytes, n_strings: int) -> "InputVocabulary":
        """Read the output of `to_bytes`.

        RAISES (ValueError): The data are not a vocabulary, or have many more strings than
            `n_strings`.
        """
        # Count before parsing, because a few bytes such as `[],` become an object of many bytes.
        # Words may contain these characters themselves, so the limit is generous.
        if sum(map(data.count, (b",", b"[", b"{"))) > 1000 + 8 * n_strings:
            raise ValueError(f"more strings than the expected {n_strings:,}. The file is damaged.")
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
    """Vocabularies of a token encoder. A model that reads only bytes has no vocabulary.

    characters (Optional[InputVocabulary]): Code points, and marks such as `<bow>`.
    words (Optional[InputVocabulary]): Words, and marks such as `<S>`.
    """

    characters: Optional[InputVocabulary] = None
    words: Optional[InputVocabulary] = None


class Vocabulary(InputVocabulary):
    """Words of the softmax, as in bilm-tf's `vocab.txt`.

    The first three words are `<S>`, `</S>` and `<UNK>`. The other words follow in descending order
    of count.

    words (Sequence[str]): The position of a word is its id.
    RAISES (ValueError): The list does not start with the three special words, a word appears
        twice, or a word contains a line break.
    """

    def __init__(self, words: Sequence[str]):
        if tuple(words[:3]) != SPECIAL:
            raise ValueError(
                f"a vocabulary starts with {', '.join(SPECIAL)}, but this one starts with "
                f"{listed([repr(word) for word in words[:3]])}. Add these three first."
            )
        # A vocabulary file has one word per line.
        if "\n".join(words).count("\n") >= len(words):
            broken = next(word for word in words if "\n" in word)
            raise ValueError(f"a word contains a line break: {shortened(broken)}. Remove the word.")
        super().__init__(words)
        self.words = list(words)

    @classmethod
    def from_counts(
        cls, types: Sequence[str], counts: np.ndarray, *, min_count: int, max_size: int
    ) -> "Vocabulary":
        """Select the most frequent words of a text. Words with equal counts are sorted by spelling.

        counts (numpy.ndarray): Count of each different token. *Shape:* `(n_types,)`
        max_size (int): Maximum number of words, including the special words.
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
        """Read a `vocab.txt` with one word per line.

        RAISES (ValueError): The file is not a vocabulary, or not UTF-8.
        """
        with named_errors(path):
            # Not `splitlines`, which also splits at characters of words, such as U+2028.
            return cls(decode(path.read_bytes()).split("\n")[:-1])

    def to_disk(self, path: Path) -> None:
        """Write a `vocab.txt` with one word per line."""
        atomic_write(path, "".join(f"{word}\n" for word in self.words))

    def ids_of(self, strings: Iterable[str], unknown: int = UNKNOWN_ID) -> np.ndarray:
        """Return the ids of words. Words outside the vocabulary get the id of `<UNK>`."""
        return super().ids_of(strings, unknown)


def fits_a_line(word: str) -> bool:
    """Return whether a word has no line break and no lone surrogate: it fits a line in UTF-8."""
    return not any(c in "\r\n" or "\ud800" <= c <= "\udfff" for c in word)
