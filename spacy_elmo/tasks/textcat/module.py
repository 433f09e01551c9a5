"""Biattentive classification network (McCann et al. 2017, section 5) in PyTorch."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from ..shared.recurrent import BidirectionalRNN, VariationalDropout, masked_softmax, pad


class BiattentiveClassifier(nn.Module):
    """Classifier of texts. A text is a sequence of token vectors.

    `x` is a sequence after a ReLU layer:

        h = biLSTM(x)
        A = softmax(h h^T)                    (each row sums to 1)
        y = biLSTM([h ; h - A h ; h * A h])   (the integrator)
        z = [max y ; mean y ; min y ; sum_t softmax(w y + b)_t y_t]

    Maxout layers compute the logits of the classes from z. Other vectors, such as ELMo's, can be
    concatenated with y.

    nI (int): Width of the input.
    nE (int): Width of the vectors that are concatenated with y; 0 for none.
    nO (int): Number of classes.
    """

    def __init__(
        self,
        *,
        nI: int,
        nE: int,
        nO: int,
        hidden_width: int,
        maxout_widths: Sequence[int],
        maxout_pieces: int,
        dropout: float,
    ):
        super().__init__()
        both = 2 * hidden_width
        self.input_dropout = VariationalDropout(dropout)
        self.relu = nn.Linear(nI, hidden_width)
        self.encoder = BidirectionalRNN(hidden_width, both)
        self.integrator = BidirectionalRNN(3 * both, both)
        self.attention = nn.Linear(both + nE, 1)
        pairs = pairwise([4 * (both + nE), *maxout_widths, nO])
        self.layers = nn.ModuleList(nn.Linear(nI, maxout_pieces * nO) for nI, nO in pairs)
        self.maxout_pieces = maxout_pieces
        self.dropout = nn.Dropout(dropout)

    def forward(self, sequences: Sequence[Tensor], joined: Sequence[Tensor] = ()) -> Tensor:
        """Compute the logits of the classes of sequences, `(n_sequences, nO)`.

        sequences (Sequence[Tensor]): They may be empty. *Shape:* `(n_tokens, nI)` each
        joined (Sequence[Tensor]): Vectors to concatenate with y, or none. *Shape:*
            `(n_tokens, nE)` each
        """
        x, mask = pad(sequences)
        encoded = self.encoder(self.relu(self.input_dropout(x)).relu(), mask)
        attended = biattention(encoded, mask)
        features = [encoded, encoded - attended, encoded * attended]
        integrated = self.integrator(torch.cat(features, dim=2), mask)
        if joined:
            integrated = torch.cat([integrated, self.input_dropout(pad(joined)[0])], dim=2)
        hidden = self.pool(integrated, mask)
        for layer in self.layers:
            hidden = layer(self.dropout(hidden)).unflatten(1, (-1, self.maxout_pieces)).amax(dim=2)
        return hidden

    def pool(self, values: Tensor, mask: Tensor) -> Tensor:
        """Pool the tokens of each sequence in four ways: maximum, mean, minimum, self-attention.

        `values` has the shape `(n_sequences, longest, width)`. The mask, `(n_sequences, longest)`,
        is True at tokens. The results are concatenated, and zeros for an empty sequence. *Shape:*
        `(n_sequences, 4 * width)`
        """
        tokens = mask[..., None]
        n_tokens = tokens.sum(dim=1)
        weights = masked_softmax(self.attention(values), tokens, dim=1)
        pools = [
            values.masked_fill(~tokens, -torch.inf).amax(dim=1),
            (values * tokens).sum(dim=1) / n_tokens.clamp(min=1),
            values.masked_fill(~tokens, torch.inf).amin(dim=1),
            (weights * values).sum(dim=1),
        ]
        return torch.cat([pool.masked_fill(n_tokens == 0, 0.0) for pool in pools], dim=1)


def biattention(values: Tensor, mask: Tensor) -> Tensor:
    """Attend from each token to its whole sequence, by dot products: return weighted means.

    values (Tensor): *Shape:* `(n_sequences, longest, width)`, also of the result.
    mask (Tensor): True at the tokens. *Shape:* `(n_sequences, longest)`
    """
    return masked_softmax(values @ values.transpose(1, 2), mask[:, None, :]) @ values
