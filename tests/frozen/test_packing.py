import pytest

from spacy_elmo.frozen.packing import windows


@pytest.mark.parametrize("max_items", [1, 2, 4, 6, 7, 100])
@pytest.mark.parametrize("batch_sizes", [[], [1], [3, 3, 2, 1, 1], [5, 1, 1, 1]])
def test_windows(batch_sizes, max_items):
    found = list(windows(batch_sizes, max_items))
    steps = [list(range(len(batch_sizes)))[s] for s, _ in found]
    items = [list(range(sum(batch_sizes)))[i] for _, i in found]
    assert [i for window in steps for i in window] == list(range(len(batch_sizes)))
    assert [i for window in items for i in window] == list(range(sum(batch_sizes)))
    assert all(steps)  # no window is empty
    for number, (of_window, packed) in enumerate(zip(steps, items)):
        assert len(packed) == sum(batch_sizes[step] for step in of_window)
        assert len(packed) <= max_items or len(of_window) == 1
        if number + 1 < len(found):  # no window is cut too early
            assert len(packed) + batch_sizes[steps[number + 1][0]] > max_items
