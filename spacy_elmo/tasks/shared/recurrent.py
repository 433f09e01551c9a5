"""Recurrent layers and attention over padded sequences, in PyTorch."""

from collections.abc import Sequence
from typing import Optional

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from .lockstep import run_gru

RNNS = {"lstm": nn.LSTM, "gru": nn.GRU}


def pad(sequences: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Pad sequences to the length of the longest, which counts as 1 at least.

    sequences (Sequence[Tensor]): `(n_tokens, width)` each, one or more.
    RETURNS (Tuple[Tensor, Tensor]): `(n_sequences, longest, width)`, and a mask,
        `(n_sequences, longest)`, True at the tokens.
    """
    longest = max(1, max(len(x) for x in sequences))
    lengths = torch.tensor([len(x) for x in sequences], device=sequences[0].device)
    mask = torch.arange(longest, device=lengths.device) < lengths[:, None]
    # The backward pass of PyTorch's `pad_sequence` copies all of the gradient for each sequence.
    return _spread(torch.cat(list(sequences)), mask), mask


def _spread(items: Tensor, mask: Tensor) -> Tensor:
    """RETURNS (Tensor): Tokens, `(n_tokens, width)`, where the mask is True; zeros elsewhere.
    *Shape:* `(n_sequences, longest, width)`"""
    padded = items.new_zeros(mask.numel(), items.shape[1])
    places = mask.flatten().nonzero().squeeze(1)
    return padded.index_copy(0, places, items).unflatten(0, mask.shape)


class BidirectionalRNN(nn.Module):
    """A recurrent layer that reads both ways.

    nI (int): Width of the input.
    nO (int): Width of the output, half of it from each direction.
    cell (str): "lstm" or "gru".
    """

    def __init__(self, nI: int, nO: int, cell: str = "lstm"):
        super().__init__()
        self.rnn = RNNS[cell](nI, nO // 2, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x (Tensor): *Shape:* `(n_sequences, longest, nI)`
        mask (Tensor): As `pad` returns it. A sequence without tokens is allowed.
        RETURNS (Tensor): Zeros behind the tokens. *Shape:* `(n_sequences, longest, nO)`
        """
        if isinstance(self.rnn, nn.GRU) and torch.is_grad_enabled() and x.device.type == "cpu":
            return _spread(run_gru(self.rnn, x[mask], mask.sum(1).tolist()), mask)
        return self.run_of_pytorch(x, mask)

    def run_of_pytorch(self, x: Tensor, mask: Tensor) -> Tensor:
        """The same by PyTorch's own layer: slower only in a GRU's training on a processor."""
        lengths = mask.sum(1).clamp(min=1).cpu()
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        outputs: Tensor
        outputs, _ = pad_packed_sequence(
            self.rnn(packed)[0], batch_first=True, total_length=x.shape[1]
        )
        return outputs * mask[..., None]


class VariationalDropout(nn.Module):
    """Dropout with one mask for all tokens of a sequence (Gal and Ghahramani 2016).

    rate (float): Probability of a zero.
    """

    def __init__(self, rate: float):
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """x (Tensor): *Shape:* `(n_sequences, longest, width)`
        RETURNS (Tensor): The same shape.
        """
        if not self.training or not self.rate:
            return x
        kept = x.new_empty(len(x), 1, x.shape[2]).bernoulli_(1.0 - self.rate)
        return x * kept / (1.0 - self.rate)


def masked_softmax(scores: Tensor, mask: Optional[Tensor], dim: int = -1) -> Tensor:
    """Softmax over the positions that a mask allows; zeros where it allows none.

    scores (Tensor): Any shape.
    mask (Optional[Tensor]): True where allowed; broadcast over the scores.
    dim (int): The dimension to sum over.
    RETURNS (Tensor): The shape of the scores.
    """
    if mask is None:
        return scores.softmax(dim)
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, lowest).softmax(dim) * mask
