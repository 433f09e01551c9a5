import h5py
import numpy as np
import pytest

from spacy_elmo.weights import read_weights, token_embeddings
from spacy_elmo.weights.readers import make_allennlp_reader

from helpers import reference
from helpers.commands import shown_by
from helpers.models import tiny_options, write_tiny

WORDS = ["<S>", "</S>", "<UNK>", "the", "naïve", "日本", "the", "a"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write_tiny(tmp_path / "model")
    (tmp_path / "vocab.txt").write_text("".join(f"{word}\n" for word in WORDS), "utf8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(token_embeddings, "WORDS_AT_A_TIME", 3)
    return tmp_path


def run(*arguments, status=0):
    given = ("dump-token-embeddings", "model", "vocab.txt", "out/vectors.hdf5")
    return shown_by(*given, *arguments, status=status)


def test_vectors_and_the_way_back(folder):
    run()
    with h5py.File(folder / "out" / "vectors.hdf5") as file:
        assert list(file) == ["embedding"]
        table = file["embedding"][()]
    assert table.dtype == np.float32
    path = folder / "model" / "weights.hdf5"
    data = reference.read_hdf5(path)
    for row, word in enumerate(WORDS):
        expected = reference.token_vector(tiny_options(), data, word)
        np.testing.assert_allclose(table[row], expected, rtol=0, atol=1e-5)
    bilm = make_allennlp_reader(path, embeddings="out/vectors.hdf5", vocabulary="vocab.txt")()
    sentence = [["the", "naïve", "unheard"]]
    exact = read_weights("model").embed(sentence)[0][0]
    np.testing.assert_allclose(bilm.embed(sentence)[0][0], exact, rtol=0, atol=1e-5)


def test_what_fails_leaves_nothing_behind(folder):
    run()
    (folder / "vocab.txt").write_bytes(b"a\n\xff\n")
    assert "vocab.txt: not UTF-8" in run("--force", status=1)
    (folder / "vocab.txt").write_text("")
    assert "contains no words" in run("--force", status=1)
    assert [path.name for path in (folder / "out").iterdir()] == ["vectors.hdf5"]
