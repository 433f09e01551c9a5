import math
import os
import signal
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from thinc.api import Config

from spacy_elmo.pretraining import trainer as module
from spacy_elmo.pretraining.config import check_config
from spacy_elmo.pretraining.corpus import read_corpus
from spacy_elmo.pretraining.trainer import Trainer

from models import pretraining_config

TEXT = [["the", "cat", "sat", "on", "a", "mat", "."], ["dogs", "run", "far", "!"]] * 8
CORPUS = read_corpus(TEXT)
KINDS = ["sampled", "full", "adaptive"]


def make(seed=0, **training):
    settings = {**pretraining_config(**training), "system": {"seed": seed}}
    return Trainer(check_config(Config(settings)), CORPUS, CORPUS)


def run(trainer, **settings):
    evaluations = []
    trainer.run(
        on_evaluation=lambda t, figures, best: evaluations.append((t.progress.step, best)),
        **settings,
    )
    return evaluations


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
    trainer.optimizers.clip = lambda rows: None
    loss = trainer.step()
    del trainer.optimizers.step, trainer.optimizers.clip
    return loss, found


@pytest.mark.parametrize("optimizer", ["adam", "adagrad"])
def test_learns_a_repeating_text_by_heart(optimizer):
    rate = {"adam": 0.03, "adagrad": 1.0}[optimizer]
    trainer = make(optimizer=optimizer, learn_rate=rate, max_steps=200, n_negatives=64)
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
        torch.manual_seed(len(weights))  # what went before is no matter
        trainer = make(seed, dropout=0.3)
        run(trainer)
        weights.append(weights_of(trainer))
    assert torch.equal(weights[0], weights[1])
    assert (weights[0] - weights[2]).abs().max() > 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_every_weight_is_trained(kind):
    trainer = make(max_steps=1, softmax=kind, n_negatives=500)
    before = {name: weight.clone() for name, weight in trainer.model.named_parameters()}
    trainer.step()
    for name, weight in trainer.model.named_parameters():
        assert not torch.equal(weight, before[name]), name
    assert trainer.model.bilm.encoder.embedding.weight[0].abs().max() == 0


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
    monkeypatch.setattr(
        module.Contexts.__module__.replace("pretraining.language_model", "bilm.lstm")
        + ".ProjectedLSTM.forward",
        lambda self, *args: self.loop(*args[:4]),
    )
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
        assert others.keys() == gradients.keys()
        for name, gradient in gradients.items():
            assert gradient.any(), name
            torch.testing.assert_close(others[name], gradient, rtol=1e-7, atol=1e-11)
        torch.testing.assert_close(other_state.hidden, state.hidden, rtol=1e-7, atol=1e-11)
        torch.testing.assert_close(other_state.cell, state.cell, rtol=1e-7, atol=1e-11)


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


def test_bfloat16_learns():
    trainer = make(precision="bf16", learn_rate=0.03, max_steps=200, n_negatives=64)
    run(trainer)
    assert trainer.progress.best < 1.6
    assert trainer.state.cell.dtype == torch.float32
    assert all(weight.dtype == torch.float32 for weight in trainer.model.parameters())


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
    monkeypatch.setattr(module, "time", clock)


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
    values = iter([9.0, 7.0, 8.0, 7.0, math.nan, 6.0])
    monkeypatch.setattr(
        module, "perplexity", lambda *_, **__: type(figures)(1.0, 1.0, next(values), 1, 0.0)
    )
    trainer.progress.best = None
    assert [trainer.evaluate()[1] for _ in range(6)] == [True, True, False, False, False, True]
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


def test_report():
    trainer = make(max_steps=2)
    losses = []
    original = trainer.step
    trainer.step = lambda: losses.append(original())
    reports = []
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


def test_state_is_carried_and_cut_off():
    trainer = make(state_reset=0.0)
    trainer.step()
    assert trainer.state.cell.abs().min() > 0
    assert not trainer.state.cell.requires_grad
    ((started, before),) = states_of_steps(trainer, 1)
    assert torch.equal(started.hidden, before.hidden)
    assert torch.equal(started.cell, before.cell)


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_state_reset(share):
    trainer = make(state_reset=share, batch_size=12)
    trainer.step()
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
    original = trainer.model.softmax.loss

    def loss(contexts, *args):
        shares.append((contexts == 0).float().mean().item())
        return original(contexts, *args)

    trainer.model.softmax.loss = loss
    for _ in range(3):
        trainer.step()
    assert np.mean(shares) == pytest.approx(0.4, abs=0.06)


