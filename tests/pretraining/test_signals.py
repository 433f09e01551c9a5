"""Signals during a run: the step that is under way ends, and what is done can be kept."""

import os
import signal
import threading

import pytest

from helpers.trainers import make, run

HANG_UP = getattr(signal, "SIGHUP", None)  # not on Windows


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, *([HANG_UP] if HANG_UP else [])])
def test_signal_lets_the_step_end(number, request):
    # A process in the background may have been started with some of them ignored.
    previous = signal.signal(number, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(number, previous))
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


@pytest.mark.skipif(HANG_UP is None, reason="this system does not hang up")
def test_a_run_under_nohup_goes_on(request):
    previous = signal.signal(HANG_UP, signal.SIG_IGN)
    request.addfinalizer(lambda: signal.signal(HANG_UP, previous))
    trainer = make(max_steps=3)
    run(trainer, on_step=lambda trainer: os.kill(os.getpid(), HANG_UP))
    assert not trainer.stopped
    assert trainer.progress.step == 3


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
