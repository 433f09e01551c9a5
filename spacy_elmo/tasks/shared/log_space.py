"""Sums of probabilities in log space, and the best sequence of tags."""

import numpy as np
from thinc.api import get_array_module
from thinc.types import FloatsXd


def log_sum_exp(scores: FloatsXd, axis: int) -> FloatsXd:
    """Compute `log sum exp` without overflow.

    scores (FloatsXd): The logarithms. They may be -inf.
    axis (int): The axis to sum over. The result has length 1 there.
    RETURNS (FloatsXd): The logarithms of the sums; -inf if all scores are -inf.
    """
    xp = get_array_module(scores)
    highest = scores.max(axis=axis, keepdims=True)
    highest = xp.where(xp.isneginf(highest), 0.0, highest)
    with np.errstate(divide="ignore"):  # log(0) is minus infinity here.
        total: FloatsXd = highest + xp.log(xp.exp(scores - highest).sum(axis=axis, keepdims=True))
    return total


def viterbi(
    scores: np.ndarray, transitions: np.ndarray, start: np.ndarray, end: np.ndarray
) -> np.ndarray:
    """Find the sequence of tags `y` with the highest score (Viterbi 1967).

    The score is `start[y_1] + sum_t scores[t, y_t] + sum_t transitions[y_t-1, y_t] + end[y_n]`.
    Minus infinity excludes a tag or a transition.

    scores (numpy.ndarray): Scores of each tag at each token. *Shape:* `(n_tokens, n_tags)`
    transitions (numpy.ndarray): Scores from each tag to each tag. *Shape:* `(n_tags, n_tags)`
    start (numpy.ndarray): Scores of tags at the first token. *Shape:* `(n_tags,)`
    end (numpy.ndarray): Scores of tags at the last token. *Shape:* `(n_tags,)`
    RETURNS (numpy.ndarray): The tags. *Shape:* `(n_tokens,)`, int64
    """
    if not len(scores):
        return np.zeros(0, dtype="int64")
    best = start + scores[0]
    came_from = np.zeros(scores.shape, dtype="int64")
    for t in range(1, len(scores)):
        reached = best[:, None] + transitions
        came_from[t] = reached.argmax(axis=0)
        best = reached.max(axis=0) + scores[t]
    tags = np.zeros(len(scores), dtype="int64")
    tags[-1] = (best + end).argmax()
    for t in range(len(scores) - 1, 0, -1):
        tags[t - 1] = came_from[t, tags[t]]
    return tags