def test_clipped_gradient_is_what_the_optimizers_get(monkeypatch):
    trainer = make(grad_clip=1e-3)
    norms = []
    original = trainer.optimizers.step

    def step(learn_rate, rows):
        gradients = [gradient.flatten() for gradient in trainer.optimizers.gradients(rows)]
        norms.append(torch.cat(gradients).norm().item())
        original(learn_rate, rows)

    monkeypatch.setattr(trainer.optimizers, "step", step)
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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_lets_the_step_end(number):
    handler = signal.getsignal(number)
    trainer = make(max_steps=50)

    def on_step(trainer):
        if trainer.progress.step == 2:
            os.kill(os.getpid(), number)

    assert run(trainer, on_step=on_step) == []
    assert trainer.stopped
    assert trainer.progress.step == 3
    assert signal.getsignal(number) is handler
    run(trainer)  # and it can go on
    assert trainer.progress.step == 50


def test_signal_during_the_last_step_stops_nothing():
    trainer = make(max_steps=2)
    original = trainer.step

    def step():
        if trainer.progress.step == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return original()

    trainer.step = step
    assert run(trainer) == [(2, True)]
    assert not trainer.stopped


def test_second_interrupt_acts_as_ever(request):
    # A process in the background may have been started with SIGINT ignored.
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, previous))
    trainer = make(max_steps=50)
    original = trainer.step

    def step():
        if trainer.progress.step == 1:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
        return original()

    trainer.step = step
    with pytest.raises(KeyboardInterrupt):
        run(trainer)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_in_another_thread_there_are_no_signals():
    trainer = make(max_steps=2)
    thread = threading.Thread(target=run, args=(trainer,))
    thread.start()
    thread.join()
    assert trainer.progress.step == 2


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "adagrad"])
def test_evaluations_see_the_weights_of_their_step(optimizer):
    """Not vectors of tokens that were kept from an earlier evaluation."""
    trainer = make(optimizer=optimizer, learn_rate=0.1)
    for _ in range(3):
        figures, _ = trainer.evaluate()
        fresh = make(1)
        fresh.model.load_state_dict(trainer.model.state_dict())
        assert figures == fresh.evaluate()[0]
        trainer.step()


# Rates that suit a text this small.
RATES = {"adam": 0.01, "adamw": 0.01, "adagrad": 1.5}
TALE = """the wind and the sun argued about which of them was the stronger .
while they argued , a traveller came along the road in a warm coat .
they agreed that the one who first made the traveller take off his coat was the stronger .
then the wind blew as hard as he could .
but the more he blew , the more closely did the traveller fold his coat around him .
at last the wind gave up the attempt .
then the sun shone out warmly , and at once the traveller took off his coat .
and so the wind had to confess that the sun was the stronger of the two .
this old tale shows that a warm word often does more than a hard blow ."""


@pytest.mark.parametrize("optimizer", RATES)
@pytest.mark.parametrize("kind", KINDS)
def test_learns_a_tiny_text_by_heart(kind, optimizer):
    """134 words, 50 times."""
    corpus = read_corpus([line.split() for line in TALE.splitlines()])
    assert corpus.n_words == 134
    settings = pretraining_config(
        softmax=kind,
        optimizer=optimizer,
        learn_rate=RATES[optimizer],
        max_steps=0,
        max_epochs=50,
        n_negatives=64,
        batch_size=2 if optimizer == "adagrad" else 4,
    )
    settings["model"].update(lstm_dim=48, projection_dim=24)
    trainer = Trainer(check_config(Config(settings)), corpus, corpus)
    assert trainer.batches.steps_per_epoch >= 4
    before = trainer.evaluate()[0]
    assert len(run(trainer)) == 1
    figures = trainer.evaluate()[0]
    assert figures.unknown == 0
    assert before.mean > 50
    assert figures.mean < 20
