"""The words that the softmax predicts."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..bilm.characters import SENTENCE_END, SENTENCE_START
from .corpus import Corpus

UNKNOWN = "<UNK>"
SPECIAL = (SENTENCE_START, SENTENCE_END, UNKNOWN)
UNKNOWN_ID = SPECIAL.index(UNKNOWN)


class Vocabulary:
    """Words by falling count, after `<S>`, `</S>` and `<UNK>`: bilm-tf's `vocab.txt`.

    words (Sequence[str]): All of them; the place of a word is its id.
    RAISES (ValueError): The three special words are not first, or a word stands twice.
    """

    def __init__(self, words: Sequence[str]):
        if tuple(words[:3]) != SPECIAL:
            raise ValueError(
                f"a vocabulary starts with {', '.join(SPECIAL)}, this one with {list(words[:3])}"
            )
        self.words = list(words)
        self._ids = {word: i for i, word in enumerate(self.words)}
        if len(self._ids) != len(self.words):
            raise ValueError("a word stands twice in the vocabulary")

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._ids

    @classmethod
    def from_corpus(cls, corpus: Corpus, *, min_count: int, max_size: int) -> "Vocabulary":
        """Choose the most frequent words of a corpus, equal counts by spelling.

        corpus (Corpus): The text.
        min_count (int): Least count of a word.
        max_size (int): Most words, the special ones included.
        RETURNS (Vocabulary): The vocabulary.
        """
        counts = corpus.counts()
        words = [
            (-int(counts[i]), word)
            for i, word in enumerate(corpus.types)
            if counts[i] >= min_count and word not in SPECIAL and _fits_a_line(word)
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
        try:
            return cls(path.read_bytes().decode("utf8").split("\n")[:-1])
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    def to_disk(self, path: Path) -> None:
        """Write a `vocab.txt`."""
        path.write_text("".join(f"{word}\n" for word in self.words), "utf8", newline="\n")

    def ids_of(self, types: Sequence[str]) -> np.ndarray:
        """RETURNS (numpy.ndarray): The word id of each token type, int64;
        that of `<UNK>` where there is none."""
        return np.array([self._ids.get(token, UNKNOWN_ID) for token in types], dtype="int64")


def _fits_a_line(word: str) -> bool:
    """Words with a line break or half a surrogate pair are `<UNK>`."""
    return not any(c in "\r\n" or "\ud800" <= c <= "\udfff" for c in word)
