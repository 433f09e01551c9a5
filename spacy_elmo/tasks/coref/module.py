"""PyTorch module that ranks spans for coreference (Lee et al. 2017)."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from math import ceil

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import pad as pad_tensor

from ..shared.recurrent import BidirectionalRNN, masked_softmax
from .spans import CandidateSpans, prune

# Largest distance of each bin, in spans. There is one more bin for all larger distances.
BINS = (1, 2, 3, 4, 7, 15, 31, 63)
SPAN_TOKENS = 512  # Spans that begin in 512 tokens are represented together, to limit the memory.


def feed_forward(nI: int, hidden_width: int, depth: int, dropout: float) -> nn.Sequential:
    """Make a network of `depth` ReLU layers with dropout, and a linear layer with one output."""
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Linear(nI, hidden_width), nn.ReLU(), nn.Dropout(dropout)]
        nI = hidden_width
    return nn.Sequential(*layers, nn.Linear(nI, 1))


class SpanRanker(nn.Module):
    """Module that finds probable mentions among spans, and scores their antecedents.

    `nI` is the width of the token vectors. For the other arguments, see `build_coref`.
    """

    def __init__(
        self,
        nI: int,
        *,
        encoder_width: int,
        hidden_width: int,
        hidden_depth: int,
        feature_width: int,
        max_span_width: int,
        spans_per_word: float,
        max_antecedents: int,
        dropout: float,
        input_dropout: float,
    ):
        super().__init__()
        self.max_span_width = max_span_width
        self.spans_per_word = spans_per_word
        self.max_antecedents = max_antecedents
        self.dropout, self.input_dropout = nn.Dropout(dropout), nn.Dropout(input_dropout)
        self.encoder = BidirectionalRNN(nI, encoder_width)
        self.attention = nn.Linear(encoder_width, 1)
        self.widths = nn.Embedding(max_span_width, feature_width)
        span_width = 2 * encoder_width + nI + feature_width
        self.mention = feed_forward(span_width, hidden_width, hidden_depth, dropout)
        # The input of the pair network is [g_i ; g_j ; g_i * g_j ; distance]. Its first layer is a
        # sum of one product per part. So the products of g_i and g_j are computed once per span,
        # not once per pair.
        self.anaphor = nn.Linear(span_width, hidden_width)
        self.antecedent = nn.Linear(span_width, hidden_width, bias=False)
        self.product = nn.Linear(span_width, hidden_width, bias=False)
        self.distances = nn.Embedding(len(BINS) + 1, feature_width)
        self.distance = nn.Linear(feature_width, hidden_width, bias=False)
        rest = feed_forward(hidden_width, hidden_width, hidden_depth - 1, dropout)
        self.pair = nn.Sequential(nn.ReLU(), nn.Dropout(dropout), *rest)

    def forward(
        self, tokens: Tensor, lengths: Sequence[int], candidates: CandidateSpans
    ) -> tuple[Tensor, Tensor, np.ndarray]:
        """Score all spans (at least one) as mentions, keep the best, and score their antecedents.

        tokens (Tensor): Vectors of the tokens of all segments. *Shape:* `(n_tokens, nI)`
        lengths (Sequence[int]): Number of tokens of each segment.
        RETURNS (Tuple[Tensor, Tensor, numpy.ndarray]): `mention_scores`, `pair_scores` and `kept`
            of `Ranking`.
        """
        tokens = self.input_dropout(tokens)
        outputs = self.encoder.run_in_groups(tokens.split(list(lengths)))
        encoded = self.dropout(torch.cat(outputs))
        chunks = self._represent_chunks(tokens, encoded, candidates)
        mention_scores = torch.cat([self.mention(spans).squeeze(1) for spans in chunks])
        n_kept = ceil(self.spans_per_word * len(np.unique(candidates.starts)))
        kept = prune(candidates, mention_scores.detach().cpu().numpy(), n_kept)
        # Computed a second time, because the representations of all spans need too much memory.
        spans = torch.cat(list(self._represent_chunks(tokens, encoded, candidates[kept])))
        return mention_scores, self.rank(spans, mention_scores[_index(kept, tokens)]), kept

    def _represent_chunks(
        self, tokens: Tensor, encoded: Tensor, spans: CandidateSpans
    ) -> Iterator[Tensor]:
        """Yield the representations of spans, in chunks of consecutive spans."""
        ends = np.searchsorted(spans.rows, np.arange(0, len(tokens), SPAN_TOKENS)[1:])
        for numbers in np.split(np.arange(len(spans)), ends):
            if len(numbers):
                yield self.represent(tokens, encoded, spans[numbers])

    def represent(self, tokens: Tensor, encoded: Tensor, spans: CandidateSpans) -> Tensor:
        """Compute representations `[start ; end ; attention-weighted words ; width]` of spans.

        See Lee et al. 2017, section 4.

        tokens (Tensor): *Shape:* `(n_tokens, nI)`
        encoded (Tensor): Output of the biLSTM. *Shape:* `(n_tokens, encoder_width)`
        spans (CandidateSpans): In order, at least one.
        RETURNS (Tensor): *Shape:* `(n_spans, 2 * encoder_width + nI + feature_width)`
        """
        first, last = int(spans.rows[0]), int(spans.rows[-1])
        # Window t contains the tokens of the widest span that begins at t. Windows at the end are
        # padded, but no span contains padding.
        missing = max(0, last + self.max_span_width - len(tokens))
        stop = last + self.max_span_width
        values = pad_tensor(tokens[first:stop], (0, 0, 0, missing))
        scores = pad_tensor(self.attention(encoded[first:stop]), (0, 0, 0, missing))
        windows = values.unfold(0, self.max_span_width, 1).transpose(1, 2)
        window_scores = scores.unfold(0, self.max_span_width, 1)
        within = torch.ones(2 * (self.max_span_width,), dtype=torch.bool, device=tokens.device)
        weights = masked_softmax(window_scores.expand(-1, self.max_span_width, -1), within.tril())
        words = (weights @ windows).flatten(0, 1)
        places = (spans.rows - first) * self.max_span_width + spans.widths - 1
        rows = [(encoded, spans.rows), (encoded, spans.rows + spans.widths - 1), (words, places)]
        parts = [values.index_select(0, _index(chosen, tokens)) for values, chosen in rows]
        return torch.cat([*parts, self.widths(_index(spans.widths - 1, tokens))], dim=1)

    def rank(self, spans: Tensor, mention_scores: Tensor) -> Tensor:
        """Score antecedents: add the mention scores of both spans and the score of the pair.

        The result is `pair_scores` of `Ranking`. All pairs with the same distance are scored at
        once. So the memory of a step grows with the number of spans, not with the number of pairs.

        spans (Tensor): Representations of the kept spans. *Shape:* `(n_kept, width)`
        mention_scores (Tensor): *Shape:* `(n_kept,)`
        """
        n = len(spans)
        anaphors, antecedents = self.anaphor(spans), self.antecedent(spans)
        distances = self.distance(self.distances.weight)
        columns = [spans.new_zeros(n, 0)]
        for offset in range(1, min(n - 1, self.max_antecedents) + 1):
            hidden = anaphors[offset:] + antecedents[:-offset]
            hidden = hidden + self.product(spans[offset:] * spans[:-offset])
            hidden = hidden + distances[bisect_left(BINS, offset)]
            scores = self.pair(hidden) + mention_scores[offset:, None]
            scores = scores + mention_scores[:-offset, None]
            columns.append(pad_tensor(scores, (0, 0, offset, 0), value=-torch.inf))
        return torch.cat(columns, dim=1)


def _index(numbers: np.ndarray, like: Tensor) -> Tensor:
    return torch.from_numpy(numbers).to(like.device)
