"""Corpus: the sentences of a text as token ids."""

import hashlib
from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Optional, Union

import numpy as np

from ..model.vocabulary import SENTENCE_END, SENTENCE_START
from .reading import Inputs, find_files, read_sentences
from .shards import Shards

START_ID, END_ID = 0, 1
BLOCK = 1 << 24  # Number of ids that are counted at a time.


@dataclass(frozen=True)
class Corpus:
    """Sentences as ids of their tokens.

    types (Sequence[str]): The distinct tokens (types), in the order of their ids. The first two
        are `<S>` and `</S>`.
    tokens (Union[numpy.ndarray, Shards]): Ids of every sentence as `<S> w1 .. wn`. A word of the
        text can also be `<S>` or `</S>`. *Shape:* `(n,)`, int32
    starts (numpy.ndarray): Index of each sentence's first item in `tokens`. *Shape:*
        `(n_sentences,)`, int64
    type_counts (Optional[numpy.ndarray]): Number of occurrences of each type, if known.
    """

    types: Sequence[str]
    tokens: Union[np.ndarray, Shards]
    starts: np.ndarray
    type_counts: Optional[np.ndarray] = None

    @property
    def n_words(self) -> int:
        """Number of the items in `tokens` that are words, not sentence marks."""
        return len(self.tokens) - len(self.starts)

    def counts(self) -> np.ndarray:
        """Return the number of occurrences of each type, in the order of `types`."""
        if self.type_counts is not None:
            return self.type_counts
        counts = np.zeros(len(self.types), "int64")
        for start in range(0, len(self.tokens), BLOCK):
            counts += np.bincount(self.tokens[start : start + BLOCK], minlength=len(counts))
        return counts

    def checksum(self) -> str:
        """Return the SHA-256 of types and tokens, in hexadecimal."""
        digest = hashlib.sha256()
        for token in self.types:
            digest.update(token.encode("utf8", "surrogatepass") + b"\n")
        for start in range(0, len(self.tokens), BLOCK):
            digest.update(self.tokens[start : start + BLOCK].astype("<i4").tobytes())
        return digest.hexdigest()


def read_corpus(sentences: Iterable[list[str]], source: str = "the corpus") -> Corpus:
    """Convert the tokens of sentences to ids, in memory.

    sentences (Iterable[List[str]]): The sentences. Empty sentences are skipped.
    source (str): Name of the text in the error message.
    RETURNS (Corpus): The corpus.
    RAISES (ValueError): The text has no sentence.
    """
    types, tokens, sizes = number_tokens(sentences)
    if not len(sizes):
        raise ValueError(f"{source} has no sentence. Give files with text.")
    return Corpus(types, tokens, np.cumsum(sizes, dtype="int64") - sizes)


def number_tokens(sentences: Iterable[list[str]]) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Convert the tokens of sentences to ids.

    sentences (Iterable[List[str]]): The sentences. Empty sentences are skipped.
    RETURNS (Tuple[List[str], numpy.ndarray, numpy.ndarray]): The distinct tokens in the order of
        their ids; the ids of every sentence as `<S> w1 .. wn`; and the number of ids of each
        sentence, with `<S>`. Arrays are int32.
    """
    types: defaultdict[str, int] = defaultdict()
    types.update({SENTENCE_START: START_ID, SENTENCE_END: END_ID})
    types.default_factory = types.__len__
    tokens, sizes = array("i"), array("i")
    for sentence in filter(None, sentences):
        sizes.append(len(sentence) + 1)
        tokens.append(START_ID)
        tokens.extend(map(types.__getitem__, sentence))
    return list(types), np.array(tokens, "i4"), np.array(sizes, "i4")


def load_text(inputs: Inputs, *, format: str = "sentences", lang: Optional[str] = None) -> Corpus:
    """Read text into memory. Use `prepare` for more than some hundred megabytes.

    inputs (Union[str, Path, Iterable[Union[str, Path]]]): Files, folders or globs.
    format (str): Format of text files. 'sentences': one sentence per line, tokens separated by
        spaces. 'text': running text that spaCy splits.
    lang (Optional[str]): Language of spaCy's tokenizer for running text.
    RETURNS (Corpus): The corpus.
    RAISES (ValueError): A file is missing or cannot be read, `lang` is missing for running text,
        or the text has no sentence.
    """
    inputs = [inputs] if isinstance(inputs, (str, Path)) else list(inputs)
    sentences = read_sentences(find_files(inputs), format=format, lang=lang)
    return read_corpus(sentences, ", ".join(map(str, inputs)))
