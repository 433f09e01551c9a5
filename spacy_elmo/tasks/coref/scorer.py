"""Scores of coreference: MUC, B3, CEAF, LEA and mentions."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from spacy.training import Example

from ...registry import registry
from .clusters import PREFIX, predicted_clusters, read_clusters
from .spans import Cluster, Clusters, Mention

CLUSTER_METRICS = ("muc", "b3", "ceafe", "lea", "mentions")
MEAN_OF = ("muc", "b3", "ceafe")


class ClusterCounts(NamedTuple):
    """Counts of one metric: precision is `p_right / p_all`, and recall is `r_right / r_all`.

    A metric counts links, mentions or clusters; for several documents, each count is summed.
    """

    p_right: float = 0.0
    p_all: float = 0.0
    r_right: float = 0.0
    r_all: float = 0.0

    def scores(self) -> dict[str, float]:
        """Return precision "p", recall "r" and F-score "f", from 0 to 1."""
        p = self.p_right / self.p_all if self.p_all else 0.0
        r = self.r_right / self.r_all if self.r_all else 0.0
        return {"p": p, "r": r, "f": 2 * p * r / (p + r) if p + r else 0.0}


DocCounts = dict[str, ClusterCounts]  # Keys are metrics.


@registry.scorers("spacy-elmo.coref_scorer.v1")
def make_coref_scorer() -> Callable:
    """Return the scorer of `elmo_coref`, the function `score_coref`."""
    return score_coref


def score_coref(
    examples: Iterable[Example],
    *,
    span_cluster_prefix: str = PREFIX,
    singletons: bool = True,
    **kwargs: Any,
) -> dict[str, Any]:
    """Compute precision, recall and F-score of MUC, B3, CEAF (phi 4), LEA and mentions.

    Counts are summed over documents, as in the reference scorer of CoNLL 2012 (Pradhan et al.
    2014). Examples whose reference has no annotation of clusters are skipped.

    The scores are:

    * `coref_f`: the mean of the F-scores of MUC, B3 and CEAF;
    * `coref_muc_p`, `coref_muc_r`, `coref_muc_f`, and the same with b3, ceafe, lea and mentions;
    * `coref_counts`: the `ClusterCounts` of each document, by metric.

    If the prefix is not the default, for example `people`, the same scores are also returned as
    `people_f`, `people_muc_p` and so on, so that several components do not overwrite each other's
    scores.

    singletons (bool): Whether clusters of one mention count.
    RETURNS (Dict[str, Any]): Scores are None if there is nothing to count.
    """
    least = 1 if singletons else 2
    counts = []
    for example in examples:
        gold = read_clusters(example.reference, span_cluster_prefix)
        if gold is not None:
            sides = (predicted_clusters(example, span_cluster_prefix), gold)
            counts.append(count_clusters(*([c for c in s if len(c) >= least] for s in sides)))
    scores = {**total_scores(counts), "coref_counts": counts or None}
    if span_cluster_prefix == PREFIX:
        return scores
    own = {f"{span_cluster_prefix}{key.removeprefix('coref')}": scores[key] for key in scores}
    return {**scores, **own}


def total_scores(counts: Sequence[DocCounts]) -> dict[str, Any]:
    """Compute the scores of `score_coref`, without `coref_counts`, from counts of documents."""
    scores: dict[str, Any] = {"coref_f": None}
    for metric in CLUSTER_METRICS:
        total = ClusterCounts(*(sum(column) for column in zip(*(doc[metric] for doc in counts))))
        found = total.scores() if total.p_all or total.r_all else dict.fromkeys("prf")
        scores |= {f"coref_{metric}_{key}": value for key, value in found.items()}
    if scores["coref_mentions_f"] is not None:
        # MUC counts links, so it has no score if all clusters have one mention. It counts as 0.
        scores["coref_f"] = sum(scores[f"coref_{metric}_f"] or 0.0 for metric in MEAN_OF) / 3
    return scores


def count_clusters(found: Clusters, gold: Clusters) -> DocCounts:
    """Compare the predicted and the gold clusters of a document. Return counts by metric."""
    mentions, gold_mentions = ({m for c in side for m in c} for side in (found, gold))
    both = len(mentions & gold_mentions)
    similarity = ceafe(found, gold)
    return {
        "muc": ClusterCounts(*muc(found, gold), *muc(gold, found)),
        "b3": ClusterCounts(*b_cubed(found, gold), *b_cubed(gold, found)),
        "ceafe": ClusterCounts(similarity, len(found), similarity, len(gold)),
        "lea": ClusterCounts(*lea(found, gold), *lea(gold, found)),
        "mentions": ClusterCounts(both, len(mentions), both, len(gold_mentions)),
    }


def muc(clusters: Clusters, others: Clusters) -> tuple[int, int]:
    """Count the right links that join the mentions of clusters, and all links (Vilain et al. 1995).

    A cluster of n mentions has n - 1 links. If `others` splits it into k parts, n - k links are
    right. For recall, `clusters` is gold and `others` is predicted; for precision, it is the
    reverse.
    """
    # A mention that `others` does not contain is a part of its own, so it does not change n - k.
    right = sum(parts.total() - len(parts) for _, parts in _parts(clusters, others))
    return right, sum(len(cluster) - 1 for cluster in clusters)


def b_cubed(clusters: Clusters, others: Clusters) -> tuple[float, int]:
    """Add up the correct shares of the clusters of all mentions (Bagga and Baldwin 1998).

    For a mention with the cluster A in `clusters` and B in `others`, the share is `|A & B| / |A|`.
    The arguments are the same as in `muc`.

    RETURNS (Tuple[float, int]): The sum, and the number of mentions in `clusters`.
    """
    pairs = _parts(clusters, others)
    right = sum(n * n / len(cluster) for cluster, parts in pairs for n in parts.values())
    return right, sum(map(len, clusters))


def ceafe(clusters: Clusters, others: Clusters) -> float:
    """Match each cluster with at most one cluster of `others` (Luo 2005).

    The similarity of two clusters k and r is phi 4, `2 |k & r| / (|k| + |r|)`. The arguments are
    those of `muc`.

    RETURNS (float): The sum of the similarities in the best matching.
    """
    from scipy.optimize import linear_sum_assignment

    similarity = np.zeros((len(clusters), len(others)))
    for i, (cluster, parts) in enumerate(_parts(clusters, others)):
        for j, n in parts.items():
            similarity[i, j] = 2 * n / (len(cluster) + len(others[j]))
    return float(similarity[linear_sum_assignment(similarity, maximize=True)].sum())


def lea(clusters: Clusters, others: Clusters) -> tuple[float, int]:
    """Sum each cluster's size times its share of right links (Moosavi and Strube 2016).

    A cluster has a link between each two of its mentions. A link is right if one cluster of
    `others` also contains both mentions. A cluster of one mention is right if it is also in
    `others`. The arguments are those of `muc`.

    RETURNS (Tuple[float, int]): The sum, and the sum of the clusters' sizes.
    """
    right = 0.0
    for cluster, parts in _parts(clusters, others):
        if len(cluster) == 1:
            right += any(len(others[j]) == 1 for j in parts)
        else:
            right += sum(n * (n - 1) for n in parts.values()) / (len(cluster) - 1)
    return right, sum(map(len, clusters))


def _parts(clusters: Clusters, others: Clusters) -> Iterable[tuple[Cluster, Counter[int]]]:
    """Yield each cluster, and for each index j the number of its mentions in `others[j]`."""
    place: dict[Mention, int] = {m: j for j, other in enumerate(others) for m in other}
    for cluster in clusters:
        yield cluster, Counter(place[mention] for mention in cluster if mention in place)
