"""Spans of coreference, what pruning keeps of them, and losses, against brute force."""

from functools import partial

import numpy as np
import pytest

from spacy_elmo.embedding.segmenters import Segment
from spacy_elmo.tasks.coref import spans as module

from helpers.formulas import check_differences


@pytest.mark.parametrize("max_width", [1, 3, 9])
def test_candidates_are_all_spans_of_a_segment(max_width):
    """Spans of overlapping segments occur once. They are in order."""
    segments = [Segment(0, 5, 0, 4), Segment(3, 8, 4, 8), Segment(8, 9, 8, 9)]
    found = module.find_candidate_spans(segments, max_width)
    ends = {t: next(s.end for s in segments if s.keep_start <= t < s.keep_end) for t in range(9)}
    lasts = [min(ends[start], start + max_width) for start in range(9)]
    expected = [(start, end) for start in range(9) for end in range(start + 1, lasts[start] + 1)]
    assert found.mentions == expected
    read = [token for one in segments for token in range(one.start, one.end)]
    for row, width, start in zip(found.rows, found.widths, found.starts):
        assert read[row : row + width] == list(range(start, start + width))


def brute_prune(spans, scores, n_kept):
    kept = []
    for i in sorted(range(len(spans)), key=lambda i: -scores[i]):
        (start, end), others = spans[i], [spans[j] for j in kept]
        crosses = any(a < start < b < end or start < a < end < b for a, b in others)
        if len(kept) < n_kept and not crosses:
            kept.append(i)
    return sorted(kept)


@pytest.mark.parametrize("n_kept", [1, 4, 12, 100])
def test_pruning_keeps_the_best_spans_that_do_not_cross(n_kept):
    rng = np.random.default_rng(n_kept)
    for _ in range(30):
        spans = module.find_candidate_spans([Segment(0, 12, 0, 12)], 6)
        scores = rng.normal(size=len(spans))
        kept = module.prune(spans, scores, n_kept)
        assert kept.tolist() == brute_prune(spans.mentions, scores, n_kept)


def test_links_are_joined_to_clusters():
    mentions = [(i, i + 1) for i in range(7)]
    links = np.array([0, 0, 2, 0, 3, 1, 0])
    expected = [[(0, 1), (2, 3)], [(1, 2), (4, 5), (5, 6)]]
    assert module.make_clusters(mentions, links, np.zeros(7, dtype=bool)) == expected
    alone = np.array([False] * 6 + [True])
    assert module.make_clusters(mentions, links, alone) == [*expected, [(6, 7)]]


def test_gold_antecedents_are_mentions_of_the_same_cluster():
    mentions = [(0, 1), (2, 3), (4, 5), (6, 7)]
    clusters = [[(0, 1), (4, 5), (6, 7)], [(2, 3), (9, 10)]]
    right = module.gold_pairs(mentions, clusters, 2)
    assert right.tolist() == [[0, 0], [0, 0], [0, 1], [1, 0]]


def brute_loss(pair_scores, right):
    """Over every choice of an antecedent for each span: the probability that all are right."""
    total = 0.0
    for scores, good in zip(pair_scores, right):
        choices = {0: 0.0}  # by how many places before
        choices |= {i + 1: s for i, s in enumerate(scores) if s > -np.inf}
        wanted = {i + 1 for i in np.flatnonzero(good)} or {0}
        mass = {choice: np.exp(score) for choice, score in choices.items()}
        total -= np.log(sum(mass[i] for i in wanted) / sum(mass.values()))
    return total


def pairs(rng, n=7, n_columns=4):
    scores = rng.normal(size=(n, n_columns)) * 3
    scores[np.arange(n)[:, None] <= np.arange(n_columns)] = -np.inf
    mentions = [(i, i + 1) for i in range(n)]
    numbers = rng.integers(0, 3, size=n)
    clusters = [[mentions[i] for i in np.flatnonzero(numbers == c)] for c in range(2)]
    return scores, module.gold_pairs(mentions, clusters, n_columns)


def test_loss_of_antecedents_equals_the_formula():
    rng = np.random.default_rng(0)
    for _ in range(20):
        scores, right = pairs(rng)
        loss, gradient = module.antecedent_loss(scores, right)
        assert loss == pytest.approx(brute_loss(scores, right))
        check_differences([(scores, gradient)], partial(brute_loss, scores, right))
        assert not gradient[scores == -np.inf].any()
    large = np.array([[-np.inf], [300.0]], dtype="float32")
    loss, gradient = module.antecedent_loss(large, np.array([[False], [False]]))
    assert loss == pytest.approx(300.0)
    assert gradient.tolist() == [[0.0], [1.0]]


def test_loss_of_mentions_equals_the_formula():
    scores = np.array([-400.0, -1.0, 0.5, 400.0])
    right = np.array([False, True, False, True])
    loss, gradient = module.mention_loss(scores, right)
    probabilities = 1 / (1 + np.exp(-scores[1:3]))
    expected = -np.log(probabilities[0]) - np.log(1 - probabilities[1])
    assert loss == pytest.approx(expected)
    np.testing.assert_allclose(gradient, [0, probabilities[0] - 1, probabilities[1], 0], atol=1e-9)
