"""Indexers: convert tokens to the ids of characters and words that a token encoder reads."""

from collections.abc import Sequence, Sized
from itertools import chain
from typing import Any, NamedTuple, Optional

import numpy as np

from .config import BiLMConfig
from .vocabulary import SENTENCE_END, SENTENCE_START, UNKNOWN, InputVocabulary, Vocabularies

# Ids are the same as in AllenNLP: bilm-tf's ids plus 1, because 0 is a masked position.
BOS, EOS, BOW, EOW, PAD = 257, 258, 259, 260, 261

# Names of the marks in ELMoForManyLangs.
CODE_POINT_MARKS = ("<bos>", "<eos>")
CODE_POINT_SPECIAL = ("<oov>", "<pad>", "<bow>", "<eow>", *CODE_POINT_MARKS)


class TokenIds(NamedTuple):
    """Ids that a token encoder reads, as arrays or tensors.

    characters (Union[numpy.ndarray, Tensor, None]): Character ids; None if the model reads only
        words. *Shape:* `(n_tokens, n_characters)`
    words (Union[numpy.ndarray, Tensor, None]): Word ids, -1 for a word without an embedding; None
        if the model reads only characters. *Shape:* `(n_tokens,)`
    """

    characters: Any
    words: Any


class TokenIndexer:
    """Base class of indexers, which convert tokens to ids. A subclass is for one token encoder.

    RAISES (ValueError): A vocabulary has another size than its embeddings, or lacks a special word
        such as the mark `<S>`.
    """

    marks: tuple[str, str]  # Marks at the start and the end of a sentence.

    def __init__(self, config: BiLMConfig, vocabularies: Vocabularies):
        self.config = config
        self.vocabularies = vocabularies
        self.widths = (config.max_characters_per_token, config.widest_filter)

    def __call__(self, tokens: Sequence[str]) -> TokenIds:
        """Convert tokens to ids."""
        raise NotImplementedError


def make_indexer(config: BiLMConfig, vocabularies: Vocabularies) -> TokenIndexer:
    """Make the indexer for the token encoder of a config."""
    make = BilmTfIndexer if config.token_encoder == "bilm-tf" else ManyLangsIndexer
    return make(config, vocabularies)


class BilmTfIndexer(TokenIndexer):
    """Indexer for bilm-tf's models, which read UTF-8 bytes, words, or both.

    A model that reads both uses bytes only for words outside the vocabulary.
    """

    marks = (SENTENCE_START, SENTENCE_END)

    def __init__(self, config: BiLMConfig, vocabularies: Vocabularies):
        super().__init__(config, vocabularies)
        _check_size("characters", vocabularies.characters, 0, ())
        is_complete = bool(config.n_words and not config.n_characters)
        special = (*self.marks, UNKNOWN) if is_complete else ()
        words = _check_size("words", vocabularies.words, config.n_words, special)
        self.unknown = words[UNKNOWN] if is_complete and words is not None else -1

    def __call__(self, tokens: Sequence[str]) -> TokenIds:
        """Convert tokens to ids."""
        words = self.vocabularies.words
        return TokenIds(
            character_ids(tokens, *self.widths) if self.config.n_characters else None,
            None if words is None else words.ids_of(tokens, self.unknown),
        )


class ManyLangsIndexer(TokenIndexer):
    """Indexer for ELMoForManyLangs' models, which read code points, words, or both.

    A word is cut to `max_characters_per_token - 2` characters before it is looked up.
    """

    marks = CODE_POINT_MARKS

    def __init__(self, config: BiLMConfig, vocabularies: Vocabularies):
        super().__init__(config, vocabularies)
        characters, words = vocabularies
        _check_size("characters", characters, config.n_characters, CODE_POINT_SPECIAL)
        _check_size("words", words, config.n_words, ("<oov>", *self.marks))
        self.unknown = -1 if words is None else words["<oov>"]

    def __call__(self, tokens: Sequence[str]) -> TokenIds:
        """Convert tokens to ids."""
        characters, words = self.vocabularies
        end = self.config.max_characters_per_token - 2
        cut = (token if token in self.marks else token[:end] for token in tokens)
        return TokenIds(
            None if characters is None else code_point_ids(tokens, characters, *self.widths),
            None if words is None else words.ids_of(cut, self.unknown),
        )


