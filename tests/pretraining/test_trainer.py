import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from spacy_elmo.bilm.lstm import ProjectedLSTM

from helpers.plain_lstm import plain_loop
from helpers.trainers import CORPUS, make, run

KINDS = ["sampled", "full", "adaptive"]


def weights_of(trainer):
    return torch.nn.utils.parameters_to_vector(trainer.model.parameters()).detach()


def gradients_of(trainer):
    """Of the next step, unclipped, by the weight's name; those of the rows as a table."""
    found = {}

    def step(learn_rate, rows):
        for name, weight in trainer.model.named_parameters():
            gradient = weight.grad
            if rows is not None and name.startswith("softmax."):
                part = getattr(rows, name.removeprefix("softmax."))
                gradient = torch.zeros_like(weight).index_copy_(0, rows.words, part.grad)
            found[name] = None if gradient is None else gradient.clone()
        trainer.model.zero_grad()

    trainer.optimizers.step = step
    trainer.optimizers.clip = lambda rows: torch.zeros(())
    loss = trainer.step()
    del trainer.optimizers.step, trainer.optimizers.clip
    return loss, found


# Rates that suit a text this small.
RATES = {"adam": 0.03, "adamw": 0.03, "adagrad": 1.0, "muon": 0.03}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("optimizer", RATES)
def test_learns_a_repeating_text_by_heart(kind, optimizer):
    precision = "bf16" if optimizer in ("adam", "muon") else "float32"
    steps = 300 if optimizer == "adagrad" else 200
    settings = {"softmax": kind, "optimizer": optimizer, "learn_rate": RATES[optimizer]}
    trainer = make(**settings, precision=precision, max_steps=steps, n_negatives=64)
    before, _ = trainer.evaluate()
    assert len(run(trainer)) == 1
    figures, _ = trainer.evaluate()
    assert len(trainer.model.vocabulary) == 14
    assert figures.unknown == 0
    assert before.mean > 7
    assert figures.forward < 1.6  # nothing but the first sentence is left to guess
    assert figures.backward < 1.6
    assert trainer.progress.best == pytest.approx(figures.mean)
    assert trainer.state.cell.dtype == torch.float32
    assert all(weight.dtype == torch.float32 for weight in trainer.model.parameters())
    assert trainer.model.bilm.encoder.embedding.weight[0].abs().max() == 0


def test_same_seed_same_weights():
    weights = []
    for seed in (0, 0, 1):
        torch.manual_seed(len(weights))  # what went before is no matter
        trainer = make(seed, dropout=0.3)
        run(trainer)
        weights.append(weights_of(trainer))
    assert torch.equal(weights[0], weights[1])
    assert (weights[0] - weights[2]).abs().max() > 0.1


def test_gradients_by_plain_autograd(monkeypatch):
    """Those of the loss written down with PyTorch's operations alone, without the package's
    own backward passes."""
    trainer = make(softmax="full", state_reset=0.0)
    trainer.step()  # a state to start from
    trainer.model.double()
    state = trainer.state = type(trainer.state)(
        trainer.state.hidden.double(), trainer.state.cell.double()
    )
    window = trainer.batches.at(1)
    loss, found = gradients_of(trainer)
    monkeypatch.setattr(ProjectedLSTM, "forward", plain_loop)
    contexts, _ = trainer.contexts(window, CORPUS.types, state)
    softmax = trainer.model.softmax
    targets = torch.from_numpy(trainer.words[window.targets].ravel())
    logits = contexts @ softmax.weight.t() + softmax.bias
    expected = F.cross_entropy(logits, targets)
    assert loss == pytest.approx(expected.item(), rel=1e-10)
    names, weights = zip(*trainer.model.named_parameters())
    for name, gradient in zip(names, torch.autograd.grad(expected, weights)):
        torch.testing.assert_close(found[name], gradient, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("directions", ["same", "different"])
def test_accumulated_gradients_are_those_of_the_whole_batch(kind, directions):
    results = []
    for parts in (1, 2, 4):
        trainer = make(
            softmax=kind, directions=directions, accumulate_gradient=parts, state_reset=0.3
        )
        trainer.model.double()
        trainer.state = trainer.model.bilm.zero_state(4)
        trainer.step()
        results.append((*gradients_of(trainer), trainer.state, trainer.progress.tokens))
    loss, gradients, state, tokens = results[0]
    assert tokens == 2 * 4 * 8
    for other_loss, others, other_state, other_tokens in results[1:]:
        assert other_loss == pytest.approx(loss, rel=1e-10)
        assert other_tokens == tokens
        assert all(gradient.any() for gradient in gradients.values())
        torch.testing.assert_close(others, gradients, rtol=1e-7, atol=1e-11)
        for ours, theirs in ((other_state.hidden, state.hidden), (other_state.cell, state.cell)):
            torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-11)


