"""Indexers: convert tokens to the ids of characters and words that a token encoder reads."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Optional, Union

import numpy as np

from .characters import CODE_POINT_MARKS, CODE_POINT_SPECIAL, character_ids, code_point_ids
from .config import BiLMConfig
from .vocabulary import SENTENCE_END, SENTENCE_START, UNKNOWN, InputVocabulary, Vocabularies

if TYPE_CHECKING:
    from torch import Tensor


class TokenIds(NamedTuple):
    """Ids that a token encoder reads, as arrays or tensors.

    characters (Union[numpy.ndarray, Tensor, None]): Character ids; None if the model reads only
        words. *Shape:* `(n_tokens, n_characters)`
    words (Union[numpy.ndarray, Tensor, None]): Word ids, -1 for a word without an embedding; None
        if the model reads only characters. *Shape:* `(n_tokens,)`
    """

    characters: Union[np.ndarray, "Tensor", None]
    words: Union[np.ndarray, "Tensor", None]


class TokenIndexer:
    """Base class of indexers, which convert tokens to ids of characters and words.

    Each subclass is for one kind of token encoder.

    config (BiLMConfig): The sizes.
    vocabularies (Vocabularies): The ids of words and code points.
    RAISES (ValueError): A vocabulary has another size than its embeddings, or lacks a special word
        such as the mark `<S>`.
    """

    marks: tuple[str, str]  # Marks at the start and the end of a sentence.

    def __init__(self, config: BiLMConfig, vocabularies: Vocabularies):
        self.config = config
        self.vocabularies = vocabularies
        self.widths = (config.max_characters_per_token, config.widest_filter)

    def __call__(self, tokens: Sequence[str]) -> TokenIds:
        """Convert tokens to ids.

        tokens (Sequence[str]): Token strings.
        RETURNS (TokenIds): The ids, as arrays.
        """
        raise NotImplementedError


def make_indexer(config: BiLMConfig, vocabularies: Vocabularies) -> TokenIndexer:
    """Make the indexer for the token encoder of a config.

    config (BiLMConfig): The sizes.
    vocabularies (Vocabularies): The ids of words and code points.
    RETURNS (TokenIndexer): The indexer.
    """
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
    """Check that a vocabulary fits the weights, and return it.

    name (str): "characters" or "words", for error messages.
    vocabulary (Optional[InputVocabulary]): The vocabulary; None for size 0.
    size (int): Number of embeddings in the weights.
    special (Sequence[str]): Strings that the vocabulary must contain.
    RAISES (ValueError): The vocabulary has another size, or lacks one of the strings.
    """
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
