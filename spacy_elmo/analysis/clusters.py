"""Clusters of the occurrences of a word, compared with gold senses, and their typical words."""

import math
import warnings
from collections import Counter
from collections.abc import Sequence
from operator import itemgetter
from typing import Optional

import numpy as np
from thinc.types import Floats2d, Ints1d

MAX_CLUSTERS = 8
MIN_SILHOUETTE = 0.1  # If the best silhouette is lower, all vectors are one cluster.


def find_clusters(vectors: Floats2d, *, seed: int = 0) -> tuple[Ints1d, Optional[float]]:
    """Divide vectors into 1 to 8 clusters by k-means.

    k-means runs with 2 to 8 clusters. The division with the largest mean silhouette is used
    (Rousseeuw 1987). If this silhouette is below 0.1, all vectors are one cluster.

    vectors (Floats2d): *Shape:* `(n, width)`
    RETURNS (Tuple[Ints1d, Optional[float]]): The cluster of each vector, where 0 is the largest
        cluster, *Shape:* `(n,)`; and the largest mean silhouette, from -1 to 1, or None if there
        are too few different vectors.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.metrics import pairwise_distances, silhouette_score

    one = np.zeros(len(vectors), dtype="int64")
    n_different = len(np.unique(vectors.round(4), axis=0))
    # The silhouette is defined only for 2 to n - 1 clusters.
    counts = range(2, min(MAX_CLUSTERS, n_different, len(vectors) - 1) + 1)
    if not counts:
        return one, None
    distances = pairwise_distances(vectors.astype("float64"))
    divisions = []
    with warnings.catch_warnings():
        # KMeans warns if it finds fewer clusters than requested.
        warnings.simplefilter("ignore", ConvergenceWarning)
        for k in counts:
            numbers = KMeans(k, n_init=10, random_state=seed).fit_predict(vectors)
            score = float(silhouette_score(distances, numbers, metric="precomputed"))
            divisions.append((score, numbers))
    silhouette, numbers = max(divisions, key=itemgetter(0))
    if silhouette < MIN_SILHOUETTE:
        return one, silhouette
    order = np.argsort(-np.bincount(numbers), kind="stable")
    # `argsort` of a permutation is its inverse: the new number of each cluster.
    return np.argsort(order)[numbers], silhouette


def match_clusters(numbers: Ints1d, others: Ints1d) -> Ints1d:
    """Renumber the clusters of vectors, so that they match other clusters of the same vectors.

    As many vectors as possible get the same number as in the other clusters. *Shape:* `(n,)` each
    """
    from scipy.optimize import linear_sum_assignment

    n = int(max(numbers.max(), others.max())) + 1
    shared = np.zeros((n, n), dtype="int64")
    np.add.at(shared, (numbers, others), 1)
    return linear_sum_assignment(shared, maximize=True)[1][numbers]


def agreement(numbers: Ints1d, senses: Sequence[str]) -> tuple[float, float]:
    """Compute how well clusters agree with gold senses: purity, and adjusted Rand index.

    Purity is the share of occurrences that have the most frequent sense of their cluster. The
    adjusted Rand index (Hubert and Arabie 1985) is 1 for the same division, and 0 on average for a
    random division.

    numbers (Ints1d): The cluster of each occurrence, at least one. *Shape:* `(n,)`
    """
    from sklearn.metrics import adjusted_rand_score
    from sklearn.metrics.cluster import contingency_matrix

    senses = list(senses)
    purity = contingency_matrix(senses, numbers).max(axis=0).sum() / len(numbers)
    return float(purity), float(adjusted_rand_score(senses, numbers))


def typical_words(
    contexts: Sequence[Sequence[str]], numbers: Ints1d, *, n: int = 8
) -> dict[int, list[str]]:
    """Find the words that are typical for the context of each cluster.

    A word is typical if it occurs at least twice in the contexts of a cluster, and is more frequent
    there than in the contexts of other clusters. Words are sorted by the log-odds ratio with an
    informative Dirichlet prior (the counts of all clusters), divided by its standard deviation
    (Monroe et al. 2008, equations 16 to 22).

    contexts (Sequence[Sequence[str]]): The words around each occurrence.
    numbers (Ints1d): The cluster of each occurrence. *Shape:* `(n,)`
    RETURNS (Dict[int, List[str]]): At most n words of each cluster, the most typical first; none if
        the other clusters have no contexts.
    """
    counts = {number: Counter[str]() for number in sorted(set(numbers.tolist()))}
    for context, number in zip(contexts, numbers.tolist()):
        counts[number].update(context)
    total: Counter[str] = sum(counts.values(), Counter())
    return {number: _typical(here, total)[:n] for number, here in counts.items()}


def _typical(here: Counter[str], total: Counter[str]) -> list[str]:
    n_here, n_total = here.total(), total.total()
    if n_here == n_total:
        return []
    scores = {}
    for word, count in here.items():
        prior = total[word]
        elsewhere = prior - count
        ratio = _log_odds(count + prior, n_here + n_total)
        ratio -= _log_odds(elsewhere + prior, 2 * n_total - n_here)
        deviation = math.sqrt(1 / (count + prior) + 1 / (elsewhere + prior))
        scores[word] = ratio / deviation
    found = [word for word, score in scores.items() if score > 0 and here[word] > 1]
    return sorted(found, key=lambda word: (-scores[word], word))


def _log_odds(count: int, total: int) -> float:
    return math.log(count) - math.log(total - count) if count < total else math.inf
