"""The token encoder: context-free vectors of token strings, from characters and words."""

from collections.abc import Callable
from typing import Optional, cast

import torch
from torch import Tensor, nn

from .char_cnn import CharacterCNN
from .config import BiLMConfig
from .indexers import TokenIds, make_indexer
from .vocabulary import Vocabularies


class TokenEncoder(CharacterCNN):
    """A character CNN, word embeddings, or both, as the config says: ready-made
    vectors of known words in place of the CNN's (bilm-tf), or `[word ; characters]`,
    projected (ELMoForManyLangs).

    config (BiLMConfig): The sizes.
    vocabularies (Vocabularies): Its words and code points, if it has any.
    RAISES (ValueError): The vocabularies do not fit the sizes.
    """

    def __init__(self, config: BiLMConfig, vocabularies: Vocabularies):
        super().__init__(config)
        self.indexer = make_indexer(config, vocabularies)
        self.are_ready_made = config.token_encoder == "bilm-tf"
        self.words: Optional[nn.Embedding] = None
        if config.n_words:
            self.words = nn.Embedding(config.n_words, config.word_embed_dim)

    def forward(self, ids: TokenIds, product_dtype: Optional[torch.dtype] = None) -> Tensor:
        """
        ids (TokenIds): What `indexer` gives, as tensors.
        product_dtype (Optional[torch.dtype]): Type of the products of highways and
            projection, if not the weights' own.
        RETURNS (Tensor): *Shape:* `(n_tokens, P)`
        """
        return combine(
            ids,
            self.words,
            lambda characters: self.of_characters(characters, product_dtype),
            lambda vectors: self.project(vectors, product_dtype),
            are_ready_made=self.are_ready_made,
        )


def combine(
    ids: TokenIds,
    words: Optional[nn.Embedding],
    of_characters: Callable[[Tensor], Tensor],
    project: Callable[[Tensor], Tensor],
    *,
    are_ready_made: bool,
) -> Tensor:
    """Put the parts of a token encoder together, of which two may be computed in another way.

    ids (TokenIds): What the encoder's indexer gives, as tensors.
    words (Optional[nn.Embedding]): The encoder's.
    of_characters (Callable[[Tensor], Tensor]): As the method of this name.
    project (Callable[[Tensor], Tensor]): As the method of this name.
    are_ready_made (bool): The vectors of words need no projection.
    RETURNS (Tensor): *Shape:* `(n_tokens, P)`
    """
    characters, word_ids = (cast(Optional[Tensor], part) for part in ids)
    if words is None or word_ids is None:
        assert characters is not None
        return project(of_characters(characters))
    if characters is None:
        return project(words(word_ids))
    if not are_ready_made:
        return project(torch.cat([words(word_ids), of_characters(characters)], dim=1))
    vectors = words(word_ids.clamp(min=0))
    unknown = (word_ids < 0).nonzero().squeeze(1)
    if not len(unknown):
        return cast(Tensor, vectors)
    computed = project(of_characters(characters.index_select(0, unknown)))
    return cast(Tensor, vectors.index_copy(0, unknown, computed))
