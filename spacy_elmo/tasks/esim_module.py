"""The PyTorch module of ESIM."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .recurrent import BidirectionalRNN, VariationalDropout, masked_softmax, pad


class ESIM(nn.Module):
    """The enhanced sequential inference model (Chen et al. 2017, section 3), with ELMo beside
    the output of the first biLSTM if it is given (Peters et al. 2018, section 3.3).

    nI (int): Width of the vectors at the input.
    nE (int): Width of those beside the first biLSTM's output, 0 for none.
    nO (int): Number of labels.
    width (int): Width of the layers.
    dropout (float): Rate at the input of each layer; a text has one mask for all its tokens.
    """

    def __init__(self, nI: int, nE: int, nO: int, *, width: int, dropout: float):
        super().__init__()
        self.encode = BidirectionalRNN(nI, width)
        self.project = nn.Linear(4 * (width + nE), width)
        self.compose = BidirectionalRNN(width, width)
        self.hidden = nn.Linear(4 * width, width)
        self.output = nn.Linear(width, nO)
        self.token_dropout = VariationalDropout(dropout)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, first: Sequence[Tensor], second: Sequence[Tensor], *beside: Sequence[Tensor]
    ) -> list[Tensor]:
        """first (Sequence[Tensor]): Vectors of the first texts. *Shape:* `(n_tokens, nI)` each
        second (Sequence[Tensor]): Vectors of the second texts.
        beside (Sequence[Tensor]): The same of those beside the first biLSTM's output.
            *Shape:* `(n_tokens, nE)` each
        RETURNS (List[Tensor]): The scores of the labels before the softmax, `(nO,)` a pair.
        """
        beside = beside or ([], [])
        a, mask_a = self._encode(first, beside[0])
        b, mask_b = self._encode(second, beside[1])
        for_a, for_b = align(a, b, mask_a, mask_b)
        pooled = [self._compose(a, for_a, mask_a), self._compose(b, for_b, mask_b)]
        hidden = self.hidden(self.dropout(torch.cat(pooled, dim=1))).tanh()
        return list(self.output(self.dropout(hidden)))

    def _encode(self, texts: Sequence[Tensor], beside: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """The texts of one side, and their mask."""
        x, mask = pad(texts)
        encoded = self.encode(self.token_dropout(x), mask)
        if beside:
            encoded = torch.cat([encoded, self.token_dropout(pad(beside)[0])], dim=2)
        return encoded, mask

    def _compose(self, encoded: Tensor, aligned: Tensor, mask: Tensor) -> Tensor:
        """Texts beside what they found in the others, pooled."""
        enhanced = [encoded, aligned, encoded - aligned, encoded * aligned]
        projected = self.project(torch.cat(enhanced, dim=2)).relu()
        return pool(self.compose(self.token_dropout(projected), mask), mask)


def align(a: Tensor, b: Tensor, mask_a: Tensor, mask_b: Tensor) -> tuple[Tensor, Tensor]:
    """What each token of a text finds in the other text, by dot products (equations 11 to 13).

    a (Tensor): The first texts. *Shape:* `(n_pairs, longest_a, width)`
    b (Tensor): The second texts. *Shape:* `(n_pairs, longest_b, width)`
    mask_a (Tensor): True at tokens. *Shape:* `(n_pairs, longest_a)`
    mask_b (Tensor): True at tokens. *Shape:* `(n_pairs, longest_b)`
    RETURNS (Tuple[Tensor, Tensor]): Sums of tokens of b for each token of a, and of a for b.
    """
    scores = a @ b.transpose(1, 2)
    found_in_b = masked_softmax(scores, mask_b[:, None]) @ b
    return found_in_b, masked_softmax(scores.transpose(1, 2), mask_a[:, None]) @ a


def pool(x: Tensor, mask: Tensor) -> Tensor:
    """The mean and the maximum of the tokens (equations 18 and 19); zeros where there are none.

    x (Tensor): *Shape:* `(n_texts, longest, width)`
    mask (Tensor): True at tokens. *Shape:* `(n_texts, longest)`
    RETURNS (Tensor): *Shape:* `(n_texts, 2 * width)`
    """
    kept = mask[..., None]
    mean = (x * kept).sum(1) / kept.sum(1).clamp(min=1)
    highest = x.masked_fill(~kept, torch.finfo(x.dtype).min).amax(1) * kept.any(1)
    return torch.cat([mean, highest], dim=1)
