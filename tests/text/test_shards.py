"""Arrays in several files, and tables of strings, against NumPy and lists."""

import numpy as np
import pytest

from spacy_elmo.text import shards as shards_module
from spacy_elmo.text.shards import (
    Shards,
    TypeTable,
    array_writer,
    read_array,
    spell,
    write_shards,
)

STRINGS = ["<S>", "</S>", "a", "", "naïve", "日本 😀", "\n", "\0", "\ud800", "\udc00x", "b\r\n"]


@pytest.mark.parametrize("size", [1, 7, 100])
def test_shards_are_one_array(tmp_path, size):
    items = np.arange(1000, 1030, dtype="int32")
    write_shards(tmp_path, iter(np.split(items, [2, 2, 9, 29])), 30, size)
    found = Shards([read_array(path) for path in sorted(tmp_path.iterdir())])
    assert len(list(tmp_path.iterdir())) == -(-30 // size)
    assert len(found) == 30
    for where in (
        *[slice(a, b) for a in (None, 0, 3, 4, 29, -5) for b in (None, 0, 8, 30, 50, -1)],
        np.array([29, 0, 4, 4, 3]),
        np.array([], "int64"),
        np.arange(24).reshape(2, 3, 4),
    ):
        np.testing.assert_array_equal(found[where], items[where])
        assert (found[where].dtype, found[where].shape) == (np.int32, items[where].shape)
    for where in ([0, 30], [-1]):
        with pytest.raises(IndexError, match="30"):
            found[np.array(where)]


def test_an_array_written_in_pieces_is_whole_or_missing(tmp_path):
    """An unfinished array has no name."""
    path = tmp_path / "a.npy"
    for kind in ("int32", "uint8"):
        with array_writer(path, kind, 5) as write:
            for items in ([1, 2], [], [3, 4, 5]):
                write(np.array(items, "int64"))
        for found in (read_array(path), np.load(path)):
            assert (found.dtype, found.tolist()) == (np.dtype(kind), [1, 2, 3, 4, 5])
    path.unlink()
    with pytest.raises(ValueError, match="abc"), array_writer(path, "int32", 10) as write:
        write(np.array(["abc"]))
    assert not list(tmp_path.iterdir())


def test_a_table_returns_strings_of_any_kind(monkeypatch):
    monkeypatch.setattr(shards_module, "TYPES_AT_A_TIME", 3)
    table, n = TypeTable(*spell(STRINGS)), len(STRINGS)
    assert len(table) == n
    assert list(table) == [table[i] for i in range(-n, 0)] == STRINGS
    assert [table[i] for i in np.arange(n, dtype="int32")] == STRINGS
    assert "日本 😀" in table and "日" not in table
    for i in (n, -n - 1):
        with pytest.raises(IndexError):
            table[i]
    assert list(TypeTable(*spell([]))) == []
