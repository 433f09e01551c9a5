import os

import pytest

from spacy_elmo.text.workers import map_in_order, n_processes


def test_number_of_processes():
    assert n_processes(3) == 3
    assert 1 <= n_processes(-1) <= os.cpu_count()
    for wanted in (0, -2):
        with pytest.raises(ValueError, match=f"n_process .* {wanted}"):
            n_processes(wanted)


def test_in_order_and_only_a_few_wait():
    taken = []

    def tasks():
        for i in range(30):
            taken.append(i)
            yield i, (f"{i}", 10)

    results = map_in_order(int, tasks(), 2)
    assert next(results) == (0, 0)
    assert len(taken) <= 6
    assert list(results) == [(i, i) for i in range(1, 30)]


@pytest.mark.parametrize("n_process", [1, 2])
def test_an_error_comes_in_its_turn(n_process):
    results = map_in_order(int, [(i, ("x" if i == 2 else "3",)) for i in range(9)], n_process)
    assert [next(results), next(results)] == [(0, 3), (1, 3)]
    with pytest.raises(ValueError, match="'x'"):
        next(results)
