"""The strings that a token encoder has embeddings of, code points or words; and among them the
words that the softmax predicts."""

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
    """Strings by id.

    strings (Sequence[Optional[str]]): The string of every id; None where an id has none.
    RAISES (ValueError): A string stands twice.
    """

    def __init__(self, strings: Sequence[Optional[str]]):
        self.strings = tuple(strings)
        self._ids = {string: i for i, string in enumerate(self.strings) if string is not None}
        if len(self._ids) + self.strings.count(None) != len(self.strings):
            twice = next(
                s for i, s in enumerate(self.strings) if s is not None and self._ids[s] != i
            )
            raise ValueError(f"{shortened(twice)} stands twice in the vocabulary")

    def __len__(self) -> int:
        return len(self.strings)

    def __contains__(self, string: object) -> bool:
        return string in self._ids

    def __getitem__(self, string: str) -> int:
        return self._ids[string]

    def __deepcopy__(self, memo: object) -> "InputVocabulary":
        return self  # it never changes

    def ids_of(self, strings: Iterable[str], unknown: int) -> np.ndarray:
        """Look strings up.

        strings (Iterable[str]): The strings.
        unknown (int): The id of those that are not there.
        RETURNS (numpy.ndarray): Their ids, int64.
        """
        return np.array([self._ids.get(string, unknown) for string in strings], dtype="int64")

    def to_bytes(self) -> bytes:
        """RETURNS (bytes): The vocabulary as JSON."""
        return json.dumps(self.strings, ensure_ascii=False).encode("utf8", "surrogatepass")

    @classmethod
    def from_bytes(cls, data: bytes, n_strings: int) -> "InputVocabulary":
        """Read what `to_bytes` wrote.

        data (bytes): JSON.
        n_strings (int): How many strings there should be: much more is not parsed.
        RETURNS (InputVocabulary): The vocabulary.
        RAISES (ValueError): It is none.
        """
        if sum(map(data.count, (b",", b"[", b"{"))) > 1000 + 8 * n_strings:
            raise ValueError(f"more than the {n_strings:,} strings that it should hold")
        try:
            strings = json.loads(data.decode("utf8", "surrogatepass"))
        except RecursionError as error:
            raise ValueError("no list of strings") from error
        if not isinstance(strings, list) or not all(
            string is None or isinstance(string, str) for string in strings
        ):
            raise ValueError("no list of strings")
        return cls(strings)


class Vocabularies(NamedTuple):
    """What a token encoder looks up besides bytes.

    characters (Optional[InputVocabulary]): Code points, and the marks.
    words (Optional[InputVocabulary]): Words, and the marks.
    """

    characters: Optional[InputVocabulary] = None
    words: Optional[InputVocabulary] = None


class Vocabulary(InputVocabulary):
    """Words of the softmax: `<S>`, `</S>` and `<UNK>`, then by falling count, as in bilm-tf's
    `vocab.txt`.

    words (Sequence[str]): All of them; the place of a word is its id.
    RAISES (ValueError): The three special words are not first, a word stands twice, or has a line
        break.
    """

    def __init__(self, words: Sequence[str]):
        if tuple(words[:3]) != SPECIAL:
            raise ValueError(
                f"a vocabulary starts with {', '.join(SPECIAL)}, this one with "
                f"{listed([repr(word) for word in words[:3]])}"
            )
        # Every file of such a vocabulary has a word a line.
        if "\n".join(words).count("\n") >= len(words):
            broken = next(word for word in words if "\n" in word)
            raise ValueError(f"a word of the softmax cannot have a line break: {shortened(broken)}")
        super().__init__(words)
        self.words = list(words)

    @classmethod
    def from_counts(
        cls, types: Sequence[str], counts: np.ndarray, *, min_count: int, max_size: int
    ) -> "Vocabulary":
        """Choose the most frequent words of a text, equal counts by spelling.

        types (Sequence[str]): Its token types.
        counts (numpy.ndarray): How often each occurs. *Shape:* `(n_types,)`
        min_count (int): Least count of a word.
        max_size (int): Most words, the special ones included.
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
        """Read a `vocab.txt`, a word a line.

        path (Path): The file.
        RETURNS (Vocabulary): The vocabulary.
        RAISES (ValueError): It is none, or not UTF-8.
        """
        with named_errors(path):
            return cls(path.read_bytes().decode("utf8").split("\n")[:-1])

    def to_disk(self, path: Path) -> None:
        """Write a `vocab.txt`."""
        atomic_write(path, "".join(f"{word}\n" for word in self.words))

    def ids_of(self, strings: Iterable[str], unknown: int = UNKNOWN_ID) -> np.ndarray:
        """As of any vocabulary; words that are not there are `<UNK>`."""
        return super().ids_of(strings, unknown)


def fits_a_line(word: str) -> bool:
    """Find whether a word can stand in a line of a text file in UTF-8.

    word (str): The word.
    RETURNS (bool): Whether it has no line break, and no half of a surrogate pair.
    """
    return not any(c in "\r\n" or "\ud800" <= c <= "\udfff" for c in word)
