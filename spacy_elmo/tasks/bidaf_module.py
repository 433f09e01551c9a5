"""The PyTorch module of question answering."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .recurrent import BidirectionalRNN, VariationalDropout, masked_softmax, pad


class BiDAFSelfAttention(nn.Module):
    """Bidirectional attention between question and context, then of the context to itself
    (Clark and Gardner 2017, section 3.1), with ELMo beside the output of the first biGRU if it
    is given (Peters et al. 2018, section 3.3).

    nI (int): Width of the vectors at the input.
    nE (int): Width of those beside the first biGRU's output, 0 for none.
    width (int): Width of the layers.
    dropout (float): Rate at the input of each layer; a text has one mask for all its tokens.
    """

    def __init__(self, nI: int, nE: int, *, width: int, dropout: float):
        super().__init__()
        attended = width + nE
        self.encode = BidirectionalRNN(nI, width, "gru")
        self.attention = TrilinearAttention(attended)
        self.merge = nn.Linear(4 * attended, width)
        self.encode_merged = BidirectionalRNN(width, width, "gru")
        self.self_attention = TrilinearAttention(width)
        self.merge_self = nn.Linear(3 * width, width)
        self.encode_start = BidirectionalRNN(width, width, "gru")
        self.encode_end = BidirectionalRNN(2 * width, width, "gru")
        self.start = nn.Linear(width, 1)
        self.end = nn.Linear(width, 1)
        self.dropout = VariationalDropout(dropout)

    def forward(
        self, first: Sequence[Tensor], second: Sequence[Tensor], *beside: Sequence[Tensor]
    ) -> list[Tensor]:
        """first (Sequence[Tensor]): Vectors of the questions. *Shape:* `(n_tokens, nI)` each
        second (Sequence[Tensor]): Vectors of the contexts.
        beside (Sequence[Tensor]): The same of those beside the first biGRU's output.
            *Shape:* `(n_tokens, nE)` each
        RETURNS (List[Tensor]): The scores of each token of a context as the first and as the
            last of the answer, before the softmax. *Shape:* `(n_tokens, 2)` each
        """
        texts = [pad(text) for text in (first, second)]
        encoded = [self.encode(self.dropout(x), mask) for x, mask in texts]
        if beside:
            more = [pad(text)[0] for text in beside]
            encoded = [torch.cat(pair, dim=2) for pair in zip(encoded, more)]
        question, context = (self.dropout(x) for x in encoded)
        question_mask, mask = (mask for _, mask in texts)
        x = self.merge(self._both_ways(question, context, question_mask, mask)).relu()
        x = x + self._to_itself(x, mask)
        starts = self.encode_start(self.dropout(x), mask)
        ends = self.encode_end(self.dropout(torch.cat([x, starts], dim=2)), mask)
        scores = torch.cat([self.start(starts), self.end(ends)], dim=2)
        return [found[: len(text)] for found, text in zip(scores, second)]

    def _both_ways(self, question: Tensor, context: Tensor, q_mask: Tensor, mask: Tensor) -> Tensor:
        """`[h ; c ; h * c ; q * c]`: a token, the question as it sees it, and the context as
        the question sees it."""
        scores = self.attention(context, question)
        seen = masked_softmax(scores, q_mask[:, None]) @ question
        lowest = torch.finfo(scores.dtype).min
        best = scores.masked_fill(~q_mask[:, None], lowest).amax(2)
        from_question = masked_softmax(best, mask)[:, None] @ context
        return torch.cat([context, seen, context * seen, from_question * seen], dim=2)

    def _to_itself(self, x: Tensor, mask: Tensor) -> Tensor:
        """A token and the others as it sees them."""
        x = self.dropout(self.encode_merged(self.dropout(x), mask))
        others = ~torch.eye(x.shape[1], dtype=torch.bool, device=x.device)
        seen = masked_softmax(self.self_attention(x, x), mask[:, None] & others) @ x
        return self.merge_self(torch.cat([x, seen, x * seen], dim=2)).relu()


class TrilinearAttention(nn.Module):
    """Scores `w_1 h_i + w_2 q_j + w_3 (h_i * q_j)` (Seo et al. 2017, equation 1). At first
    `w_3` is 1, a dot product: like words find each other from the first step on.

    width (int): Width of the vectors.
    """

    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(3, width))
        nn.init.xavier_uniform_(self.weight[:2])
        nn.init.ones_(self.weight[2])

    def forward(self, h: Tensor, q: Tensor) -> Tensor:
        """h (Tensor): *Shape:* `(n, n_h, width)`
        q (Tensor): *Shape:* `(n, n_q, width)`
        RETURNS (Tensor): *Shape:* `(n, n_h, n_q)`
        """
        first, second, both = self.weight
        return (h @ first)[:, :, None] + (q @ second)[:, None] + (h * both) @ q.transpose(1, 2)
