"""Clusters of occurrences are the clouds of their vectors, numbered alike in all layers."""

import math
from collections import Counter

import numpy as np
import pytest
from sklearn.metrics import silhouette_score

from spacy_elmo.analysis.clusters import agreement, find_clusters, match_clusters, typical_words


def clouds(*centers, n=20, spread=0.05):
    rng = np.random.default_rng(0)
    return np.vstack([np.eye(5)[i] + spread * rng.normal(size=(n, 5)) for i in centers])


@pytest.mark.parametrize("k", [2, 3, 5])
def test_clusters_are_the_clouds_of_points(k):
    vectors = np.concatenate([clouds(*range(k)), clouds(0, n=7)])
    numbers, best = find_clusters(vectors)
    assert len(set(numbers)) == k
    assert len({*numbers[:20], *numbers[-7:]}) == 1
    assert numbers[0] == 0  # the largest
    assert best == pytest.approx(silhouette_score(vectors, numbers), abs=1e-6)
    np.testing.assert_array_equal(find_clusters(vectors)[0], numbers)


def test_points_without_structure_are_one_cluster():
    one, best = find_clusters(np.random.default_rng(0).normal(size=(60, 50)))
    assert set(one) == {0}
    assert best < 0.1
    for n in (1, 2):
        numbers, best = find_clusters(clouds(0, n=n))
        assert (numbers.tolist(), best) == ([0] * n, None)
    numbers, best = find_clusters(np.ones((9, 4)))
    assert (set(numbers), best) == ({0}, None)
    numbers, best = find_clusters(np.repeat(np.eye(3), 4, axis=0))  # fewer points than 8
    assert (len(set(numbers)), best) == (3, pytest.approx(1.0))


def test_matched_clusters_take_over_the_numbers_that_overlap_most():
    others = np.array([2, 2, 2, 0, 0, 1])
    np.testing.assert_array_equal(match_clusters(np.array([0, 0, 0, 1, 1, 2]), others), others)
    # As many numbers as possible agree: cluster 1 lies in 2, which has a point of 0, too.
    np.testing.assert_array_equal(match_clusters(np.array([1, 1, 0, 0, 0, 0]), others)[:2], [2, 2])
    np.testing.assert_array_equal(match_clusters(np.zeros(6, dtype=int), others), [2] * 6)


def test_agreement_of_two_clusterings():
    numbers, senses = np.array([0, 0, 0, 1, 1, 1, 1]), [*"aabbbac"]
    # Hubert and Arabie's index: of 21 pairs, 9 are of one cluster, 6 of one sense, 2 of both.
    expected = (2 + 2) / 7, (2 - 9 * 6 / 21) / ((9 + 6) / 2 - 9 * 6 / 21)
    assert agreement(numbers, senses) == pytest.approx(expected)
    assert agreement(numbers, [str(number) for number in numbers]) == (1.0, 1.0)


def log_odds(here, elsewhere, word):
    """Monroe et al. 2008, equations 15, 19 and 22, with the counts of both as the prior."""
    prior = here + elsewhere
    total = prior.total()

    def odds(counts):
        count = counts[word] + prior[word]
        return math.log(count / (counts.total() + total - count))

    variance = sum(1 / (counts[word] + prior[word]) for counts in (here, elsewhere))
    return (odds(here) - odds(elsewhere)) / math.sqrt(variance)


def test_typical_words():
    river, money = ["the", "river", "of", "the"], ["the", "money", "of", "a"]
    contexts = [*[river] * 3, *[money] * 4, ["mud", "the", "river"]]
    contexts.append(["of", "money", "loan", "loan"])
    numbers = np.array([0, 0, 0, 1, 1, 1, 1, 0, 1])
    found = typical_words(contexts, numbers, n=3)
    counts = [Counter(), Counter()]
    for context, number in zip(contexts, numbers):
        counts[number].update(context)
    for here, elsewhere, words in zip(counts, counts[::-1], found.values()):
        scores = {word: log_odds(here, elsewhere, word) for word in here if here[word] > 1}
        expected = sorted((w for w in scores if scores[w] > 0), key=lambda w: (-scores[w], w))
        assert words == expected[:3]
    assert found[0][:2] == ["river", "the"]
    assert "loan" in found[1]
    assert typical_words(contexts, np.zeros(9, dtype=int)) == {0: []}
    assert typical_words([[], ["one", "one"]], np.array([0, 1])) == {0: [], 1: []}
