"""The token encoder: a character CNN, highways and a projection."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .characters import N_CHARACTERS
from .config import BiLMConfig


class Highway(nn.Module):
    """Highway layer (Srivastava et al. 2015): `y = g * relu(W x + b) + (1 - g) * x`
    with the transform gate `g = sigmoid(W_g x + b_g)`."""

    def __init__(self, *, width: int):
        super().__init__()
        self.gate = nn.Linear(width, width)
        self.nonlinear = nn.Linear(width, width)
        for linear, bias in ((self.gate, -2.0), (self.nonlinear, 0.0)):
            nn.init.normal_(linear.weight, std=math.sqrt(1.0 / width))
            nn.init.constant_(linear.bias, bias)

    def forward(self, inputs: Tensor) -> Tensor:
        """
        inputs (Tensor): *Shape:* `(n, F)`
        RETURNS (Tensor): *Shape:* `(n, F)`
        """
        gate = torch.sigmoid(self.gate(inputs))
        return gate * F.relu(self.nonlinear(inputs)) + (1.0 - gate) * inputs


class CharacterCNN(nn.Module):
    """Token vectors from characters (Kim et al. 2016; Jozefowicz et al. 2016):
    every filter is convolved with all positions, padding included, and its
    maximum over positions goes through the activation; the concatenation goes
    through the highways and, unless it has the right width, a projection.

    Starting values are bilm-tf's.
    """

    def __init__(self, config: BiLMConfig):
        super().__init__()
        self.activation = torch.tanh if config.activation == "tanh" else F.relu
        self.embedding = nn.Embedding(N_CHARACTERS, config.char_embed_dim, padding_idx=0)
        convolutions = [
            nn.Conv1d(config.char_embed_dim, number, width) for width, number in config.filters
        ]
        self.convolutions = nn.ModuleList(convolutions)
        self.highways = nn.ModuleList(
            Highway(width=config.n_filters) for _ in range(config.n_highway)
        )
        self.projection = None
        if config.n_filters != config.projection_dim:
            self.projection = nn.Linear(config.n_filters, config.projection_dim)
        with torch.no_grad():
            self.embedding.weight[1:].uniform_(-1.0, 1.0)
        for convolution in convolutions:
            if config.activation == "relu":
                nn.init.uniform_(convolution.weight, -0.05, 0.05)
            else:
                fan_in = convolution.weight[0].numel()
                nn.init.normal_(convolution.weight, std=math.sqrt(1.0 / fan_in))
            convolution.bias.data.zero_()  # type: ignore[union-attr]
        if self.projection is not None:
            nn.init.normal_(self.projection.weight, std=math.sqrt(1.0 / config.n_filters))
            nn.init.zeros_(self.projection.bias)

    def forward(self, character_ids: Tensor) -> Tensor:
        """
        character_ids (Tensor): *Shape:* `(n_tokens, n_characters)`, integers
        RETURNS (Tensor): *Shape:* `(n_tokens, P)`
        """
        characters = self.embedding(character_ids).transpose(1, 2)
        pooled = [convolution(characters).amax(dim=2) for convolution in self.convolutions]
        vectors = self.activation(torch.cat(pooled, dim=1))
        for highway in self.highways:
            vectors = highway(vectors)
        return vectors if self.projection is None else self.projection(vectors)