def _check_size(
    name: str, vocabulary: Optional[InputVocabulary], size: int, special: Sequence[str]
) -> Optional[InputVocabulary]:
    """Check that a vocabulary has one string per embedding and all special strings. Return it."""
    found = 0 if vocabulary is None else len(vocabulary)
    if found != size:
        raise ValueError(
            f"the model has embeddings of {size} {name}, but their vocabulary has {found}. "
            f"Use the vocabulary that belongs to these weights."
        )
    if vocabulary is None:
        return None
    missing = [mark for mark in special if mark not in vocabulary]
    if missing:
        raise ValueError(
            f"the vocabulary of {name} lacks {', '.join(missing)}. Use the one that belongs to "
            f"these weights."
        )
    return vocabulary


def character_ids(
    tokens: Sequence[str], max_characters: int = 50, widest_filter: Optional[int] = None
) -> np.ndarray:
    """Convert tokens to the ids of their UTF-8 bytes, as the public ELMo models read them.

    A row contains a begin-of-word mark, at most `max_characters - 2` bytes, an end-of-word mark,
    and padding. The tokens `<S>` and `</S>` become the ids of the sentence marks.

    tokens (Sequence[str]): Characters that UTF-8 cannot encode are left out.
    widest_filter (Optional[int]): Width of the widest convolution. If it is set, padding that
        cannot change the maximum of a filter is left out.
    RETURNS (numpy.ndarray): Shape `(n_tokens, n_characters)`, int32, ids from 1 to 261.
    """
    # The limit counts bytes, as in AllenNLP and bilm-tf, so it may cut a character in two.
    spelled = [token.encode("utf8", "ignore")[: max_characters - 2] for token in tokens]
    flat = np.frombuffer(b"".join(spelled), dtype="uint8") + np.int32(1)
    ids = _between_marks(flat, spelled, (BOW, EOW, PAD), max_characters, widest_filter)
    for mark, mark_id in ((SENTENCE_START, BOS), (SENTENCE_END, EOS)):
        # The marks were spelled as words above, and would otherwise be read letter by letter.
        for row in (i for i, token in enumerate(tokens) if token == mark):
            ids[row, 1:] = PAD
            ids[row, 1:3] = mark_id, EOW
    return ids


def code_point_ids(
    tokens: Sequence[str], vocabulary: InputVocabulary, max_characters: int, widest_filter: int
) -> np.ndarray:
    """Convert tokens to the ids of their code points, as ELMoForManyLangs' models read them.

    At most `max_characters - 2` code points are read; unknown ones become `<oov>`. A word begins
    with `<eow>` and ends with `<bow>`, because these models were trained with the two names
    swapped. The tokens `<bos>` and `<eos>` are the sentence marks. Padding that cannot change the
    maximum of the widest filter is left out.

    RETURNS (numpy.ndarray): Shape `(n_tokens, n_characters)`, int32.
    """
    spelled = [
        [token] if token in CODE_POINT_MARKS else token[: max_characters - 2] for token in tokens
    ]
    flat = vocabulary.ids_of(chain.from_iterable(spelled), vocabulary["<oov>"])
    marks = (vocabulary["<eow>"], vocabulary["<bow>"], vocabulary["<pad>"])
    return _between_marks(flat, spelled, marks, max_characters, widest_filter)


def _between_marks(
    flat: np.ndarray,
    spelled: Sequence[Sized],
    marks: tuple[int, int, int],
    max_characters: int,
    widest_filter: Optional[int],
) -> np.ndarray:
    """Lay out ids in one row per word: first mark, ids of the word, last mark, padding.

    `flat` has the ids of all words, one word after the other, and `len` of a word is its number of
    ids. Without `widest_filter`, rows have the maximum length. *Shape:* `(n_words, n_columns)`
    """
    first, last, pad = marks
    lengths = np.array([len(word) for word in spelled], dtype="int64")
    n_columns = max_characters
    if widest_filter is not None:
        # Keep one window of padding for every filter, because padding counts for the maximum.
        n_columns = min(max_characters, int(lengths.max(initial=1)) + 2 + widest_filter)
    rows = np.arange(len(lengths))
    ids = np.full((len(lengths), n_columns), pad, dtype="int32")
    starts = np.cumsum(lengths) - lengths
    columns = np.arange(lengths.sum()) - np.repeat(starts, lengths) + 1
    ids[np.repeat(rows, lengths), columns] = flat
    ids[:, 0] = first
    ids[rows, lengths + 1] = last
    return ids
