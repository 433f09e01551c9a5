"""Threads: two long tasks run side by side, with the same bits and errors as in turn."""

import os
import threading

import numpy as np
import pytest

from spacy_elmo.frozen.kernel import available_kernels, find_kernel
from spacy_elmo.model import threads
from spacy_elmo.model.threads import LONG_TASK, side_by_side

from helpers.commands import run_python
from helpers.models import SENTENCES, tiny_bilm
from helpers.rounding import ROUNDING


@pytest.fixture
def two(monkeypatch):
    """Two threads may compute, whatever the machine has."""
    monkeypatch.setattr(threads, "n_threads", lambda: 2)


def test_two_long_tasks_run_in_two_threads(two):
    mine, other = side_by_side([threading.get_ident] * 2, LONG_TASK)
    assert mine == threading.get_ident() != other


def test_short_nested_or_single_tasks_run_in_one_thread(two, monkeypatch):
    def idents(n_tasks=2, n_products=LONG_TASK):
        return set(side_by_side([threading.get_ident] * n_tasks, n_products))

    only = {threading.get_ident()}
    assert idents(n_products=LONG_TASK - 1) == only
    assert idents(n_tasks=1) == only
    # Within a task, or while another thread of Python has the helper.
    inner = side_by_side([idents] * 2, LONG_TASK)
    assert all(len(found) == 1 for found in inner)
    monkeypatch.setattr(threads, "n_threads", lambda: 1)
    assert idents() == only


def test_an_error_waits_for_the_other_task(two):
    done = []

    def fail():
        raise KeyError("mine")

    for tasks in ([fail, lambda: done.append(1)], [lambda: done.append(1), fail]):
        with pytest.raises(KeyError, match="mine"):
            side_by_side(tasks, LONG_TASK)
    assert done == [1, 1]
    idents = side_by_side([threading.get_ident] * 2, LONG_TASK)
    assert len(set(idents)) == 2  # the helper is free again


@pytest.mark.parametrize("name", available_kernels())
def test_long_products_give_the_same_bits(two, monkeypatch, name):
    kernel = find_kernel(name)
    expected = tiny_bilm().replace(kernel=kernel).embed(SENTENCES, "warm")[0]
    monkeypatch.setattr(threads, "LONG_TASK", 1)
    found = tiny_bilm().replace(kernel=kernel).embed(SENTENCES, "warm")[0]
    for ours, theirs in zip(found, expected):
        # BLAS sums in another order for another number of rows.
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=ROUNDING if name == "numpy" else 0)


@pytest.mark.processes
def test_the_number_of_threads_is_set_by_the_environment_or_pytorch():
    """Without PyTorch, it is set by the environment or the processors.

    A forked process has one thread.
    """
    script = """
import os, sys
from spacy_elmo.model.threads import limit_threads, n_threads
assert "torch" not in sys.modules
for given in ("3", "0", "many"):
    os.environ["OMP_NUM_THREADS"] = given
    print(n_threads())
limit_threads(1)
print(n_threads())
import torch
print(n_threads())
torch.set_num_threads(5)
print(n_threads())
limit_threads(2)
print(n_threads(), torch.get_num_threads(), flush=True)
if hasattr(os, "fork") and os.fork() == 0:
    print(n_threads(), flush=True)
    os._exit(0)
if hasattr(os, "fork"):
    os.wait()
"""
    n_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    expected = ["3", str(n_cores), str(n_cores), "1", "1", "5", "2", "2"]
    assert run_python("-c", script).split() == expected + ["1"] * hasattr(os, "fork")
