"""Character CNN with highway layers, and the projection of the token encoder."""

import math
from collections.abc import Iterable
from typing import Optional, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..frozen.config import BiLMConfig
from .convolution import ConvolutionMaximum
from .linear import linear

# Number of tokens per convolution. Callers sort tokens by length.
CONVOLVED_TOKENS = 256
# Up to this vocabulary size, a GPU computes all characters. A search for the characters that occur
# would make the CPU wait for the GPU.
ALL_CHARACTERS = 512


class Highway(nn.Module):
    """Highway layer (Srivastava et al. 2015).

    `y = g * relu(W x + b) + (1 - g) * x`, with the transform gate `g = sigmoid(W_g x + b_g)`.
    """

    def __init__(self, *, width: int):
        super().__init__()
        self.gate = nn.Linear(width, width)
        self.nonlinear = nn.Linear(width, width)
        for layer, bias in ((self.gate, -2.0), (self.nonlinear, 0.0)):
            nn.init.normal_(layer.weight, std=math.sqrt(1.0 / width))
            nn.init.constant_(layer.bias, bias)

    def forward(self, inputs: Tensor, product_dtype: Optional[torch.dtype] = None) -> Tensor:
        """Apply the layer to vectors of tokens.

        inputs (Tensor): *Shape:* `(n, F)`
        product_dtype (Optional[torch.dtype]): Type of matrix products. Default: the type of the
            weights.
        RETURNS (Tensor): *Shape:* `(n, F)`
        """
        gate = torch.sigmoid(linear(inputs, self.gate, product_dtype))
        return torch.lerp(inputs, F.relu(linear(inputs, self.nonlinear, product_dtype)), gate)


class CharacterCNN(nn.Module):
    """Character CNN, which encodes tokens (Kim et al. 2016; Jozefowicz et al. 2016).

    Each filter is applied to all positions, including padding. The maxima over the positions go
    through the activation, the highways and, if the sizes require it, a projection. Weights are
    initialized as in bilm-tf.
    """

    def __init__(self, config: BiLMConfig):
        super().__init__()
        self.widest_filter = config.widest_filter
        self.activation = torch.tanh if config.activation == "tanh" else F.relu
        self.embedding: Optional[nn.Embedding] = None
        if config.n_characters:
            # For bytes, row 0 is a masked position. Code points have no masked position.
            masked = 0 if config.token_encoder == "bilm-tf" else None
            self.embedding = nn.Embedding(
                config.n_characters, config.char_embed_dim, padding_idx=masked
            )
        convolutions = [
            nn.Conv1d(config.char_embed_dim, number, width) for width, number in config.filters
        ]
        self.convolutions = nn.ModuleList(convolutions)
        self.highways = nn.ModuleList(
            Highway(width=config.n_filters) for _ in range(config.n_highway)
        )
        self.projection: Optional[nn.Linear] = None
        if config.projected_width:
            self.projection = nn.Linear(config.projected_width, config.projection_dim)
        if self.embedding is not None:
            with torch.no_grad():
                first = 0 if self.embedding.padding_idx is None else 1
                self.embedding.weight[first:].uniform_(-1.0, 1.0)
        for convolution in convolutions:
            if config.activation == "relu":
                nn.init.uniform_(convolution.weight, -0.05, 0.05)
            else:
                fan_in = convolution.weight[0].numel()
                nn.init.normal_(convolution.weight, std=math.sqrt(1.0 / fan_in))
            convolution.bias.data.zero_()  # type: ignore[union-attr]
        if self.projection is not None:
            nn.init.normal_(self.projection.weight, std=math.sqrt(1.0 / config.projected_width))
            nn.init.zeros_(self.projection.bias)

    def of_characters(
        self, character_ids: Tensor, product_dtype: Optional[torch.dtype] = None
    ) -> Tensor:
        """Encode tokens by their characters: convolutions, maxima, activation and highways.

        character_ids (Tensor): Integers. *Shape:* `(n_tokens, n_characters)`
        product_dtype (Optional[torch.dtype]): Type of the matrix products of the highways.
            Default: the type of the weights.
        RETURNS (Tensor): *Shape:* `(n_tokens, F)`
        """
        # Convolve parts of the tokens, so that a long token does not add padding to all others.
        # Highways are fastest over all tokens at once.
        parts = character_ids.split(CONVOLVED_TOKENS) if character_ids.is_cpu else [character_ids]
        vectors = self.activation(torch.cat([self._pooled(part) for part in parts]))
        for highway in self.highways:
            vectors = highway(vectors, product_dtype)
        return vectors

    def _pooled(self, character_ids: Tensor) -> Tensor:
        """Compute the maximum of each filter over each token. *Shape:* `(n_tokens, F)`."""
        assert self.embedding is not None
        if character_ids.is_cpu:
            character_ids = _without_padding(character_ids, self.widest_filter)
        used, index = different(character_ids, self.embedding.num_embeddings)
        characters = self.embedding(used)
        convolutions = cast(Iterable[nn.Conv1d], self.convolutions)
        pooled = [
            ConvolutionMaximum.apply(characters, index, each.weight, each.bias)
            for each in convolutions
        ]
        return torch.cat(pooled, dim=1)

    def project(self, vectors: Tensor, product_dtype: Optional[torch.dtype] = None) -> Tensor:
        """Apply the projection, if the model has one.

        vectors (Tensor): *Shape:* `(n_tokens, projected_width)`, or `(n_tokens, P)` without a
            projection
        product_dtype (Optional[torch.dtype]): Type of the matrix product. Default: the type of the
            weights.
        RETURNS (Tensor): *Shape:* `(n_tokens, P)`
        """
        if self.projection is None:
            return vectors
        return linear(vectors, self.projection, product_dtype)


def _without_padding(character_ids: Tensor, widest: int) -> Tensor:
    """Drop padding: the columns at the end in which every token repeats its last id.

    Enough of these columns stay for one window of the widest filter. The other windows would have
    the same values.
    """
    if not len(character_ids):
        return character_ids
    differs = (character_ids != character_ids[:, -1:]).any(dim=0).nonzero()
    end = int(differs[-1]) + 1 if len(differs) else 0
    return character_ids[:, : end + widest]


def different(character_ids: Tensor, n_characters: int) -> tuple[Tensor, Tensor]:
    """Find the different character ids, so that each one is computed only once.

    character_ids (Tensor): Ids. Any shape.
    n_characters (int): Size of the vocabulary.
    RETURNS (Tuple[Tensor, Tensor]): The different ids (on a GPU sometimes all ids of the
        vocabulary), and for each id of the input its index among them.
    """
    if character_ids.is_cpu or n_characters > ALL_CHARACTERS:
        used, index = torch.unique(character_ids, return_inverse=True)
        return used, index
    return torch.arange(n_characters, device=character_ids.device), character_ids.long()