def test_batch_that_cannot_be_accumulated():
    with pytest.raises(ValueError, match=r"8, 1 fit the text\) must be a multiple of 4"):
        make(batch_size=8, unroll_steps=100, accumulate_gradient=4)


def test_bfloat16_is_near_float32():
    exact, low = (gradients_of(make(precision=precision)) for precision in ("float32", "bf16"))
    assert low[0] == pytest.approx(exact[0], rel=1e-2)
    assert low[0] != exact[0]
    for name, gradient in exact[1].items():
        error = (low[1][name] - gradient).norm() / gradient.norm()
        assert 0 < error < 0.05, name
        assert low[1][name].dtype == torch.float32


def test_report():
    trainer = make(max_steps=2)
    losses, reports, original = [], [], trainer.step
    trainer.step = lambda: losses.append(original())
    trainer.run(on_evaluation=lambda t, figures, _: reports.append(t.report(figures)))
    assert len(losses) == 2
    report = reports[0]
    assert report["sampled_loss"] == pytest.approx(np.mean(losses))
    assert (report["step"], report["tokens"]) == (2, 64)
    assert report["epoch"] == pytest.approx(2 / (104 // 32))
    assert report["perplexity"]["n_tokens"] == 104
    assert trainer.progress.losses == []


def states_of_steps(trainer, n_steps):
    """What each step started from, and what the one before left."""
    pairs = []
    contexts = trainer.contexts
    trainer.contexts = lambda *args: pairs.append((args[2], trainer.state)) or contexts(*args)
    for _ in range(n_steps):
        trainer.step()
    return pairs


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_state_is_carried_or_reset(share):
    trainer = make(state_reset=share, batch_size=12)
    trainer.step()
    assert trainer.state.cell.abs().min() > 0
    assert not trainer.state.cell.requires_grad
    n_reset = 0
    for started, before in states_of_steps(trainer, 12):
        for row in range(12):
            now, old = started.rows([row]), before.rows([row])
            reset = not now.cell.any()
            n_reset += reset
            assert torch.equal(now.hidden, old.hidden * (not reset))
            assert torch.equal(now.cell, old.cell * (not reset))
    assert n_reset / 144 == pytest.approx(share, abs=0.15 if 0 < share < 1 else 0)


def test_dropout_on_the_top_output():
    trainer, shares = make(dropout=0.4), []
    original = trainer.model.softmax.loss

    def loss(contexts, *args):
        shares.append((contexts == 0).float().mean().item())
        return original(contexts, *args)

    trainer.model.softmax.loss = loss
    for _ in range(3):
        trainer.step()
    assert np.mean(shares) == pytest.approx(0.4, abs=0.06)


def test_clipped_gradient_is_what_the_optimizers_get():
    trainer, norms = make(grad_clip=1e-3), []
    original = trainer.optimizers.step

    def step(learn_rate, rows):
        gradients = [gradient.flatten() for gradient in trainer.optimizers.gradients(rows)]
        norms.append(torch.cat(gradients).norm().item())
        original(learn_rate, rows)

    trainer.optimizers.step = step
    trainer.step()
    assert norms == [pytest.approx(1e-3, rel=1e-3)]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_loss_that_is_not_finite(value):
    trainer = make()
    trainer.step()
    original = trainer.model.softmax.loss
    trainer.model.softmax.loss = lambda *args: original(*args) * value
    before = weights_of(trainer).clone()
    with pytest.raises(FloatingPointError, match=r"at step 1: lower learn_rate \(0.01\)"):
        trainer.step()
    assert torch.equal(weights_of(trainer), before)
    assert trainer.progress.step == 1


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "adagrad", "muon"])
def test_evaluations_see_the_weights_of_their_step(optimizer):
    """Not vectors of tokens that were kept from an earlier evaluation."""
    trainer = make(optimizer=optimizer, learn_rate=0.1)
    for _ in range(3):
        figures, _ = trainer.evaluate()
        fresh = make(1)
        fresh.model.load_state_dict(trainer.model.state_dict())
        assert figures == fresh.evaluate()[0]
        trainer.step()
