"""The losses of coreference, with their gradients."""

from collections.abc import Sequence

import numpy as np
from thinc.api import get_array_module
from thinc.types import Floats1d, Floats2d

from .coref_spans import Cluster, Mention
from .log_sums import log_sum_exp


def gold_pairs(
    mentions: Sequence[Mention], clusters: Sequence[Cluster], n_columns: int
) -> np.ndarray:
    """Find which antecedents are right: those in the same gold cluster.

    mentions (Sequence[Tuple[int, int]]): The spans that are kept, in order.
    clusters (Sequence[List[Tuple[int, int]]]): The gold clusters.
    n_columns (int): How many antecedents each span has.
    RETURNS (numpy.ndarray): Column a is about the span a + 1 places before.
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
    """The negative log-likelihood of the right antecedents, all together (Lee et al. 2017,
    section 6); where none is right, of no antecedent, whose score is 0.

    pair_scores (Floats2d): -inf where there is no antecedent. *Shape:* `(n_kept, n_columns)`
    right (numpy.ndarray): As `gold_pairs` returns it. *Shape:* `(n_kept, n_columns)`
    RETURNS (Tuple[float, Floats2d]): The sum over spans, in nats, and its gradient.
    """
    # With scores s, and s_0 = 0 of no antecedent: loss = log sum_j exp(s_j) - log of the same
    # sum over the right ones, and d loss / d s_j = P(j) - P(j | j is right).
    xp = get_array_module(pair_scores)
    right = xp.asarray(np.concatenate([~right.any(axis=1, keepdims=True), right], axis=1))
    none = xp.zeros_like(pair_scores, shape=(len(pair_scores), 1))
    scores = xp.concatenate([none, pair_scores], axis=1)
    right_scores = xp.where(right, scores, -xp.inf)
    log_sum, log_right = log_sum_exp(scores, axis=1), log_sum_exp(right_scores, axis=1)
    gradient = xp.exp(scores - log_sum) - xp.exp(right_scores - log_right)
    return float((log_sum - log_right).sum()), gradient[:, 1:]


def mention_loss(scores: Floats1d, right: np.ndarray) -> tuple[float, Floats1d]:
    """The negative log-likelihood of which spans are mentions, by the logistic function.

    scores (Floats1d): *Shape:* `(n_spans,)`
    right (numpy.ndarray): Which are. *Shape:* `(n_spans,)`
    RETURNS (Tuple[float, Floats1d]): The sum over spans, in nats, and its gradient.
    """
    xp = get_array_module(scores)
    gold = xp.asarray(right, dtype=scores.dtype)
    loss = xp.logaddexp(0.0, scores) - gold * scores
    return float(loss.sum()), xp.exp(-xp.logaddexp(0.0, -scores)) - gold
