"""Recurrent layers and attention over padded sequences, in PyTorch.

On a CPU, PyTorch trains a GRU slowly: autograd records each step of each direction. `run_gru`
computes a step of both directions at once, with batched products. This halves the time of an update
of `elmo_qa` with 12 contexts of 140 tokens. Autograd computes the backward pass. Our own backward
pass would only save another tenth. For LSTMs, PyTorch's own layer is as fast.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from .text_layer import by_padded

RNNS = {"lstm": nn.LSTM, "gru": nn.GRU}
MAX_RNN_TOKENS = 4096  # Maximum tokens in a batch of `run_in_groups`, including padding.


def pad(sequences: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Pad sequences to the length of the longest one, or to 1 if all are empty.

    sequences (Sequence[Tensor]): At least one. *Shape:* `(n_tokens, width)` each
    RETURNS (Tuple[Tensor, Tensor]): Padded sequences, `(n_sequences, longest, width)`; and a mask
        that is True at tokens, `(n_sequences, longest)`.
    """
    longest = max(1, max(len(x) for x in sequences))
    lengths = torch.tensor([len(x) for x in sequences], device=sequences[0].device)
    mask = torch.arange(longest, device=lengths.device) < lengths[:, None]
    # The backward pass of PyTorch's `pad_sequence` copies the whole gradient for each sequence.
    items = torch.cat(list(sequences))
    padded = items.new_zeros(mask.numel(), items.shape[1])
    places = mask.flatten().nonzero().squeeze(1)
    return padded.index_copy(0, places, items).unflatten(0, mask.shape), mask


class BidirectionalRNN(nn.Module):
    """Recurrent layer that reads in both directions.

    nO (int): Width of the output, half of it from each direction.
    cell (str): "lstm" or "gru".
    """

    def __init__(self, nI: int, nO: int, cell: str = "lstm"):
        super().__init__()
        self.rnn = RNNS[cell](nI, nO // 2, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Compute the outputs of padded sequences.

        x (Tensor): *Shape:* `(n_sequences, longest, nI)`
        mask (Tensor): The mask of `pad`. A sequence may be empty.
        RETURNS (Tensor): Zeros at the padding. *Shape:* `(n_sequences, longest, nO)`
        """
        if isinstance(self.rnn, nn.GRU) and torch.is_grad_enabled() and x.device.type == "cpu":
            return run_gru(self.rnn, x, mask)
        return self.run_of_pytorch(x, mask)

    def run_of_pytorch(self, x: Tensor, mask: Tensor) -> Tensor:
        """Compute the outputs of padded sequences with PyTorch's own layer."""
        # PyTorch refuses empty sequences. The mask removes the output of the padding below.
        lengths = mask.sum(1).clamp(min=1).cpu()
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        y, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True, total_length=x.shape[1])
        return y * mask[..., None]

    def run_in_groups(
        self, sequences: Sequence[Tensor], dropout: Callable[[Tensor], Tensor] = lambda x: x
    ) -> list[Tensor]:
        """Compute the outputs in groups of sequences of similar length, to limit memory.

        sequences (Sequence[Tensor]): `(n_tokens, nI)` each; the result has `(n_tokens, nO)`.
        dropout (Callable[[Tensor], Tensor]): Dropout of the padded input.
        """
        outputs = list(sequences)
        for group in by_padded([[len(one)] for one in sequences], MAX_RNN_TOKENS):
            padded, mask = pad([sequences[i] for i in group])
            for i, row in zip(group, self(dropout(padded), mask)):
                outputs[i] = row[: len(sequences[i])]
        return outputs


def run_gru(rnn: nn.GRU, x: Tensor, mask: Tensor) -> Tensor:
    """Compute the outputs of a bidirectional GRU, with the shapes of `BidirectionalRNN`."""
    n, longest, _ = x.shape
    input_weights, weights, input_biases, biases = (
        torch.stack([getattr(rnn, f"{name}_l0{direction}") for direction in ("", "_reverse")])
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    # Reverse the tokens of each sequence, but keep its padding at the end.
    steps = torch.arange(longest)
    turned = torch.where(mask, mask.sum(1, keepdim=True) - 1 - steps, steps)
    backwards = (turned + longest * torch.arange(n)[:, None]).flatten()
    rows = x.flatten(0, 1)
    rows = torch.stack([rows, rows.index_select(0, backwards)])
    products = torch.baddbmm(input_biases[:, None], rows, input_weights.mT)
    # PyTorch concatenates three blocks: the gates r and z, and the candidate.
    blocks = [2 * rnn.hidden_size, rnn.hidden_size]
    gate_weights, weights = weights.mT.split(blocks, dim=2)
    gate_biases, biases = biases[:, None].split(blocks, dim=2)
    gates, candidates = products.unflatten(1, (n, longest)).split(blocks, dim=3)
    gates = gates + gate_biases[:, None]
    hidden = x.new_zeros(2, n, rnn.hidden_size)
    found = []
    for gate, candidate in zip(gates.unbind(2), candidates.unbind(2)):
        r, z = torch.baddbmm(gate, hidden, gate_weights).sigmoid().chunk(2, dim=2)
        state = torch.baddbmm(biases, hidden, weights)
        hidden = torch.lerp(torch.addcmul(candidate, r, state).tanh(), hidden, z)
        found.append(hidden)
    one, other = torch.stack(found, dim=2).flatten(1, 2)
    both = torch.cat([one, other.index_select(0, backwards)], dim=1).unflatten(0, (n, longest))
    return both * mask[..., None]


class VariationalDropout(nn.Dropout):
    """Dropout with one mask for all tokens of a sequence (Gal and Ghahramani 2016)."""

    def forward(self, x: Tensor) -> Tensor:
        """Set random features of each row of `(n_sequences, longest, width)` to 0, in training."""
        if not self.training or not self.p:
            return x
        kept = x.new_empty(len(x), 1, x.shape[2]).bernoulli_(1.0 - self.p)
        return x * kept / (1.0 - self.p)


class DroppedRNN(nn.ModuleList):
    """Bidirectional recurrent layer with dropout of its input (see `build_birnn`)."""

    def __init__(self, nI: int, nO: int, *, cell: str, dropout: float):
        super().__init__([VariationalDropout(dropout), BidirectionalRNN(nI, nO, cell)])

    def forward(self, sequences: Sequence[Tensor]) -> list[Tensor]:
        """Convert sequences of shape `(n_tokens, nI)` to outputs of shape `(n_tokens, nO)`."""
        dropout, rnn = self
        return rnn.run_in_groups(sequences, dropout)  # type: ignore[no-any-return, operator]


def masked_softmax(scores: Tensor, mask: Tensor, dim: int = -1) -> Tensor:
    """Compute a softmax over the positions where a mask is True. The other positions get 0.

    The mask can be broadcast to the shape of the scores.
    """
    # Not -inf, because a softmax over no position would be NaN.
    return scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim) * mask
