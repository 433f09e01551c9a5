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
        return self.combine(
            ids,
            lambda characters: self.of_characters(characters, product_dtype),
            lambda vectors: self.project(vectors, product_dtype),
        )

    def combine(
        self,
        ids: TokenIds,
        of_characters: Callable[[Tensor], Tensor],
        project: Callable[[Tensor], Tensor],
    ) -> Tensor:
        """Put the parts together, of which two may be computed in another way.

        ids (TokenIds): What `indexer` gives, as tensors.
        of_characters (Callable[[Tensor], Tensor]): As the method of this name.
        project (Callable[[Tensor], Tensor]): As the method of this name.
        RETURNS (Tensor): *Shape:* `(n_tokens, P)`
        """
        characters, words = (cast(Optional[Tensor], part) for part in ids)
        if self.words is None or words is None:
            assert characters is not None
            return project(of_characters(characters))
        if characters is None:
            return project(self.words(words))
        if not self.are_ready_made:
            return project(torch.cat([self.words(words), of_characters(characters)], dim=1))
        vectors = self.words(words.clamp(min=0))
        unknown = (words < 0).nonzero().squeeze(1)
        if not len(unknown):
            return cast(Tensor, vectors)
        computed = project(of_characters(characters.index_select(0, unknown)))
        return cast(Tensor, vectors.index_copy(0, unknown, computed))
