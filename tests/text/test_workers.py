"""Work divided among processes: their number, the order of results, and errors."""

import os

import pytest

from spacy_elmo.text import workers as module
from spacy_elmo.text.workers import map_in_order, n_processes


def test_minus_1_is_a_process_per_core(monkeypatch):
    """Only cores that this process may use are counted."""
    monkeypatch.setattr(module.os, "sched_getaffinity", lambda _: {1, 2, 5}, raising=False)
    monkeypatch.setattr(module.os, "cpu_count", lambda: 64)
    assert n_processes(4) == 4
    assert n_processes(-1) == 3
    monkeypatch.delattr(module.os, "sched_getaffinity")  # macOS and Windows have none
    assert n_processes(-1) == 64
    for wanted in (0, -2):
        with pytest.raises(ValueError, match=f"n_process .* {wanted}"):
            n_processes(wanted)


@pytest.mark.processes
def test_results_come_in_order_and_few_tasks_wait():
    taken = []

    def tasks():
        for i in range(30):
            taken.append(i)
            yield i, (f"{i}", 10)

    results = map_in_order(int, tasks(), 2)
    assert next(results) == (0, 0)
    assert len(taken) <= 6
    assert list(results) == [(i, i) for i in range(1, 30)]


@pytest.mark.processes
def test_errors_come_in_their_turn():
    for n_process in (1, 2):
        results = map_in_order(int, [(i, ("x" if i == 2 else "3",)) for i in range(9)], n_process)
        assert [next(results), next(results)] == [(0, 3), (1, 3)]
        with pytest.raises(ValueError, match="'x'"):
            next(results)
    with pytest.raises(ChildProcessError, match="a worker process was killed"):
        list(map_in_order(os._exit, [(0, (1,))], 2))
