"""Signals during a run: the step that is under way ends, and what is done can be kept."""

import os
import signal
import threading

import pytest

from helpers.trainers import make, run

HANG_UP = getattr(signal, "SIGHUP", None)  # not on Windows


@pytest.fixture
def number(request):
    """A signal and what it does; a process in the background may have been started without."""
    number, handler = getattr(request, "param", (signal.SIGINT, signal.default_int_handler))
    previous = signal.signal(number, handler)
    yield number
    signal.signal(number, previous)


def sent_within(step, trainer, *numbers):
    """Send the process signals within a step of the trainer."""
    original = trainer.step

    def run_step():
        if trainer.progress.step == step:
            for number in numbers:
                os.kill(os.getpid(), number)
        return original()

    trainer.step = run_step


NUMBERS = [signal.SIGINT, signal.SIGTERM, *([HANG_UP] if HANG_UP else [])]


@pytest.mark.parametrize(
    "number", [(number, signal.default_int_handler) for number in NUMBERS], indirect=True
)
def test_signal_lets_the_step_end(number):
    trainer = make(max_steps=50)
    sent_within(2, trainer, number)
    assert run(trainer) == []
    assert trainer.stopped
    assert trainer.progress.step == 3
    assert signal.getsignal(number) is signal.default_int_handler
    run(trainer)  # and it can go on
    assert trainer.progress.step == 50


@pytest.mark.skipif(HANG_UP is None, reason="this system does not hang up")
@pytest.mark.parametrize("number", [(HANG_UP, signal.SIG_IGN)], indirect=True)
def test_a_run_under_nohup_goes_on(number):
    trainer = make(max_steps=3)
    sent_within(1, trainer, number)
    assert run(trainer) == [(3, True)]
    assert not trainer.stopped


def test_signal_during_the_last_step_stops_nothing(number):
    trainer = make(max_steps=2)
    sent_within(1, trainer, number)
    assert run(trainer) == [(2, True)]
    assert not trainer.stopped


def test_second_interrupt_acts_as_ever(number):
    trainer = make(max_steps=50)
    sent_within(1, trainer, number, number)
    with pytest.raises(KeyboardInterrupt):
        run(trainer)
    assert signal.getsignal(number) is signal.default_int_handler


def test_in_another_thread_there_are_no_signals():
    trainer = make(max_steps=2)
    thread = threading.Thread(target=run, args=(trainer,))
    thread.start()
    thread.join()
    assert trainer.progress.step == 2
