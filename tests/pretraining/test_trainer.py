import math
import time

import numpy as np
import pytest
import torch
from thinc.api import Config

from spacy_elmo.pretraining import trainer as module
from spacy_elmo.pretraining.config import check_config
from spacy_elmo.pretraining.corpus import read_corpus
from spacy_elmo.pretraining.trainer import Trainer

from models import pretraining_config

TEXT = [["the", "cat", "sat", "on", "a", "mat", "."], ["dogs", "run", "far", "!"]] * 8
CORPUS = read_corpus(TEXT)


def make(**training):
    return Trainer(check_config(Config(pretraining_config(**training))), CORPUS, CORPUS)


def run(trainer):
    evaluations = []
    trainer.run(on_evaluation=lambda t, figures, best: evaluations.append((t.progress.step, best)))
    return evaluations


@pytest.mark.parametrize(
    ("optimizer", "learn_rate"), [("adam", 0.03), ("adagrad", 1.0)], ids=["adam", "adagrad"]
)
def test_learns_a_repeating_text_by_heart(optimizer, learn_rate):
    trainer = make(optimizer=optimizer, learn_rate=learn_rate, max_steps=200, n_negatives=64)
    assert type(trainer.optimizer).__name__.lower() == optimizer
    before, _ = trainer.evaluate()
    run(trainer)
    figures, _ = trainer.evaluate()
    assert len(trainer.model.vocabulary) == 14
    assert before.mean > 7
    assert figures.forward < 1.6  # nothing but the first sentence is left to guess
    assert figures.backward < 1.6
    assert trainer.progress.best == pytest.approx(figures.mean)


def test_same_seed_same_weights():
    weights = []
    for seed in (0, 0, 1):
        config = check_config(Config({**pretraining_config(dropout=0.3), "system": {"seed": seed}}))
        torch.manual_seed(len(weights))  # what went before is no matter
        trainer = Trainer(config, CORPUS, CORPUS)
        run(trainer)
        weights.append(torch.nn.utils.parameters_to_vector(trainer.model.parameters()))
    assert torch.equal(weights[0], weights[1])
    assert (weights[0] - weights[2]).abs().max() > 0.1


def test_every_weight_is_trained():
    trainer = make(max_steps=1)
    before = {name: weight.clone() for name, weight in trainer.model.named_parameters()}
    trainer.step(trainer.batches.at(0))
    for name, weight in trainer.model.named_parameters():
        assert not torch.equal(weight, before[name]), name
    assert trainer.model.bilm.encoder.embedding.weight[0].abs().max() == 0


def test_limits():
    trainer = make(max_steps=4)
    run(trainer)
    assert trainer.progress.step == 4
    trainer = make(max_steps=0, max_epochs=2)
    run(trainer)
    assert trainer.progress.step == 2 * trainer.batches.steps_per_epoch
    items = 2 * trainer.batches.steps_per_epoch * 4 * 8
    assert trainer.progress.tokens == items
    trainer = make(max_steps=10**6, max_minutes=0.5 / 60, max_epochs=10**6)
    started = time.perf_counter()
    run(trainer)
    assert trainer.progress.step > 1
    assert 0.5 <= trainer.progress.seconds <= time.perf_counter() - started < 5
    assert trainer.fraction_done == 1.0
    trainer = make(max_steps=3, max_epochs=10**6)  # the first limit ends the run
    run(trainer)
    assert trainer.progress.step == 3


def test_evaluations():
    trainer = make(max_steps=7, eval_frequency=3)
    evaluations = run(trainer)
    assert [step for step, _ in evaluations] == [3, 6, 7]
    assert evaluations[0][1] is True
    assert [step for step, _ in run(make(max_steps=6, eval_frequency=3))] == [3, 6]


def test_best_is_the_lowest(monkeypatch):
    trainer = make()
    figures, _ = trainer.evaluate()
    values = iter([9.0, 7.0, 8.0, 7.0, math.nan, 6.0])
    monkeypatch.setattr(
        module, "perplexity", lambda *_, **__: type(figures)(1.0, 1.0, next(values), 1, 0.0)
    )
    trainer.progress.best = None
    assert [trainer.evaluate()[1] for _ in range(6)] == [True, True, False, False, False, True]
    assert trainer.progress.best == 6.0


