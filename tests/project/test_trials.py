"""Plans of the experiments have every row, and shares are nested."""

from collections import defaultdict
from itertools import product

import pytest

from scripts.experiments import trials
from scripts.experiments.trial_config import choose


def test_full_plan_has_every_row_with_every_seed():
    rows = {(name, *row) for name, parts in trials.ROWS.items() for row in product(*parts)}
    plan = [trial for trial in trials.full_plan() if trial.share == 1.0]
    found = [(t.experiment, t.data, t.variant, t.seed) for t in plan]
    assert sorted(found) == sorted((*row, seed) for row in rows for seed in (0, 1, 2))
    shares = defaultdict(set)
    for trial in trials.full_plan():
        shares[trial.experiment, trial.data].add(trial.share)
    few = [0.01, 0.03, 0.1, 0.3, 1.0]
    assert shares.pop(("sample_efficiency", "ud_ewt")) == {*few}
    assert shares.pop(("sample_efficiency", "uner_ewt")) == {*few, 0.5}
    assert all(found == {1.0} for found in shares.values())


def test_quick_plan_has_every_experiment():
    """Its rows have one seed, and never all sentences."""
    plans = (trials.quick_plan(), trials.full_plan())
    quick, full = ({(t.experiment, t.data, t.variant) for t in plan} for plan in plans)
    assert quick == full
    assert {t.seed for t in plans[0]} == {0}
    shares = {(t.experiment == "sample_efficiency", t.share) for t in plans[0]}
    assert shares == {(True, 0.01), (True, 0.1), (False, 0.1)}


@pytest.mark.parametrize("n_examples", [1, 57, 3394])
def test_shares_are_nested(n_examples):
    """The sentences of 1 % are part of those of 3 %, and so on.

    Every share has its size. Shares of two seeds differ.
    """
    previous: set[int] = set()
    for share in (0.01, 0.03, 0.1, 0.3, 0.5, 1.0):
        chosen = choose(n_examples, share, seed=3)
        assert chosen == sorted(set(chosen)) == choose(n_examples, share, seed=3)
        assert previous <= set(chosen) <= set(range(n_examples))
        assert len(chosen) == max(1, round(share * n_examples))
        previous = set(chosen)
    assert len(previous) == n_examples
    both = set(choose(1000, 0.1, seed=0)) & set(choose(1000, 0.1, seed=1))
    assert len(both) < 40  # 10 would be chance
