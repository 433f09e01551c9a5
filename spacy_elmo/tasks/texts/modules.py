"""PyTorch modules for two texts: ESIM, and BiDAF with self-attention."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..shared.recurrent import BidirectionalRNN, VariationalDropout, masked_softmax, pad

Texts = Sequence[Tensor]  # Vectors of the tokens of each text.


class ESIM(nn.Module):
    """Enhanced sequential inference model, which labels pairs of texts (Chen et al. 2017).

    Other vectors, such as ELMo's, can be concatenated with the output of the first biLSTM (Peters
    et al. 2018, section 3.3).

    nI (int): Width of the input vectors.
    nE (int): Width of the vectors to append to the output of the first biLSTM; 0 for none.
    dropout (float): Rate at each layer's input. All tokens of a text have the same mask.
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

    def forward(self, first: Texts, second: Texts, *beside: Texts) -> Tensor:
        """Compute the logits of the labels of pairs, `(n_pairs, nO)`.

        first (Sequence[Tensor]): Vectors of the first texts. *Shape:* `(n_tokens, nI)` each
        second (Sequence[Tensor]): Vectors of the second texts. *Shape:* `(n_tokens, nI)` each
        beside (Sequence[Tensor]): Vectors to append to the output of the first biLSTM: no
            argument, or two (vectors of the first texts, vectors of the second texts).
            *Shape:* `(n_tokens, nE)` each
        """
        beside = beside or ([], [])
        a, mask_a = self._encode(first, beside[0])
        b, mask_b = self._encode(second, beside[1])
        for_a, for_b = attend_both_ways(a, b, mask_a, mask_b)
        pooled = [self._compose(a, for_a, mask_a), self._compose(b, for_b, mask_b)]
        hidden = self.hidden(self.dropout(torch.cat(pooled, dim=1))).tanh()
        return self.output(self.dropout(hidden))

    def _encode(self, texts: Texts, beside: Texts) -> tuple[Tensor, Tensor]:
        """Run the first biLSTM over one text of each pair. Return padded output and mask."""
        x, mask = pad(texts)
        encoded = self.encode(self.token_dropout(x), mask)
        if beside:
            encoded = torch.cat([encoded, self.token_dropout(pad(beside)[0])], dim=2)
        return encoded, mask

    def _compose(self, encoded: Tensor, aligned: Tensor, mask: Tensor) -> Tensor:
        """Combine tokens with weighted sums of the other text. Pool the tokens of each text."""
        enhanced = [encoded, aligned, encoded - aligned, encoded * aligned]
        projected = self.project(torch.cat(enhanced, dim=2)).relu()
        return mean_and_max(self.compose(self.token_dropout(projected), mask), mask)


def attend_both_ways(a: Tensor, b: Tensor, mask_a: Tensor, mask_b: Tensor) -> tuple[Tensor, Tensor]:
    """Attend from each text to the other, by dot products (Chen et al. 2017, eq. 11 to 13).

    Masks are True at tokens, and have the shapes `(n_pairs, longest_a)` and `(n_pairs, longest_b)`.

    a (Tensor): The first texts. *Shape:* `(n_pairs, longest_a, width)`
    b (Tensor): The second texts. *Shape:* `(n_pairs, longest_b, width)`
    RETURNS (Tuple[Tensor, Tensor]): For each token of a, a weighted sum of b; and for each
        token of b, a weighted sum of a.
    """
    scores = a @ b.transpose(1, 2)
    found_in_b = masked_softmax(scores, mask_b[:, None]) @ b
    return found_in_b, masked_softmax(scores.transpose(1, 2), mask_a[:, None]) @ a


def mean_and_max(x: Tensor, mask: Tensor) -> Tensor:
    """Compute mean and maximum over the tokens of each text (Chen et al. 2017, eq. 18 and 19).

    Both are 0 for a text without tokens. The mask, `(n_texts, longest)`, is True at tokens. The
    result is `(n_texts, 2 * width)`.

    x (Tensor): *Shape:* `(n_texts, longest, width)`
    """
    kept = mask[..., None]
    mean = (x * kept).sum(1) / kept.sum(1).clamp(min=1)
    highest = x.masked_fill(~kept, torch.finfo(x.dtype).min).amax(1) * kept.any(1)
    return torch.cat([mean, highest], dim=1)


class BiDAFSelfAttention(nn.Module):
    """Module that finds the answer to a question in its context (Clark and Gardner 2017).

    It has attention between question and context, then self-attention of the context (section 3.1).
    Other vectors, such as ELMo's, can be concatenated with the output of the first biGRU (Peters et
    al. 2018, section 3.3).

    nI (int): Width of the input vectors.
    nE (int): Width of the vectors to append to the output of the first biGRU; 0 for none.
    dropout (float): Rate at each layer's input. All tokens of a text have the same mask.
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

    def forward(self, first: Texts, second: Texts, *beside: Texts) -> list[Tensor]:
        """Compute the logits that a token of the context is the first or last one of the answer.

        first (Sequence[Tensor]): Vectors of the questions. *Shape:* `(n_tokens, nI)` each
        second (Sequence[Tensor]): Vectors of the contexts. *Shape:* `(n_tokens, nI)` each
        beside (Sequence[Tensor]): Vectors to append to the output of the first biGRU: no
            argument, or two (vectors of the questions, vectors of the contexts).
            *Shape:* `(n_tokens, nE)` each
        RETURNS (List[Tensor]): *Shape:* `(n_tokens, 2)` for each context
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
        """Return `[h ; c ; h * c ; q * c]` for the vector h of each token of the context.

        c is the sum of the question's vectors, weighted by the attention of h. q is the sum of the
        context's vectors, weighted by the attention of the question. q is the same for all h.
        """
        scores = self.attention(context, question)
        seen = masked_softmax(scores, q_mask[:, None]) @ question
        best = scores.masked_fill(~q_mask[:, None], torch.finfo(scores.dtype).min).amax(2)
        from_question = masked_softmax(best, mask)[:, None] @ context
        return torch.cat([context, seen, context * seen, from_question * seen], dim=2)

    def _to_itself(self, x: Tensor, mask: Tensor) -> Tensor:
        """Compute the self-attention of the context: from each token to all other tokens."""
        x = self.dropout(self.encode_merged(self.dropout(x), mask))
        others = ~torch.eye(x.shape[1], dtype=torch.bool, device=x.device)
        seen = masked_softmax(self.self_attention(x, x), mask[:, None] & others) @ x
        return self.merge_self(torch.cat([x, seen, x * seen], dim=2)).relu()


class TrilinearAttention(nn.Module):
    """Attention with the scores `w_1 h_i + w_2 q_j + w_3 (h_i * q_j)` (Seo et al. 2017, eq. 1).

    `w_3` is initialized with 1. So before training, the last term is a dot product, and equal words
    attend to each other from the first step.
    """

    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(3, width))
        nn.init.xavier_uniform_(self.weight[:2])
        nn.init.ones_(self.weight[2])

    def forward(self, h: Tensor, q: Tensor) -> Tensor:
        """Score each pair of a token in h and a token in q: `(n, n_h, n_q)`.

        h (Tensor): *Shape:* `(n, n_h, width)`
        q (Tensor): *Shape:* `(n, n_q, width)`
        """
        first, second, both = self.weight
        return (h @ first)[:, :, None] + (q @ second)[:, None] + (h * both) @ q.transpose(1, 2)
