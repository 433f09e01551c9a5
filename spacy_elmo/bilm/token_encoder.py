"""Token encoder: context-free vectors of token strings, from characters and words.

The convolution and its maximum over positions are one operation of autograd. A batch has few
different characters, but many windows (positions of a filter). So each character is multiplied once
with each tap (column of weights) of the filters, which gives a table. For the window at position p
of token n, the value is a sum of rows from this table:

    value[n, p] = sum over taps t of table[t, index[n, p + t]] + bias
    table[t, c] = weight[t] characters[c]

The gradient of a maximum goes to the first position with this value, and from there to one row of
the table per tap. So the backward pass needs only these positions, not the values of all windows.
"""

import math
from collections.abc import Iterable
from typing import Any, Optional, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ..model.config import BiLMConfig
from ..model.indexers import TokenIds, make_indexer
from ..model.vocabulary import Vocabularies
from .precision import linear

# Number of tokens per convolution, which callers sort by length.
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
        # The negative bias closes the gate at first, so a new layer passes its input on. It is the
        # value of bilm-tf.
        for layer, bias in ((self.gate, -2.0), (self.nonlinear, 0.0)):
            nn.init.normal_(layer.weight, std=math.sqrt(1.0 / width))
            nn.init.constant_(layer.bias, bias)

    def forward(self, inputs: Tensor, product_dtype: Optional[torch.dtype] = None) -> Tensor:
        """Apply the layer to vectors of tokens. *Shape:* `(n, F)`.

        product_dtype (Optional[torch.dtype]): Type of matrix products; None: the weights' type.
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

    def encode_characters(
        self, character_ids: Tensor, product_dtype: Optional[torch.dtype] = None
    ) -> Tensor:
        """Encode tokens by their characters: convolutions, maxima, activation and highways.

        character_ids (Tensor): Integers. *Shape:* `(n_tokens, n_characters)`
        product_dtype (Optional[torch.dtype]): Type of highway products; None: the weights' type.
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

        vectors (Tensor): *Shape:* `(n_tokens, projected_width)`; without projection `(n_tokens, P)`
        product_dtype (Optional[torch.dtype]): Type of the product; None: the weights' type.
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

    RETURNS (Tuple[Tensor, Tensor]): The different ids (on a GPU sometimes the whole vocabulary),
        and for each id of the input its index among them.
    """
    if character_ids.is_cpu or n_characters > ALL_CHARACTERS:
        used, index = torch.unique(character_ids, return_inverse=True)
        return used, index
    return torch.arange(n_characters, device=character_ids.device), character_ids.long()


class TokenEncoder(CharacterCNN):
    """Token encoder: computes context-free vectors with a character CNN, word embeddings, or both.

    If a model has both, bilm-tf uses the CNN only for words without a ready-made vector.
    ELMoForManyLangs projects `[word ; characters]` for every token.

    RAISES (ValueError): The vocabularies do not fit the sizes.
    """

    def __init__(self, config: BiLMConfig, vocabularies: Vocabularies):
        super().__init__(config)
        self.indexer = make_indexer(config, vocabularies)
        self.uses_word_table = config.token_encoder == "bilm-tf"
        self.words: Optional[nn.Embedding] = None
        if config.n_words:
            self.words = nn.Embedding(config.n_words, config.word_embed_dim)

    def forward(self, ids: TokenIds, product_dtype: Optional[torch.dtype] = None) -> Tensor:
        """Compute the context-free vectors of tokens.

        product_dtype (Optional[torch.dtype]): Type of the products of highways and projection;
            None: the weights' type.
        RETURNS (Tensor): *Shape:* `(n_tokens, P)`
        """
        characters, word_ids = (cast(Optional[Tensor], part) for part in ids)
        if self.words is None or word_ids is None:
            assert characters is not None
            return self.project(self.encode_characters(characters, product_dtype), product_dtype)
        if characters is None:
            return self.project(self.words(word_ids), product_dtype)
        if not self.uses_word_table:
            both = [self.words(word_ids), self.encode_characters(characters, product_dtype)]
            return self.project(torch.cat(both, dim=1), product_dtype)
        # A word without an embedding has the id -1. It reads row 0, and is replaced below.
        vectors = cast(Tensor, self.words(word_ids.clamp(min=0)))
        unknown = (word_ids < 0).nonzero().squeeze(1)
        if not len(unknown):
            return vectors
        spelled = self.encode_characters(characters.index_select(0, unknown), product_dtype)
        return vectors.index_copy(0, unknown, self.project(spelled, product_dtype))


class ConvolutionMaximum(torch.autograd.Function):
    """Autograd operation: the maximum of each filter over all positions of a token.

    *Shapes:* character embeddings `(C, E)`; `index`, the row of the embeddings for each of the T
    characters of a token, `(n, T)`; weight `(F, E, width)` as in PyTorch's `Conv1d`; bias `(F,)`.
    The result is `(n, F)`.
    """

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, characters: Tensor, index: Tensor, weight: Tensor, bias: Tensor
    ) -> Tensor:
        """Compute the maxima."""
        taps = weight.permute(2, 1, 0).contiguous()  # *Shape:* `(width, E, F)`
        values = _values(torch.matmul(characters, taps), index)
        best, positions = _maximum(values) if values.is_cpu else values.max(dim=1)
        ctx.save_for_backward(characters, index, taps, positions)
        # The bias is the same for all positions, so it is added once, after the maximum.
        return best.add_(bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Optional[Tensor], ...]:  # type: ignore[override]
        """Compute the gradients of the character embeddings, the weight and the bias."""
        characters, index, taps, positions = ctx.saved_tensors
        d_table = grad.new_zeros(len(taps), len(characters), grad.shape[1])
        columns = positions.to(torch.int64, copy=True)
        for of_tap in d_table:
            of_tap.scatter_add_(0, index.gather(1, columns), grad)
            # After the last tap, the index could be out of range.
            columns.add_(1).clamp_(max=index.shape[1] - 1)
        d_characters = d_weight = None
        if ctx.needs_input_grad[0]:
            d_characters = torch.matmul(d_table, taps.transpose(1, 2)).sum(dim=0)
        if ctx.needs_input_grad[2]:
            d_weight = torch.matmul(characters.t(), d_table).permute(2, 1, 0)
        return d_characters, None, d_weight, grad.sum(dim=0)


def _maximum(values: Tensor) -> tuple[Tensor, Tensor]:
    """Compute `values.max(dim=1)`, but faster on a CPU. The positions are returned as floats."""
    best = values[:, 0].clone()
    # Store positions as floats, because floats are several times as fast as integers here.
    positions, is_higher = torch.zeros_like(best), torch.empty_like(best)
    for position in range(1, values.shape[1]):
        here = values[:, position]
        torch.gt(here, best, out=is_higher)
        torch.maximum(positions, is_higher.mul_(position), out=positions)
        torch.maximum(best, here, out=best)
    return best, positions


def _values(table: Tensor, index: Tensor) -> Tensor:
    """Compute the value of each filter in each window, without bias: a sum of rows of the table.

    table (Tensor): Products of each character with the filters, per tap. *Shape:* `(width, C, F)`
    index (Tensor): Index into axis C of the table, for each character. *Shape:* `(n, T)`
    RETURNS (Tensor): *Shape:* `(n, T - width + 1, F)`
    """
    width, n_characters, n_filters = table.shape
    windows = index.unfold(1, width, 1) + torch.arange(width, device=index.device) * n_characters
    sums = F.embedding_bag(windows.flatten(0, 1), table.flatten(0, 1), mode="sum")
    return sums.view(*windows.shape[:2], n_filters)
