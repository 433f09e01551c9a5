"""Character ids of tokens: UTF-8 bytes or code points, between marks for both ends of a word."""

from collections.abc import Sequence
from itertools import chain
from typing import Optional

import numpy as np

from .vocabulary import SENTENCE_END, SENTENCE_START, InputVocabulary

# Ids are the same as in AllenNLP: bilm-tf's ids plus 1, because 0 is a masked position.
BOS, EOS, BOW, EOW, PAD = 257, 258, 259, 260, 261

# Names of the marks in ELMoForManyLangs.
CODE_POINT_MARKS = ("<bos>", "<eos>")
CODE_POINT_SPECIAL = ("<oov>", "<pad>", "<bow>", "<eow>", *CODE_POINT_MARKS)


def character_ids(
    tokens: Sequence[str], max_characters: int = 50, widest_filter: Optional[int] = None
) -> np.ndarray:
    """Convert tokens to the ids of their UTF-8 bytes, as the public ELMo models read them.

    A row contains a begin-of-word mark, at most `max_characters - 2` bytes, an end-of-word mark,
    and padding. The tokens `<S>` and `</S>` become the ids of the sentence marks.

    tokens (Sequence[str]): The tokens. Characters that UTF-8 cannot encode are left out.
    max_characters (int): Maximum number of ids per token, including the two marks.
    widest_filter (Optional[int]): Width of the widest convolution. If it is set, padding that
        cannot change the maximum of a filter is left out.
    RETURNS (numpy.ndarray): Shape `(n_tokens, n_characters)`, int32, ids from 1 to 261.
    """
    spelled = [token.encode("utf8", "ignore")[: max_characters - 2] for token in tokens]
    lengths = np.array([len(word) for word in spelled], dtype="int64")
    flat = np.frombuffer(b"".join(spelled), dtype="uint8") + np.int32(1)
    n_columns = _n_columns(lengths, max_characters, widest_filter)
    ids = _between_marks(flat, lengths, (BOW, EOW, PAD), n_columns)
    for mark, mark_id in ((SENTENCE_START, BOS), (SENTENCE_END, EOS)):
        for row in (i for i, token in enumerate(tokens) if token == mark):
            ids[row, 1:] = PAD
            ids[row, 1:3] = mark_id, EOW
    return ids


def code_point_ids(
    tokens: Sequence[str], vocabulary: InputVocabulary, max_characters: int, widest_filter: int
) -> np.ndarray:
    """Convert tokens to the ids of their code points, as ELMoForManyLangs' models read them.

    At most `max_characters - 2` code points are read. A word begins with `<eow>` and ends with
    `<bow>`, because these models were trained with the two names swapped. The tokens `<bos>` and
    `<eos>` are the sentence marks.

    tokens (Sequence[str]): The tokens.
    vocabulary (InputVocabulary): The known code points. Other code points become `<oov>`.
    max_characters (int): Maximum number of ids per token, including the two marks.
    widest_filter (int): Width of the widest convolution. Padding that cannot change the maximum of
        a filter is left out.
    RETURNS (numpy.ndarray): Shape `(n_tokens, n_characters)`, int32.
    """
    spelled = [
        [token] if token in CODE_POINT_MARKS else token[: max_characters - 2] for token in tokens
    ]
    lengths = np.array([len(word) for word in spelled], dtype="int64")
    flat = vocabulary.ids_of(chain.from_iterable(spelled), vocabulary["<oov>"])
    n_columns = _n_columns(lengths, max_characters, widest_filter)
    marks = (vocabulary["<eow>"], vocabulary["<bow>"], vocabulary["<pad>"])
    return _between_marks(flat, lengths, marks, n_columns)


def _n_columns(lengths: np.ndarray, max_characters: int, widest_filter: Optional[int]) -> int:
    if widest_filter is None:
        return max_characters
    # Keep one window of padding for every filter, because padding counts for the maximum.
    return min(max_characters, int(lengths.max(initial=1)) + 2 + widest_filter)


def _between_marks(
    flat: np.ndarray, lengths: np.ndarray, marks: tuple[int, int, int], n_columns: int
) -> np.ndarray:
    """Lay out ids in one row per word: first mark, ids of the word, last mark, padding.

    flat (numpy.ndarray): Ids of all words, one word after the other.
    lengths (numpy.ndarray): Number of ids of each word. *Shape:* `(n_words,)`
    marks (Tuple[int, int, int]): Ids of the first mark, the last mark and padding.
    n_columns (int): Number of ids in a row.
    RETURNS (numpy.ndarray): int32. *Shape:* `(n_words, n_columns)`
    """
    first, last, pad = marks
    rows = np.arange(len(lengths))
    ids = np.full((len(lengths), n_columns), pad, dtype="int32")
    starts = np.cumsum(lengths) - lengths
    columns = np.arange(lengths.sum()) - np.repeat(starts, lengths) + 1
    ids[np.repeat(rows, lengths), columns] = flat
    ids[:, 0] = first
    ids[rows, lengths + 1] = last
    return ids
