"""Spans for coreference: candidates, pruning, losses, and clusters of linked spans."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from thinc.api import get_array_module
from thinc.types import Floats1d, Floats2d

from ...embedding.segmenters import Segment
from ..shared import log_sum_exp

Mention = tuple[int, int]  # First token, and the token after the last one.
Cluster = list[Mention]
Clusters = Sequence[Cluster]


@dataclass(frozen=True)
class CandidateSpans:
    """Spans that may be mentions, sorted by first token and width.

    rows (numpy.ndarray): First token of each span, as an index into the concatenated segments.
        *Shape:* `(n_spans,)`
    widths (numpy.ndarray): Number of tokens of each span. *Shape:* `(n_spans,)`
    starts (numpy.ndarray): First token of each span, as an index into the Doc. *Shape:*
        `(n_spans,)`
    """

    rows: np.ndarray
    widths: np.ndarray
    starts: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, chosen: np.ndarray) -> "CandidateSpans":
        return CandidateSpans(self.rows[chosen], self.widths[chosen], self.starts[chosen])

    @property
    def mentions(self) -> list[Mention]:
        """Positions in the Doc of each span's first token, and of the token after its last one."""
        return list(zip(self.starts.tolist(), (self.starts + self.widths).tolist()))


def find_candidate_spans(segments: Sequence[Segment], max_width: int) -> CandidateSpans:
    """Find all spans of up to `max_width` tokens within segments.

    If segments overlap, each span is found once: in the segment whose kept tokens contain the
    span's first token.
    """
    found = [np.zeros((0, 3), dtype="int64")]
    row = 0
    for start, end, keep_start, keep_end in segments:
        tokens = np.arange(keep_start, keep_end)
        tokens, widths = (x.ravel() for x in np.meshgrid(tokens, np.arange(max_width) + 1))
        spans = np.stack([tokens - start + row, widths, tokens], axis=1)
        spans = spans[tokens + widths <= end]
        found.append(spans[np.lexsort((spans[:, 1], spans[:, 0]))])
        row += end - start
    rows, widths, starts = np.concatenate(found).T
    return CandidateSpans(rows, widths, starts)


def prune(spans: CandidateSpans, scores: np.ndarray, n_kept: int) -> np.ndarray:
    """Keep the best spans that do not cross each other (Lee et al. 2017, section 5).

    Spans are added from the highest score down. A span that crosses a kept span is skipped. Nested
    spans do not cross.

    scores (numpy.ndarray): *Shape:* `(n_spans,)`
    RETURNS (numpy.ndarray): At most `n_kept` indices, sorted. *Shape:* `(n,)`
    """
    mentions = spans.mentions
    kept: list[int] = []
    last_end: dict[int, int] = {}  # By start: the last end of the kept spans that start there.
    first_start: dict[int, int] = {}  # By end: the first start of the kept spans that end there.
    for i in np.argsort(-scores, kind="stable").tolist():
        if len(kept) >= n_kept:
            break
        start, end = mentions[i]
        inside = range(start + 1, end)
        if not any(last_end.get(t, 0) > end or first_start.get(t, start) < start for t in inside):
            kept.append(i)
            last_end[start] = max(end, last_end.get(start, 0))
            first_start[end] = min(start, first_start.get(end, start))
    return np.array(sorted(kept), dtype="int64")


def make_clusters(
    mentions: Sequence[Mention], links: np.ndarray, is_mention: np.ndarray
) -> list[Cluster]:
    """Make clusters from spans and their links to antecedents.

    mentions (Sequence[Tuple[int, int]]): The kept spans, in order.
    links (numpy.ndarray): For each span i, the number n if span i - n is its antecedent; 0 if span
        i has no antecedent. *Shape:* `(n_spans,)`
    is_mention (numpy.ndarray): True at spans that become a cluster of one mention if they have no
        links. *Shape:* `(n_spans,)`
    RETURNS (List[List[Tuple[int, int]]]): In order of their first mentions.
    """
    cluster_of: list[Cluster] = []  # The cluster of each span.
    for i, distance in enumerate(links.tolist()):
        cluster_of.append(cluster_of[i - distance] if distance else [])
        cluster_of[i].append(mentions[i])
    firsts = np.flatnonzero(links == 0)
    return [cluster_of[i] for i in firsts if len(cluster_of[i]) > 1 or is_mention[i]]


def gold_pairs(mentions: Sequence[Mention], clusters: Clusters, n_columns: int) -> np.ndarray:
    """Find the right antecedents of each span: those in the same gold cluster.

    mentions (Sequence[Tuple[int, int]]): The kept spans, in order.
    RETURNS (numpy.ndarray): True at right pairs, with the axes of `Ranking.pair_scores`.
        *Shape:* `(n_kept, n_columns)`
    """
    number_of = {mention: i for i, cluster in enumerate(clusters) for mention in cluster}
    numbers = np.array([number_of.get(mention, -1) for mention in mentions], dtype="int64")
    right = np.zeros((len(numbers), n_columns), dtype=bool)
    for column in range(n_columns):
        here, before = numbers[column + 1 :], numbers[: -column - 1]
        right[column + 1 :, column] = (here == before) & (here >= 0)
    return right


def antecedent_loss(pair_scores: Floats2d, right: np.ndarray) -> tuple[float, Floats2d]:
    """Compute the loss of `Ranking.pair_scores` (Lee et al. 2017, section 6).

    The loss of a span is the negative logarithm of the summed probability of its right antecedents,
    which `gold_pairs` finds. If there are none, "no antecedent" with score 0 is right.

    RETURNS (Tuple[float, Floats2d]): The sum over spans, in nats, and its gradient.
    """
    # s_j is the score of antecedent j, and s_0 = 0 the score of no antecedent.
    # loss = log sum_j exp(s_j) - log sum_{right j} exp(s_j)
    # d loss / d s_j = P(j) - P(j | j is right)
    xp = get_array_module(pair_scores)
    right = xp.asarray(np.concatenate([~right.any(axis=1, keepdims=True), right], axis=1))
    none = xp.zeros_like(pair_scores, shape=(len(pair_scores), 1))
    scores = xp.concatenate([none, pair_scores], axis=1)
    right_scores = xp.where(right, scores, -xp.inf)
    log_sum, log_right = log_sum_exp(scores, axis=1), log_sum_exp(right_scores, axis=1)
    gradient = xp.exp(scores - log_sum) - xp.exp(right_scores - log_right)
    return float((log_sum - log_right).sum()), gradient[:, 1:]


def mention_loss(scores: Floats1d, right: np.ndarray) -> tuple[float, Floats1d]:
    """Compute the logistic loss of mention scores.

    right (numpy.ndarray): True at gold mentions. *Shape:* `(n_spans,)`
    RETURNS (Tuple[float, Floats1d]): The sum over spans, in nats, and its gradient.
    """
    xp = get_array_module(scores)
    gold = xp.asarray(right, dtype=scores.dtype)
    loss = xp.logaddexp(0.0, scores) - gold * scores
    return float(loss.sum()), xp.exp(-xp.logaddexp(0.0, -scores)) - gold
