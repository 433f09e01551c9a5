"""Threads of PyTorch: `one_thread` limits this thread alone, and restores the number afterwards."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from spacy_elmo.bilm import threads
from spacy_elmo.bilm.threads import one_thread, own_setters

from helpers.commands import run_python
from helpers.models import SENTENCES, tiny_module

needs_setters = pytest.mark.skipif(
    not own_setters(), reason="the libraries beneath this PyTorch set no number for one thread"
)


@pytest.fixture(autouse=True)
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_one_thread_restores_the_number_of_threads():
    with one_thread():
        assert torch.get_num_threads() == 1
        with one_thread():
            assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
    with pytest.raises(KeyError), one_thread():
        raise KeyError
    assert torch.get_num_threads() == 2
    with one_thread(wanted=False):
        assert torch.get_num_threads() == 2


def test_another_thread_keeps_its_own_number():
    started, finished = threading.Event(), threading.Event()
    seen = []

    def other():
        seen.append(torch.get_num_threads())
        started.set()
        finished.wait()
        seen.append(torch.get_num_threads())

    thread = threading.Thread(target=other)
    thread.start()
    started.wait()
    with one_thread():
        finished.set()
        thread.join()
    assert seen == [2, 2]


def in_a_new_thread(function):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


@pytest.mark.threads
@needs_setters
def test_threads_started_meanwhile_have_the_number_of_the_process():
    def nested(depth):
        """Start a thread while this one computes, and return the number of each afterwards."""
        before = torch.get_num_threads()
        with one_thread():
            assert torch.get_num_threads() == 1
            others = in_a_new_thread(lambda: nested(depth - 1)) if depth else []
        return [before, torch.get_num_threads(), *others]

    assert nested(4) == [2] * 10
    with one_thread():
        assert in_a_new_thread(torch.get_num_threads) == 2
    assert in_a_new_thread(torch.get_num_threads) == 2


@pytest.mark.processes
@needs_setters
@pytest.mark.skipif(sys.platform != "linux", reason="counts the threads of the process")
def test_no_library_uses_a_second_thread():
    """MKL and oneDNN compute products, and PyTorch its own operations."""
    script = (
        "import os, torch\n"
        "from spacy_elmo.bilm.threads import one_thread\n"
        "def work():\n"
        "    x = torch.ones(1024, 1024)\n"
        "    (x @ x).exp()\n"
        "    x.bfloat16() @ x.bfloat16()\n"
        "    return len(os.listdir('/proc/self/task'))\n"
        "torch.set_num_threads(3)\n"
        "before = len(os.listdir('/proc/self/task'))\n"
        "with one_thread():\n"
        "    print(work() - before)\n"
        "print(work() - before >= 2)\n"
    )
    assert run_python("-c", script).split() == ["0", "True"]


@pytest.mark.training
def test_short_steps_of_training_run_on_one_thread(monkeypatch):
    from spacy_elmo.bilm import sequence

    seen, original = [], sequence.lstm_step
    monkeypatch.setattr(
        sequence, "lstm_step", lambda *args: (seen.append(torch.get_num_threads()), original(*args))
    )
    bilm = tiny_module().requires_grad_(True)
    bilm.embed(SENTENCES)[0][0].sum().backward()
    assert set(seen) == {1} and torch.get_num_threads() == 2
    seen.clear()
    monkeypatch.setattr(threads, "LONG_PRODUCT", 1)
    bilm.embed(SENTENCES)
    assert set(seen) == {2}
