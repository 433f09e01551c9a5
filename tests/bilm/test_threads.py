import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from spacy_elmo.bilm import threads
from spacy_elmo.bilm.threads import one_thread, own_setters, side_by_side

from helpers.commands import run_python
from helpers.models import SENTENCES, tiny_bilm

needs_setters = pytest.mark.skipif(
    not own_setters(), reason="the libraries beneath this PyTorch set no number for one thread"
)


@pytest.fixture(autouse=True)
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def here():
    return threading.get_ident(), torch.get_num_threads(), torch.is_grad_enabled()


def test_one_thread_and_as_many_as_before():
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


@needs_setters
def test_threads_that_start_meanwhile_have_the_number_of_the_process():
    def nested(depth):
        """Starts a thread while this one computes, and returns the number of each afterwards."""
        before = torch.get_num_threads()
        with one_thread():
            assert torch.get_num_threads() == 1
            others = in_a_new_thread(lambda: nested(depth - 1)) if depth else []
        return [before, torch.get_num_threads(), *others]

    assert nested(4) == [2] * 10
    with one_thread():
        started = [lambda: in_a_new_thread(torch.get_num_threads)] * 2
        assert side_by_side(started) == [2, 2]
    assert in_a_new_thread(torch.get_num_threads) == 2


@needs_setters
@pytest.mark.skipif(sys.platform != "linux", reason="counts the threads of the process")
def test_no_library_uses_a_second_thread():
    """Products by MKL and by oneDNN, and operations of PyTorch's own."""
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


def test_two_tasks_in_two_threads_of_one_each():
    with one_thread():
        (mine, *first), (other, *second) = side_by_side([here, here])
        assert torch.get_num_threads() == 1
    assert mine == threading.get_ident() != other
    assert first == second == [1, False]


def test_one_after_another():
    assert [ident for ident, *_ in side_by_side([here, here])] == [threading.get_ident()] * 2
    with one_thread():
        for tasks, wanted in (([here], True), ([here, here], False)):
            found = side_by_side(tasks, wanted=wanted)
            assert {ident for ident, *_ in found} == {threading.get_ident()}
        # Within a task, or while another thread of Python has the helper.
        inner = side_by_side([lambda: side_by_side([here, here])] * 2)
        assert all(one[0] == two[0] for one, two in inner)


def test_an_error_waits_for_the_other_task():
    done = []

    def fail():
        raise KeyError("mine")

    with one_thread():
        for tasks in ([fail, lambda: done.append(1)], [lambda: done.append(1), fail]):
            with pytest.raises(KeyError, match="mine"):
                side_by_side(tasks)
        assert done == [1, 1]
        side_by_side([here, here])
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_long_products_give_the_same_vectors(monkeypatch, mode):
    expected = tiny_bilm().embed(SENTENCES, "warm")[0]
    monkeypatch.setattr(threads, "LONG_TASK", 1)
    with mode():
        found = tiny_bilm().embed(SENTENCES, "warm")[0]
    for ours, theirs in zip(found, expected):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=2e-5)
    assert torch.get_num_threads() == 2


def test_one_new_word_is_never_shared(monkeypatch):
    expected = [tiny_bilm().embed([[word]])[0][0] for word in ("one", "two")]
    monkeypatch.setattr(threads, "LONG_TASK", 1)
    bilm = tiny_bilm()
    found = [bilm.embed([[word]])[0][0] for word in ("one", "two")]  # the marks are known by then
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-5)


def test_short_steps_of_training_run_on_one_thread(monkeypatch):
    from spacy_elmo.bilm import sequence

    seen, original = [], sequence.lstm_step
    monkeypatch.setattr(
        sequence, "lstm_step", lambda *args: (seen.append(torch.get_num_threads()), original(*args))
    )
    bilm = tiny_bilm().requires_grad_(True)
    bilm.embed(SENTENCES)[0][0].sum().backward()
    assert set(seen) == {1} and torch.get_num_threads() == 2
    seen.clear()
    monkeypatch.setattr(threads, "LONG_PRODUCT", 1)
    bilm.embed(SENTENCES)
    assert set(seen) == {2}
