"""The interval of a difference over test documents, against the normal distribution."""

import numpy as np
import pytest

from spacy_elmo.tasks.coref.scorer import CLUSTER_METRICS

from helpers.scored_runs import make_run
from scripts.experiments.bootstrap import interval


def run(variant, right, seed=0):
    """Return a run whose documents have the given numbers of right mentions, of ten."""
    counts = [{name: [n, 10, n, 10] for name in CLUSTER_METRICS} for n in right]
    return make_run(f"coref litbank_coref {variant}", seed, counts=counts)


@pytest.mark.parametrize(
    ("base", "other", "gain"), [([4] * 5, [6] * 5, 0.2), ([1, 5, 9], [0, 4, 8], -0.1)]
)
def test_equal_gains_have_no_interval(base, other, gain):
    """Documents are drawn in pairs, so differences between documents do not widen the interval."""
    found = interval([run("tok2vec", base)], [run("input", other)], 50)
    assert found == pytest.approx((gain, gain, gain))


def test_the_interval_is_that_of_the_mean_gain_per_document():
    gains = np.random.default_rng(0).integers(-3, 6, size=40)
    base = [run("tok2vec", [4] * 40, seed) for seed in (0, 1)]
    other = [run("input", 4 + gains, 0), run("input", 4 + gains[::-1], 1)]
    mean, low, high = interval(base, other, 600)
    assert mean == pytest.approx(gains.mean() / 10)
    both = (gains + gains[::-1]) / 20
    half = 1.96 * both.std() / 40**0.5
    assert (low, high) == pytest.approx((mean - half, mean + half), abs=0.2 * half)


def test_other_documents_are_refused():
    with pytest.raises(ValueError, match=r"\[2, 3\]"):
        interval([run("tok2vec", [1, 2])], [run("input", [1, 2, 3])], 5)
