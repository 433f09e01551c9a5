"""Trainer: gradients equal plain autograd, parts of a batch add up, and text is learned."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from spacy_elmo.bilm.lstm import ProjectedLSTM
from spacy_elmo.bilm.sections import SECTIONS
from spacy_elmo.pretraining.profiling import profile_steps, profile_text

from helpers.calls import note_calls
from helpers.plain_lstm import plain_loop
from helpers.trainers import make, run

pytestmark = pytest.mark.training


def gradients_of(trainer):
    """Return the unclipped gradients of the next step by the weight's name, those of rows as a
    table."""
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


@pytest.mark.parametrize(
    ("kind", "optimizer", "precision", "rate", "steps"),
    [
        ("sampled", "adam", "bf16", 0.03, 120),
        ("full", "adamw", "float32", 0.03, 120),
        ("adaptive", "adagrad", "float32", 1.0, 300),
        ("full", "muon", "bf16", 0.03, 120),
    ],
)
def test_a_repeating_text_is_learned(kind, optimizer, precision, rate, steps):
    settings = {"softmax": kind, "optimizer": optimizer, "precision": precision, "n_negatives": 64}
    trainer = make(**settings, learn_rate=rate, max_steps=steps)
    before, _ = trainer.evaluate()
    assert len(run(trainer)) == 1
    figures, _ = trainer.evaluate()
    assert len(trainer.model.vocabulary) == 14
    assert figures.unknown == 0
    assert before.mean > 7
    assert figures.forward < 1.6  # nothing but the first sentence is left to guess
    assert figures.backward < 1.6
    assert trainer.progress.best == pytest.approx(figures.mean)
    assert {x.dtype for x in (trainer.state.cell, *trainer.model.parameters())} == {torch.float32}
    assert trainer.model.bilm.encoder.embedding.weight[0].abs().max() == 0


def test_gradients_equal_plain_autograd(monkeypatch):
    """The loss is written with PyTorch's operations only, without the package's own backward
    passes."""
    trainer = make(softmax="full", state_reset=0.0)
    trainer.step()  # a state to start from
    trainer.model.double()
    state = trainer.state = type(trainer.state)(
        trainer.state.hidden.double(), trainer.state.cell.double()
    )
    window = trainer.read(1, 1).parts[0]
    loss, found = gradients_of(trainer)
    monkeypatch.setattr(ProjectedLSTM, "forward", plain_loop)
    contexts, _ = trainer.bilm_encoder(window.inputs, state)
    softmax = trainer.model.softmax
    targets = torch.from_numpy(window.targets)
    logits = contexts @ softmax.weight.t() + softmax.bias
    expected = F.cross_entropy(logits, targets)
    assert loss == pytest.approx(expected.item(), rel=1e-10)
    names, weights = zip(*trainer.model.named_parameters())
    for name, gradient in zip(names, torch.autograd.grad(expected, weights)):
        torch.testing.assert_close(found[name], gradient, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize(
    ("kind", "directions"), [("sampled", "same"), ("full", "different"), ("adaptive", "same")]
)
def test_accumulated_gradients_are_those_of_the_whole_batch(kind, directions):
    results = []
    for parts in (1, 2, 4):
        how = {"softmax": kind, "directions": directions, "accumulate_gradient": parts}
        trainer = make(**how, state_reset=0.3)
        trainer.model.double()
        trainer.state = trainer.model.bilm.zero_state(4)
        trainer.step()
        loss, gradients = gradients_of(trainer)
        assert trainer.progress.tokens == 2 * 4 * 8
        assert all(gradient.any() for gradient in gradients.values())
        state = {"hidden": trainer.state.hidden, "cell": trainer.state.cell}
        results.append({**gradients, **state, "loss": torch.tensor(loss)})
    for found in results[1:]:
        torch.testing.assert_close(found, results[0], rtol=1e-7, atol=1e-11)


def test_dropout_masks_depend_on_the_parts():
    """With dropout, parts and processes draw their own masks, as the documentation says."""
    losses = [
        [make(dropout=dropout, accumulate_gradient=parts).step() for parts in (1, 2)]
        for dropout in (0.0, 0.5)
    ]
    assert losses[0][0] == pytest.approx(losses[0][1], rel=1e-5)
    assert losses[1][0] != pytest.approx(losses[1][1], rel=1e-3)


def test_bfloat16_is_near_float32():
    exact, low = (gradients_of(make(precision=precision)) for precision in ("float32", "bf16"))
    assert low[0] == pytest.approx(exact[0], rel=1e-2)
    assert low[0] != exact[0]
    for name, gradient in exact[1].items():
        error = (low[1][name] - gradient).norm() / gradient.norm()
        assert 0 < error < 0.05, name
        assert low[1][name].dtype == torch.float32


def test_reports_have_the_losses_since_the_last_one():
    trainer = make(max_steps=2)
    losses = [step() for step in [make(max_steps=2).step] * 2]
    reports = []
    trainer.run(on_evaluation=lambda t, figures, _: reports.append(t.report(figures)))
    (report,) = reports
    assert report["sampled_loss"] == pytest.approx(np.mean(losses))
    wanted = {"step": 2, "tokens": 64, "epoch": pytest.approx(2 / (104 // 32))}
    assert {name: report[name] for name in wanted} == wanted
    assert report["perplexity"]["n_tokens"] == 104
    assert trainer.progress.losses == []


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_state_is_carried_or_reset(monkeypatch, share):
    trainer = make(state_reset=share, batch_size=12)
    trainer.step()
    assert trainer.state.cell.abs().min() > 0
    assert not trainer.state.cell.requires_grad
    pairs = note_calls(monkeypatch, trainer, "bilm_encoder", lambda *args: (args[1], trainer.state))
    for _ in range(12):
        trainer.step()
    n_reset = 0
    for started, before in pairs:  # what a step started from, and what the one before left
        for row in range(12):
            now, old = started.rows([row]), before.rows([row])
            reset = not now.cell.any()
            n_reset += reset
            assert torch.equal(now.hidden, old.hidden * (not reset))
            assert torch.equal(now.cell, old.cell * (not reset))
    assert n_reset / 144 == pytest.approx(share, abs=0.15 if 0 < share < 1 else 0)


def test_the_top_output_has_dropout(monkeypatch):
    trainer = make(dropout=0.4)
    shares = note_calls(
        monkeypatch, trainer.model.softmax, "loss", lambda x, *_: (x == 0).float().mean().item()
    )
    for _ in range(3):
        trainer.step()
    assert np.mean(shares) == pytest.approx(0.4, abs=0.06)


def test_the_optimizers_get_clipped_gradients(monkeypatch):
    trainer = make(grad_clip=1e-3)
    norms = note_calls(
        monkeypatch, trainer.optimizers, "step", lambda _, r: trainer.optimizers.clip(r)
    )
    trainer.step()
    assert norms[0].item() == pytest.approx(1e-3, rel=1e-3)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_is_an_error(value):
    trainer = make()
    trainer.step()
    original = trainer.model.softmax.loss
    trainer.model.softmax.loss = lambda *args: original(*args) * value
    before = [weight.detach().clone() for weight in trainer.model.parameters()]
    with pytest.raises(FloatingPointError, match=r"at step 1: lower learn_rate \(0.01\)"):
        trainer.step()
    assert all(map(torch.equal, trainer.model.parameters(), before))
    assert trainer.progress.step == 1


def test_states_move_to_another_number_of_streams_and_back():
    """The run continues at the same share of the text; only the LSTM states are lost."""
    small = make(batch_size=2)
    for _ in range(5):
        small.step()
    assert (small.progress.tokens, small.window_number) == (80, 5)
    large = make(batch_size=4, unroll_steps=10)
    large.load_state_dict(small.state_dict())
    assert (large.progress.step, large.progress.tokens, large.window_number) == (5, 80, 2)
    assert not large.state.cell.any()
    assert all(map(torch.equal, large.model.parameters(), small.model.parameters()))
    large.step()
    assert (large.progress.step, large.progress.tokens, large.window_number) == (6, 120, 3)
    again = make(batch_size=2)
    again.load_state_dict(large.state_dict())
    assert again.window_number == 7
    assert math.isfinite(again.step())


def test_a_profile_measures_the_parts_of_a_step():
    trainer = make(dropout=0.1)
    result = profile_steps(trainer, 6)
    assert trainer.progress.step == 3 + 6 + 2
    assert {*result["sections"]} == {*SECTIONS}
    spent = [times["cpu"] for times in result["sections"].values()]
    assert min(spent) > 0
    assert sum(spent) <= result["ms_per_step"]
    assert result["tokens_per_second"] == pytest.approx(32 / result["ms_per_step"] * 1000)
    assert all(row["ms"] > 0 and row["calls"] > 0 for row in result["operators"])
    text = profile_text(result)
    assert all(f"\n{name}" in text for name in (*SECTIONS, "other", result["operators"][0]["name"]))
