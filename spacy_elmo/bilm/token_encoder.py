"""Token encoder: context-free vectors of token strings, from characters and words."""

from typing import Optional, cast

import torch
from torch import Tensor, nn

from ..frozen.config import BiLMConfig
from ..frozen.indexers import TokenIds, make_indexer
from ..frozen.vocabulary import Vocabularies
from .char_cnn import CharacterCNN


class TokenEncoder(CharacterCNN):
    """Token encoder: computes context-free vectors with a character CNN, word embeddings, or both.

    If a model has both, bilm-tf uses the CNN only for words without a ready-made vector.
    ELMoForManyLangs projects `[word ; characters]` for every token.

    config (BiLMConfig): The sizes.
    vocabularies (Vocabularies): The ids of words and code points.
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
        """Compute the context-free vectors of tokens.

        ids (TokenIds): Ids from the encoder's indexer, as tensors.
        product_dtype (Optional[torch.dtype]): Type of the matrix products of highways and
            projection. Default: the type of the weights.
        RETURNS (Tensor): *Shape:* `(n_tokens, P)`
        """
        characters, word_ids = (cast(Optional[Tensor], part) for part in ids)
        if self.words is None or word_ids is None:
            assert characters is not None
            return self.project(self.of_characters(characters, product_dtype), product_dtype)
        if characters is None:
            return self.project(self.words(word_ids), product_dtype)
        if not self.are_ready_made:
            both = [self.words(word_ids), self.of_characters(characters, product_dtype)]
            return self.project(torch.cat(both, dim=1), product_dtype)
        vectors = cast(Tensor, self.words(word_ids.clamp(min=0)))
        unknown = (word_ids < 0).nonzero().squeeze(1)
        if not len(unknown):
            return vectors
        spelled = self.of_characters(characters.index_select(0, unknown), product_dtype)
        return vectors.index_copy(0, unknown, self.project(spelled, product_dtype))
