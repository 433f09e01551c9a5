"""Probes find what is there, and nothing where nothing is."""

import numpy as np
import pytest

from spacy_elmo.analysis import probes
from spacy_elmo.analysis.probes import probe_labels
from spacy_elmo.analysis.sample import Sample

from helpers.commands import shown_by

RNG = np.random.default_rng(0)
DIRECTIONS = RNG.normal(size=(8, 3))
NAMES = np.array(["x", "y", "z"])


def sample(n, seed):
    """Three layers; the labels are a linear function of layer 1 alone. Features of
    very different size, far from 0: the probe standardises them."""
    rng = np.random.default_rng(seed)
    layers = rng.normal(size=(3, n, 8))
    labels = NAMES[(layers[1] @ DIRECTIONS).argmax(axis=1)].tolist()
    layers = layers * np.logspace(-2, 2, 8) + 50
    return Sample(layers.astype("float32"), labels, [str(i % 7) for i in range(n)])


TRAIN, TEST = sample(1000, 1), sample(1000, 2)


def scores(rows):
    return {row.input or row.method: row.scores for row in rows}


def test_the_layer_that_knows():
    found = scores(probe_labels(TRAIN, TEST, ["0", "1", "2", "average", "concat"]))
    assert list(found) == [
        "most frequent label",
        "most frequent label of the word",
        "layer 0",
        "layer 1",
        "layer 2",
        "average",
        "concat",
    ]
    counts = {name: TRAIN.labels.count(name) for name in NAMES}
    baseline = TEST.labels.count(max(counts, key=counts.get)) / len(TEST)
    assert found["most frequent label"]["accuracy"] == pytest.approx(baseline)
    for name in ("layer 1", "concat"):
        assert found[name]["accuracy"] > 0.95
    for name in ("layer 0", "layer 2"):
        assert abs(found[name]["accuracy"] - baseline) < 0.07
    assert baseline + 0.1 < found["average"]["accuracy"] < 0.9


def test_the_same_every_time():
    one, two = (scores(probe_labels(TRAIN, TEST, ["0", "average"])) for _ in range(2))
    assert one == two


def test_scores_counted_by_hand():
    """Of labels x, x, y, w the most frequent is x. w is unknown to training."""
    layers = np.zeros((1, 4, 2), dtype="float32")
    train = Sample(layers, ["x", "x", "x", "y"], ["a", "a", "b", "b"])
    test = Sample(layers, ["x", "x", "y", "w"], ["a", "b", "b", "c"])
    first, by_word, fitted = probe_labels(train, test, ["0"])
    # x: precision 2/4, recall 2/2, F1 2/3; y and w: 0.
    expected = {"accuracy": 2 / 4, "macro_f": (2 / 3) / 3}
    assert first.scores == pytest.approx(expected)
    # b has a draw of x and y, which x wins: the same predictions.
    assert by_word.scores == pytest.approx(expected)
    assert fitted.scores == pytest.approx(expected)  # the vectors say nothing


def test_labels_that_the_test_data_lacks_are_no_part_of_the_mean():
    layers = np.zeros((1, 2, 2), dtype="float32")
    train = Sample(layers, ["x", "y"], ["a", "b"])
    test = Sample(layers, ["y", "y"], ["a", "b"])
    (by_word,) = (row for row in probe_labels(train, test, []) if row.method.endswith("word"))
    assert by_word.scores == pytest.approx({"accuracy": 1 / 2, "macro_f": 2 / 3})


def test_a_single_label():
    layers = np.ones((1, 3, 2), dtype="float32")
    train = Sample(layers, ["x"] * 3, [""] * 3)
    test = Sample(layers, ["x", "y", "x"], [""] * 3)
    rows = list(probe_labels(train, test, ["0"]))
    assert [row.method for row in rows] == ["most frequent label", "logistic regression"]
    assert [row.scores["accuracy"] for row in rows] == pytest.approx([2 / 3, 2 / 3])


def test_a_fit_that_did_not_converge_says_so(monkeypatch):
    assert [row.converged for row in probe_labels(TRAIN, TEST, ["1"])] == [True] * 3
    monkeypatch.setattr(probes, "MAX_ITERATIONS", 1)
    assert [row.converged for row in probe_labels(TRAIN, TEST, ["1"])] == [True, True, False]


def test_without_scikit_learn(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sklearn", None)
    with pytest.raises(ImportError, match=r"pip install 'spacy-elmo\[analysis\]'"):
        probes.require_sklearn("fits the probes")


def test_senses_without_scikit_learn(monkeypatch, tmp_path, make_nlp):
    """The message speaks of them; pages without words need none."""
    monkeypatch.setitem(__import__("sys").modules, "sklearn", None)
    monkeypatch.chdir(tmp_path)
    make_nlp().to_disk("model")
    (tmp_path / "a.txt").write_text("a b\n")
    shown = shown_by("senses", "model", "a.txt", "--word", "a", status=1)
    assert "scikit-learn groups the occurrences of words" in shown
    assert "probes" not in shown
    shown_by("senses", "model", "--sentence", "a b", "--sentence", "b c")
