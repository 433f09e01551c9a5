"""End of a run, by a limit or by a signal, its evaluations, and the learning rate over its
steps."""

import os
import signal
import threading
from contextlib import contextmanager
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest

from spacy_elmo.language_model.perplexity import Perplexity
from spacy_elmo.pretraining import trainer as module

from helpers.calls import note_calls
from helpers.trainers import CORPUS, make, run

pytestmark = pytest.mark.training


@pytest.mark.parametrize(
    ("limits", "n_steps"),
    [
        ({"max_epochs": 2}, 2 * (104 // 32)),
        ({"max_tokens": 100}, 4),  # 32 a step
        ({"max_steps": 3, "max_epochs": 10**6, "max_tokens": 10**9}, 3),  # the first one counts
    ],
)
def test_limits_of_steps_epochs_and_tokens_end_the_run(limits, n_steps):
    trainer = make(**{"max_steps": 0, **limits})
    run(trainer)
    assert (trainer.progress.step, trainer.progress.tokens) == (n_steps, 32 * n_steps)
    assert trainer.fraction_done == 1.0


@pytest.mark.parametrize(("elapsed", "n_steps"), [(0.0, 6), (100.0, 3)])
def test_the_limit_of_minutes_ends_the_run(monkeypatch, elapsed, n_steps):
    """The limit counts evaluations and earlier sessions, and the learning rate falls with it. Each
    reading of the clock takes 10 seconds, and a step 30: its start, its end, and the loop's
    reading."""
    tick = count(1000.0, 10.0).__next__
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=tick, perf_counter=tick))
    trainer = make(max_steps=0, max_minutes=3, warmup_steps=0, decay="linear", learn_rate=0.1)
    trainer.progress.elapsed = elapsed
    rates = []
    run(trainer, on_step=lambda t: rates.append(t.optimizers.bilm_optimizer.param_groups[0]["lr"]))
    assert trainer.progress.step == n_steps
    assert trainer.progress.elapsed == elapsed + 30 * n_steps
    assert trainer.progress.seconds == 10 * n_steps
    expected = [0.1 * (1 - (elapsed + 30 * step) / 180) for step in range(n_steps)]
    np.testing.assert_allclose(rates, expected)


def test_patience_counts_evaluations_since_the_best_one(monkeypatch):
    """A figure that equals the best is not better."""
    trainer = make(max_steps=100, eval_frequency=2, patience=3)
    figures = (Perplexity(1.0, 1.0, mean, 1, 0.0) for mean in (9.0, 9.5, 8.0, 8.0, 8.5, 8.1, 1.0))
    monkeypatch.setattr(module, "perplexity", lambda *_, **__: next(figures))
    assert [best for _, best in run(trainer)] == [True, False, True, False, False, False]
    assert (trainer.progress.best, trainer.progress.step, trainer.is_over) == (8.0, 12, True)
    assert trainer.fraction_done == 0.12


def test_an_evaluation_reads_the_given_number_of_tokens():
    assert make(eval_tokens=20).evaluate()[0].n_tokens == 20
    assert make(eval_tokens=0).evaluate()[0].n_tokens == len(CORPUS.tokens)


HANG_UP = getattr(signal, "SIGHUP", signal.SIGTERM)  # not on Windows
USUAL = signal.default_int_handler


@contextmanager
def sent_within(monkeypatch, step, trainer, *numbers, handler=USUAL):
    """Send the process signals within a step of the trainer. Their handler is set first, because a
    process in the background may have been started to ignore them."""

    def send():
        for number in numbers if trainer.progress.step == step else ():
            os.kill(os.getpid(), number)

    note_calls(monkeypatch, trainer, "start_step", send)
    previous = signal.signal(numbers[0], handler)
    try:
        yield
        assert signal.getsignal(numbers[0]) is handler
    finally:
        signal.signal(numbers[0], previous)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, HANG_UP])
def test_a_signal_lets_the_step_end(monkeypatch, number):
    """A run that gets a signal in its last step is finished, not stopped."""
    trainer = make(max_steps=5)
    with sent_within(monkeypatch, 2, trainer, number):
        assert run(trainer) == []
    assert (trainer.stopped, trainer.progress.step) == (True, 3)
    trainer.stopped = False
    with sent_within(monkeypatch, 4, trainer, number):
        assert run(trainer) == [(5, True)]
    assert not trainer.stopped


@pytest.mark.skipif(HANG_UP is signal.SIGTERM, reason="this system does not hang up")
def test_a_run_under_nohup_continues(monkeypatch):
    trainer = make(max_steps=3)
    with sent_within(monkeypatch, 1, trainer, HANG_UP, handler=signal.SIG_IGN):
        assert run(trainer) == [(3, True)]
    assert not trainer.stopped


def test_a_second_interrupt_stops_at_once(monkeypatch):
    trainer = make(max_steps=50)
    number = signal.SIGINT
    with sent_within(monkeypatch, 1, trainer, number, number), pytest.raises(KeyboardInterrupt):
        run(trainer)


def test_a_run_in_another_thread_handles_no_signals():
    trainer = make(max_steps=2)
    thread = threading.Thread(target=run, args=(trainer,))
    thread.start()
    thread.join()
    assert trainer.progress.step == 2
