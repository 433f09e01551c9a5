"""When a run ends, when it evaluates, and the learning rate over it."""

from types import SimpleNamespace

import numpy as np

from spacy_elmo.pretraining import clock as clocks
from spacy_elmo.pretraining import trainer as module

from helpers.trainers import CORPUS, make, run


def test_limits_of_steps_epochs_and_tokens():
    trainer = make(max_steps=4)
    run(trainer)
    assert trainer.progress.step == 4
    assert trainer.fraction_done == 1.0
    trainer = make(max_steps=0, max_epochs=2)
    run(trainer)
    assert trainer.progress.step == 2 * trainer.batches.steps_per_epoch
    assert trainer.progress.tokens == 2 * trainer.batches.steps_per_epoch * 4 * 8
    trainer = make(max_steps=0, max_tokens=100)  # 32 a step
    run(trainer)
    assert trainer.progress.step == 4
    trainer = make(max_steps=3, max_epochs=10**6, max_tokens=10**9)  # the first one counts
    run(trainer)
    assert trainer.progress.step == 3


def fake_clock(monkeypatch, seconds):
    """Every look at the clock takes so long."""
    now = [1000.0]

    def tick():
        now[0] += seconds
        return now[0]

    clock = SimpleNamespace(monotonic=tick, perf_counter=tick)
    for one in (module, clocks):
        monkeypatch.setattr(one, "time", clock)


def test_limit_of_minutes(monkeypatch):
    """Evaluations and all; and the learning rate falls with it."""
    fake_clock(monkeypatch, 10.0)  # 30 seconds a step: its start, its end, the loop's look
    trainer = make(max_steps=0, max_minutes=3, warmup_steps=0, decay="linear", learn_rate=0.1)
    rates = []
    run(trainer, on_step=lambda t: rates.append(t.optimizers.of_bilm.param_groups[0]["lr"]))
    assert trainer.progress.step == 6
    assert trainer.progress.elapsed == 180
    assert trainer.progress.seconds == 60
    np.testing.assert_allclose(rates, [0.1 * (1 - step / 6) for step in range(6)])


def test_elapsed_time_goes_on(monkeypatch):
    fake_clock(monkeypatch, 10.0)
    trainer = make(max_steps=0, max_minutes=3)
    trainer.progress.elapsed = 100.0
    run(trainer)
    assert trainer.progress.step == 3


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
    assert trainer.progress.step == 12
    assert trainer.is_over
    assert trainer.fraction_done == 0.12


def test_evaluations():
    trainer = make(max_steps=7, eval_frequency=3)
    evaluations = run(trainer)
    assert [step for step, _ in evaluations] == [3, 6, 7]
    assert evaluations[0][1] is True
    assert [step for step, _ in run(make(max_steps=6, eval_frequency=3))] == [3, 6]


def test_evaluation_of_some_tokens():
    trainer = make(eval_tokens=20, eval_streams=4)
    assert trainer.evaluate()[0].n_tokens == 20
    assert make(eval_tokens=0, eval_streams=4).evaluate()[0].n_tokens == len(CORPUS.tokens)


def test_best_is_the_lowest(monkeypatch):
    trainer = make()
    figures, _ = trainer.evaluate()
    values = iter([9.0, 7.0, 8.0, 7.0, 6.0])
    monkeypatch.setattr(
        module, "perplexity", lambda *_, **__: type(figures)(1.0, 1.0, next(values), 1, 0.0)
    )
    trainer.progress.best = None
    assert [trainer.evaluate()[1] for _ in range(5)] == [True, True, False, False, True]
    assert trainer.progress.best == 6.0


def test_learn_rate():
    trainer = make(learn_rate=0.1, warmup_steps=4, max_steps=10, decay="linear")
    rates = []
    run(trainer, on_step=lambda t: rates.append(t.optimizers.of_bilm.param_groups[0]["lr"]))
    expected = [0.1 * min(1, (step + 1) / 4) * (1 - step / 10) for step in range(10)]
    np.testing.assert_allclose(rates, expected)
    trainer = make(learn_rate=0.1, warmup_steps=0, decay="none")
    run(trainer)
    for optimizer in (trainer.optimizers.of_bilm, trainer.optimizers.of_softmax):
        assert optimizer.param_groups[0]["lr"] == 0.1