def test_learn_rate():
    trainer = make(learn_rate=0.1, warmup_steps=4, max_steps=10)
    rates = []
    trainer.run(
        on_step=lambda t: rates.append(t.optimizer.param_groups[0]["lr"]),
        on_evaluation=lambda *_: None,
    )
    expected = [0.1 * min(1, (step + 1) / 4) * (1 - step / 10) for step in range(10)]
    np.testing.assert_allclose(rates, expected)
    trainer = make(learn_rate=0.1, warmup_steps=0, decay="none")
    run(trainer)
    assert trainer.optimizer.param_groups[0]["lr"] == 0.1


def test_report():
    trainer = make(max_steps=2)
    losses = []
    original = trainer.step
    trainer.step = lambda window: losses.append(original(window))
    reports = []
    trainer.run(on_evaluation=lambda t, figures, _: reports.append(t.report(figures)))
    assert len(losses) == 2
    report = reports[0]
    assert report["sampled_loss"] == pytest.approx(np.mean(losses))
    assert (report["step"], report["tokens"]) == (2, 64)
    assert report["epoch"] == pytest.approx(2 / (104 // 32))
    assert report["perplexity"]["n_tokens"] == 104


def states_of_steps(trainer, n_steps):
    """What each step started from, and what the one before left."""
    pairs = []
    contexts = trainer.model.contexts
    trainer.model.contexts = lambda *args, **settings: (
        pairs.append((args[2], trainer.state)) or contexts(*args, **settings)
    )
    for step in range(n_steps):
        trainer.step(trainer.batches.at(step + 1))
    return pairs


def test_state_is_carried_and_cut_off():
    trainer = make(state_reset=0.0)
    trainer.step(trainer.batches.at(0))
    assert trainer.state.cell.abs().min() > 0
    assert not trainer.state.cell.requires_grad
    ((started, before),) = states_of_steps(trainer, 1)
    assert torch.equal(started.hidden, before.hidden)
    assert torch.equal(started.cell, before.cell)


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_state_reset(share):
    trainer = make(state_reset=share, batch_size=12)
    trainer.step(trainer.batches.at(0))
    n_reset = 0
    for started, before in states_of_steps(trainer, 12):
        for row in range(12):
            now, old = started.rows([row]), before.rows([row])
            reset = not now.cell.any()
            n_reset += reset
            assert torch.equal(now.hidden, old.hidden * (not reset))
            assert torch.equal(now.cell, old.cell * (not reset))
    assert n_reset / 144 == pytest.approx(share, abs=0.15 if share < 1 else 0)


def test_dropout_on_the_top_output():
    trainer, shares = make(dropout=0.4), []
    original = trainer.model.softmax.sampled_loss

    def sampled_loss(contexts, *args):
        shares.append((contexts == 0).float().mean().item())
        return original(contexts, *args)

    trainer.model.softmax.sampled_loss = sampled_loss
    for step in range(3):
        trainer.step(trainer.batches.at(step))
    assert np.mean(shares) == pytest.approx(0.4, abs=0.06)


def test_gradient_is_clipped():
    trainer = make(grad_clip=1e-3)
    trainer.step(trainer.batches.at(0))
    grads = [w.grad.flatten() for w in trainer.model.parameters() if w.grad is not None]
    assert torch.cat(grads).norm().item() == pytest.approx(1e-3, rel=1e-3)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_loss_that_is_not_finite(value):
    trainer = make()
    trainer.step(trainer.batches.at(0))
    original = trainer.model.softmax.sampled_loss
    trainer.model.softmax.sampled_loss = lambda *args: original(*args) * value
    before = [weight.clone() for weight in trainer.model.bilm.parameters()]
    with pytest.raises(FloatingPointError, match=r"at step 1: lower learn_rate \(0.01\)"):
        trainer.step(trainer.batches.at(1))
    for weight, old in zip(trainer.model.bilm.parameters(), before):
        assert torch.equal(weight, old)
