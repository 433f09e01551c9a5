"""When a run ends, when it evaluates, and the learning rate over it."""

from types import SimpleNamespace

import numpy as np
import pytest

from spacy_elmo.pretraining import clock as clocks
from spacy_elmo.pretraining import trainer as module

from helpers.trainers import CORPUS, make, run


@pytest.mark.parametrize(
    ("limits", "n_steps"),
    [
        ({"max_steps": 4}, 4),
        ({"max_epochs": 2}, 2 * (104 // 32)),
        ({"max_tokens": 100}, 4),  # 32 a step
        ({"max_steps": 3, "max_epochs": 10**6, "max_tokens": 10**9}, 3),  # the first one counts
    ],
)
def test_limits_of_steps_epochs_and_tokens(limits, n_steps):
    trainer = make(**{"max_steps": 0, **limits})
    run(trainer)
    assert (trainer.progress.step, trainer.progress.tokens) == (n_steps, 32 * n_steps)
    assert trainer.fraction_done == 1.0


def fake_clock(monkeypatch, seconds):
    """Every look at the clock takes so long."""
    now = [1000.0]

    def tick():
        now[0] += seconds
        return now[0]

    clock = SimpleNamespace(monotonic=tick, perf_counter=tick)
    for one in (module, clocks):
        monkeypatch.setattr(one, "time", clock)


@pytest.mark.parametrize(("elapsed", "n_steps"), [(0.0, 6), (100.0, 3)])
def test_limit_of_minutes(monkeypatch, elapsed, n_steps):
    """Evaluations and all, and what went before; the learning rate falls with it."""
    fake_clock(monkeypatch, 10.0)  # 30 seconds a step: its start, its end, the loop's look
    trainer = make(max_steps=0, max_minutes=3, warmup_steps=0, decay="linear", learn_rate=0.1)
    trainer.progress.elapsed = elapsed
    rates = []
    run(trainer, on_step=lambda t: rates.append(t.optimizers.bilm_optimizer.param_groups[0]["lr"]))
    assert trainer.progress.step == n_steps
    assert trainer.progress.elapsed == elapsed + 30 * n_steps
    assert trainer.progress.seconds == 10 * n_steps
    expected = [0.1 * (1 - (elapsed + 30 * step) / 180) for step in range(n_steps)]
    np.testing.assert_allclose(rates, expected)


def test_patience(monkeypatch):
    """Evaluations since the best one; as good as the best is not better."""
    trainer = make(max_steps=100, eval_frequency=2, patience=3)
    figures, _ = trainer.evaluate()
    trainer.progress.best = None
    values = iter([9.0, 9.5, 8.0, 8.0, 8.5, 8.1, 1.0])
    monkeypatch.setattr(
        module, "perplexity", lambda *_, **__: type(figures)(1.0, 1.0, next(values), 1, 0.0)
    )
    evaluations = run(trainer)
    assert [best for _, best in evaluations] == [True, False, True, False, False, False]
    assert trainer.progress.best == 8.0
    assert trainer.progress.step == 12
    assert trainer.is_over
    assert trainer.fraction_done == 0.12


def test_evaluation_of_some_tokens():
    trainer = make(eval_tokens=20, eval_streams=4)
    assert trainer.evaluate()[0].n_tokens == 20
    assert make(eval_tokens=0, eval_streams=4).evaluate()[0].n_tokens == len(CORPUS.tokens)
