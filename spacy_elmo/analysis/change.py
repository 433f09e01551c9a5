"""Change of the use of a word between two groups of occurrences, such as two centuries.

The measure is the cosine distance of the groups' mean vectors (Kutuzov and Giulianelli 2020, there
called *inverted similarity over word prototypes*). Two groups always differ a little, and small
groups differ more. So a permutation test compares the distance with the distances of random groups
of the same occurrences, as Liu et al. (2021) do for contextual vectors.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from thinc.types import Floats2d

N_PERMUTATIONS = 999
MAX_LABELS = 8
ROUNDING = 1e-9  # Distances of equal groups differ by less than this in float64.


class Change(NamedTuple):
    """Distance of two groups of occurrences, and the result of the permutation test.

    one (str): Label of the first group.
    other (str): Label of the second group.
    distance (float): Cosine distance of the mean vectors, from 0 to 2.
    p (float): Share of random divisions with at least this distance, counting the real one.
    """

    one: str
    other: str
    distance: float
    p: float


def measure_changes(
    units: Floats2d,
    labels: Sequence[str],
    docs: Sequence[object],
    *,
    n_permutations: int = N_PERMUTATIONS,
    seed: int = 0,
) -> list[Change]:
    """Compare each two groups of occurrences of a word.

    If all occurrences in each Doc have the same label, the test shuffles the labels of whole Docs,
    because occurrences in the same Doc depend on each other. Otherwise it shuffles the labels of
    occurrences.

    units (Floats2d): Vectors of length 1. *Shape:* `(n, width)`
    labels (Sequence[str]): The label of each occurrence.
    n_permutations (int): Number of random divisions of each two groups.
    RETURNS (List[Change]): Sorted by label. Empty if there are more than 8 labels.
    """
    known = sorted(set(labels))
    if len(known) > MAX_LABELS:
        return []
    units, names = np.asarray(units, dtype="float64"), np.array(labels)
    ids = np.array([id(doc) for doc in docs])
    changes = []
    for one, other in combinations(known, 2):
        chosen = (names == one) | (names == other)
        distances = _permuted(
            units[chosen], names[chosen] == one, ids[chosen], n_permutations, seed
        )
        # The real division is the first of the list, so p is never 0 (Phipson and Smyth 2010).
        p = float(np.mean(distances >= distances[0] - ROUNDING))
        changes.append(Change(one, other, float(distances[0]), p))
    return changes


def _permuted(
    units: Floats2d, is_one: np.ndarray, ids: np.ndarray, n_permutations: int, seed: int
) -> np.ndarray:
    """Return the distance of the real division, and of random ones. *Shape:* `(1 + n,)`."""
    _, blocks = np.unique(ids, return_inverse=True)
    n_of_one = np.bincount(blocks, weights=is_one)
    if np.any((n_of_one > 0) & (n_of_one < np.bincount(blocks))):
        blocks, n_of_one = np.arange(len(units)), is_one
    sums = np.zeros((blocks.max() + 1, units.shape[1]))
    np.add.at(sums, blocks, units)
    rng = np.random.default_rng(seed)
    real = (n_of_one > 0).astype("float64")
    divisions = np.vstack([real, rng.permuted(np.tile(real, (n_permutations, 1)), axis=1)])
    # The cosine of two means is the cosine of two sums, because lengths do not change a cosine.
    first = divisions @ sums
    second = sums.sum(axis=0) - first
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    products = np.einsum("ij,ij->i", first, second)
    # Rounding must not make a distance negative.
    return np.maximum(0.0, 1.0 - products / np.where(lengths == 0, 1, lengths))
