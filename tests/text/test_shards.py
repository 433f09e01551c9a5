import numpy as np
import pytest

from spacy_elmo.language_model.windows import Streams
from spacy_elmo.text import shards as shards_module
from spacy_elmo.text.corpus import Corpus, read_corpus
from spacy_elmo.text.shards import ArrayWriter, Shards, ShardWriter, TypeTable, read_array, spell

STRINGS = ["<S>", "</S>", "a", "", "naïve", "日本 😀", "\n", "\0", "\ud800", "\udc00x", "b\r\n"]


@pytest.fixture(params=[1, 4, 7, 100])
def shards(request, tmp_path):
    items = np.arange(1000, 1030, dtype="int32")
    with ShardWriter(tmp_path, request.param) as writer:
        for first in range(0, 30, 9):
            writer.append(items[first : first + 9])
    paths = sorted(tmp_path.iterdir())
    assert len(paths) == writer.n_shards == -(-30 // request.param)
    return items, Shards([read_array(path) for path in paths])


def test_shards_are_one_array(shards):
    items, found = shards
    assert len(found) == 30
    np.testing.assert_array_equal(found[:], items)
    for where in (
        *[slice(a, b) for a in (0, 3, 4, 29, -5) for b in (None, 0, 8, 30, 50, -1)],
        np.array([29, 0, 4, 4, 3]),
        np.array([], "int64"),
        np.arange(24).reshape(2, 3, 4),
    ):
        np.testing.assert_array_equal(found[where], items[where])
        assert found[where].dtype == np.int32
        assert found[where].shape == items[where].shape


@pytest.mark.parametrize("where", [np.array([0, 30]), np.array([-1])])
def test_no_such_place(shards, where):
    with pytest.raises(IndexError, match="30"):
        shards[1][where]


def test_windows_over_shards():
    rng = np.random.default_rng(0)
    sentences = [["w"] * n + ["</S>", "<S>"] for n in rng.integers(9, size=40)]
    whole = read_corpus(sentences)
    pieces = Shards(np.split(whole.tokens, [50, 100, 150]))
    corpus = Corpus(whole.types, pieces, whole.starts, whole.documents)
    positions = rng.integers(len(whole.tokens), size=300)
    one, other = (Streams(text).window(positions, [300]) for text in (whole, corpus))
    np.testing.assert_array_equal(one.inputs, other.inputs)
    np.testing.assert_array_equal(one.targets, other.targets)
    np.testing.assert_array_equal(whole.counts(), corpus.counts())
    assert whole.n_words == corpus.n_words


def test_strings_of_any_kind(tmp_path, monkeypatch):
    monkeypatch.setattr(shards_module, "TYPES_AT_A_TIME", 3)
    for name, array in zip(("characters", "offsets"), spell(STRINGS)):
        np.save(tmp_path / name, array)
    table = TypeTable(*(read_array(tmp_path / f"{name}.npy") for name in ("characters", "offsets")))
    assert len(table) == len(STRINGS)
    assert list(table) == STRINGS
    assert [table[i] for i in range(-len(STRINGS), 0)] == STRINGS
    assert [table[i] for i in np.arange(len(STRINGS), dtype="int32")] == STRINGS
    assert "日本 😀" in table and "日" not in table
    for i in (len(STRINGS), -len(STRINGS) - 1):
        with pytest.raises(IndexError):
            table[i]


def test_no_strings():
    assert list(TypeTable(*spell([]))) == []


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64"])
@pytest.mark.parametrize("length", [0, 1, 12345])
def test_array_writer(tmp_path, dtype, length):
    items = np.arange(length).astype(dtype)
    with ArrayWriter(tmp_path / "a.npy", dtype) as writer:
        for first in range(0, length, 1000):
            writer.append(items[first : first + 1000])
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy", allow_pickle=False), items)
    assert np.load(tmp_path / "a.npy").dtype == dtype


def test_half_an_array_has_no_name(tmp_path):
    writer = ArrayWriter(tmp_path / "a.npy", "int32")
    with pytest.raises(ValueError, match="abc"), writer:
        writer.append(np.array(["abc"]))
    assert not list(tmp_path.iterdir())
