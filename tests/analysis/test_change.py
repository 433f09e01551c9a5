"""Distances of two groups, and the permutation test against all divisions of a few vectors."""

from itertools import combinations

import numpy as np
import pytest

from spacy_elmo.analysis.change import measure_changes


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def distance(units, chosen):
    one, other = units[chosen].mean(0), units[~chosen].mean(0)
    return 1 - one @ other / np.linalg.norm(one) / np.linalg.norm(other)


def exact(units, blocks, wanted):
    """Distance of the wanted blocks to the others, and the share of all divisions that reach it."""
    names = sorted(set(blocks))
    divisions = [np.isin(blocks, few) for few in combinations(names, len(wanted))]
    distances = np.array([distance(units, chosen) for chosen in divisions])
    found = distance(units, np.isin(blocks, wanted))
    return found, np.mean(distances >= found - 1e-12)


@pytest.mark.parametrize("shift", [0.0, 0.4, 3.0])
def test_a_document_per_occurrence_gives_the_exact_p(shift):
    rng = np.random.default_rng(0)
    units = unit(rng.normal(size=(10, 6)) + 1 + shift * np.outer(np.arange(10) < 4, np.eye(6)[0]))
    docs, labels = [object() for _ in range(10)], ["b"] * 4 + ["a"] * 6
    (change,) = measure_changes(units, labels, docs, n_permutations=9999)
    found, p = exact(units, np.arange(10), range(4))
    assert (change.one, change.other) == ("a", "b")
    assert change.distance == pytest.approx(found)
    # Four standard deviations of a share of 9,999 draws.
    assert change.p == pytest.approx(p, abs=4 * (p * (1 - p) / 9999) ** 0.5 + 1e-4)
    assert measure_changes(units, labels, docs, n_permutations=9999) == [change]


def test_the_permutation_test_divides_whole_documents():
    """Ten occurrences in one Doc are one observation, unless the Doc has both labels."""
    rng = np.random.default_rng(1)
    blocks = np.repeat(np.arange(6), 10)
    units = unit(rng.normal(size=(6, 4))[blocks] + 0.01 * rng.normal(size=(60, 4)))
    docs, labels = [str(block) for block in range(6)], np.where(blocks < 3, "a", "b").tolist()
    each = [docs[block] for block in blocks]
    (change,) = measure_changes(units, labels, each, n_permutations=1999)
    _, p = exact(units, blocks, range(3))
    assert change.p == pytest.approx(p, abs=4 * (p * (1 - p) / 1999) ** 0.5 + 1e-3)
    assert change.p > 0.05  # There are only 20 divisions, each with its complement.
    labels[0] = "b"
    (change,) = measure_changes(units, labels, each)
    assert change.p == 0.001


def test_incomparable_or_equal_groups_show_no_change():
    units, docs = np.tile(np.eye(3)[0], (9, 1)), [object() for _ in range(9)]
    assert measure_changes(units, [""] * 9, docs) == []
    assert measure_changes(units, [*"abcdefghi"], docs) == []
    same = measure_changes(units, [*"aaabbbccc"], docs)
    assert [(one.one, one.other, round(one.distance, 9), one.p) for one in same] == [
        ("a", "b", 0.0, 1.0),
        ("a", "c", 0.0, 1.0),
        ("b", "c", 0.0, 1.0),
    ]
    zeros = measure_changes(np.zeros((9, 3)), [*"aaaabbbbb"], docs)
    assert zeros[0].p == 1.0
