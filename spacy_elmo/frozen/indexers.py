"""What a token encoder reads of a token string: ids of characters and words."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Optional, Union

import numpy as np

from .characters import CODE_POINT_MARKS, CODE_POINT_SPECIAL, character_ids, code_point_ids
from .config import BiLMConfig
from .vocabulary import SENTENCE_END, SENTENCE_START, UNKNOWN, InputVocabulary, Vocabularies

if TYPE_CHECKING:
    from torch import Tensor


class TokenIds(NamedTuple):
    """Ids of tokens, as arrays or tensors.

    characters (Union[numpy.ndarray, Tensor, None]): *Shape:* `(n_tokens, n_characters)`
    words (Union[numpy.ndarray, Tensor, None]): -1 for words without a vector of
        their own. *Shape:* `(n_tokens,)`
    """

    characters: Union[np.ndarray, "Tensor", None]
    words: Union[np.ndarray, "Tensor", None]


class TokenIndexer:
    """How a model reads token strings.

    config (BiLMConfig): The sizes.
    vocabularies (Vocabularies): What it looks up.
    RAISES (ValueError): The vocabularies do not fit the sizes, or lack a mark.
    """

    marks: tuple[str, str]  # what it is given at the start and the end of a sentence

    def __init__(self, config: BiLMConfig, vocabularies: Vocabularies):
        self.config = config
        self.vocabularies = vocabularies
        self.widths = (config.max_characters_per_token, config.widest_filter)

    def __call__(self, tokens: Sequence[str]) -> TokenIds:
        """
        tokens (Sequence[str]): Token strings.
        RETURNS (TokenIds): Their ids, as arrays.
        """
        raise NotImplementedError


def make_indexer(config: BiLMConfig, vocabularies: Vocabularies) -> TokenIndexer:
    """RETURNS (TokenIndexer): The indexer that a config asks for; the arguments are its own."""
    make = BilmTfIndexer if config.token_encoder == "bilm-tf" else ManyLangsIndexer
    return make(config, vocabularies)


class BilmTfIndexer(TokenIndexer):
    """UTF-8 bytes, word ids, or both: words of the vocabulary are ready-made then."""

    marks = (SENTENCE_START, SENTENCE_END)

    def __init__(self, config: BiLMConfig, vocabularies: Vocabularies):
        super().__init__(config, vocabularies)
        _check_size("characters", vocabularies.characters, 0, ())
        is_complete = bool(config.n_words and not config.n_characters)
        special = (*self.marks, UNKNOWN) if is_complete else ()
        words = _check_size("words", vocabularies.words, config.n_words, special)
        self.unknown = words[UNKNOWN] if is_complete and words is not None else -1

    def __call__(self, tokens: Sequence[str]) -> TokenIds:
        words = self.vocabularies.words
        return TokenIds(
            character_ids(tokens, *self.widths) if self.config.n_characters else None,
            None if words is None else words.ids_of(tokens, self.unknown),
        )


class ManyLangsIndexer(TokenIndexer):
    """Code points, word ids, or both. Words are looked up as far as they are read."""

    marks = CODE_POINT_MARKS

    def __init__(self, config: BiLMConfig, vocabularies: Vocabularies):
        super().__init__(config, vocabularies)
        characters, words = vocabularies
        _check_size("characters", characters, config.n_characters, CODE_POINT_SPECIAL)
        _check_size("words", words, config.n_words, ("<oov>", *self.marks))
        self.unknown = -1 if words is None else words["<oov>"]

    def __call__(self, tokens: Sequence[str]) -> TokenIds:
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
    """That a vocabulary is there if it is needed, of the right size, with every mark."""
    found = 0 if vocabulary is None else len(vocabulary)
    if found != size:
        raise ValueError(
            f"the model has embeddings of {size} {name}, but the vocabulary given for them "
            f"holds {found}"
        )
    if vocabulary is None:
        return None
    missing = [mark for mark in special if mark not in vocabulary]
    if missing:
        raise ValueError(f"the vocabulary of {name} lacks {', '.join(missing)}")
    return vocabulary
