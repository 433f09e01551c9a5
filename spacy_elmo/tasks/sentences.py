"""Sentences from `.jsonl` files, one a line."""

import gzip
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar, Union

from spacy.tokens import Doc
from spacy.vocab import Vocab

Made = TypeVar("Made")


def read_lines(path: Union[str, Path], make: Callable[[str], Made]) -> Iterator[Made]:
    """Make something of each line that is not empty.

    path (Union[str, Path]): The file, which may be gzipped.
    make (Callable[[str], Made]): What makes it.
    YIELDS (Made): What was made.
    RAISES (ValueError): A line is not as it must be; its number is named.
    """
    path = Path(path)
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                yield make(line)
            except ValueError as error:
                raise ValueError(f"{path}:{number}: {error}") from None


def make_sentence(vocab: Vocab, words: Sequence[str]) -> Doc:
    """RETURNS (Doc): A Doc of these words that is one sentence."""
    return Doc(vocab, words=list(words), sent_starts=[i == 0 for i in range(len(words))])
