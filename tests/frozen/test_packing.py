import numpy as np
import pytest

from spacy_elmo.frozen.packing import pack, windows


@pytest.mark.parametrize("lengths", [[3], [1, 1], [2, 5, 3, 5, 1], [4, 2, 7]])
def test_pack(lengths):
    packed = pack(lengths)
    items, first = [], 0
    for n in lengths:
        items.append(list(range(first, first + n)))
        first += n
    assert sorted(packed.order) == list(range(len(lengths)))
    rows = [items[i] for i in packed.order]
    assert [len(row) for row in rows] == sorted(lengths, reverse=True)
    assert packed.batch_sizes == [
        sum(len(row) > step for row in rows) for step in range(max(lengths))
    ]
    for direction, turned in enumerate((rows, [row[::-1] for row in rows])):
        expected = [row[step] for step in range(max(lengths)) for row in turned if step < len(row)]
        assert packed.positions[direction].tolist() == expected
        back = packed.inverse()[direction]
        np.testing.assert_array_equal(np.array(expected)[back], np.arange(sum(lengths)))


@pytest.mark.parametrize("lengths", [[3], [2, 2], [2, 5, 3, 5, 2]])
def test_each_direction_leaves_out_its_first_item(lengths):
    packed, whole = pack(lengths, skip=1), pack(lengths)
    n_first = len(lengths)
    assert packed.batch_sizes == whole.batch_sizes[1:]
    np.testing.assert_array_equal(packed.positions, whole.positions[:, n_first:])
    back = packed.inverse()
    assert back.shape == (2, sum(lengths))
    for direction in range(2):
        found = back[direction, packed.positions[direction]]
        np.testing.assert_array_equal(found, np.arange(packed.positions.shape[1]))


@pytest.mark.parametrize("max_items", [1, 2, 4, 6, 7, 100])
@pytest.mark.parametrize("batch_sizes", [[1], [3, 3, 2, 1, 1], [5, 1, 1, 1]])
def test_windows(batch_sizes, max_items):
    found = list(windows(batch_sizes, max_items))
    steps = [list(range(len(batch_sizes)))[s] for s, _ in found]
    items = [list(range(sum(batch_sizes)))[i] for _, i in found]
    assert [i for window in steps for i in window] == list(range(len(batch_sizes)))
    assert [i for window in items for i in window] == list(range(sum(batch_sizes)))
    for number, (of_window, packed) in enumerate(zip(steps, items)):
        assert len(packed) == sum(batch_sizes[step] for step in of_window)
        assert len(packed) <= max_items or len(of_window) == 1
        if number + 1 < len(found):  # no window is cut too early
            assert len(packed) + batch_sizes[steps[number + 1][0]] > max_items


def test_windows_of_nothing():
    assert list(windows([], 5)) == []
