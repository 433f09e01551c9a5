"""Probes find what is there, and nothing where nothing is."""

import json
import sys
from collections import Counter
from itertools import product

import numpy as np
import pytest
from spacy.tokens import Doc, DocBin, Span
from spacy.vocab import Vocab

from spacy_elmo.analysis import probes
from spacy_elmo.analysis.corpora import Sample

from helpers.commands import run_elmo, shown_by

DIRECTIONS = np.random.default_rng(0).normal(size=(8, 3))
NAMES = np.array(["x", "y", "z"])


def sample(n, seed):
    """Three layers; the labels are a linear function of layer 1 alone. Features of
    very different size, far from 0: the probe standardises them."""
    layers = np.random.default_rng(seed).normal(size=(3, n, 8))
    labels = NAMES[(layers[1] @ DIRECTIONS).argmax(axis=1)].tolist()
    layers = layers * np.logspace(-2, 2, 8) + 50
    return Sample(layers.astype("float32"), labels, [str(i % 7) for i in range(n)])


TRAIN, TEST = sample(1000, 1), sample(1000, 2)


def test_the_layer_that_knows():
    first, by_word, *fitted = probes.probe_labels(TRAIN, TEST, ["0", "1", "2", "average", "concat"])
    assert first.method == "most frequent label"
    assert by_word.method == "most frequent label of the word"
    found = {row.input: row.scores["accuracy"] for row in fitted}
    assert list(found) == ["layer 0", "layer 1", "layer 2", "average", "concat"]
    baseline = TEST.labels.count(max(NAMES, key=TRAIN.labels.count)) / len(TEST)
    assert first.scores["accuracy"] == pytest.approx(baseline)
    assert min(found["layer 1"], found["concat"]) > 0.95
    assert max(abs(found[name] - baseline) for name in ("layer 0", "layer 2")) < 0.07
    assert baseline + 0.1 < found["average"] < 0.9


def test_scores_counted_by_hand():
    """Of labels x, x, y, w the most frequent is x. w is unknown to training."""
    layers = np.zeros((1, 4, 2), dtype="float32")
    train = Sample(layers, ["x", "x", "y", "x"], ["a", "a", "b", "b"])
    test = Sample(layers, ["x", "x", "y", "w"], ["a", "b", "b", "c"])
    # x: precision 2/4, recall 2/2, F1 2/3; y and w: 0. Of b, y and x draw, and x wins by the
    # alphabet: the same predictions. The vectors say nothing.
    expected = pytest.approx({"accuracy": 2 / 4, "macro_f": (2 / 3) / 3})
    assert [row.scores for row in probes.probe_labels(train, test, ["0"])] == [expected] * 3
    # Labels that the test data lack are no part of the mean.
    train = Sample(layers[:, :2], ["x", "y"], ["a", "b"])
    test = Sample(layers[:, :2], ["y", "y"], ["a", "b"])
    _, by_word = probes.probe_labels(train, test, [])
    assert by_word.scores == pytest.approx({"accuracy": 1 / 2, "macro_f": 2 / 3})
    # A single label, without words.
    train = Sample(layers, ["x"] * 4, [""] * 4)
    test = Sample(layers[:, :3], ["x", "y", "x"], [""] * 3)
    rows = list(probes.probe_labels(train, test, ["0"]))
    assert [row.method for row in rows] == ["most frequent label", "logistic regression"]
    assert [row.scores["accuracy"] for row in rows] == pytest.approx([2 / 3, 2 / 3])


def test_a_fit_that_did_not_converge_says_so(monkeypatch):
    assert [row.converged for row in probes.probe_labels(TRAIN, TEST, ["1"])] == [True] * 3
    monkeypatch.setattr(probes, "MAX_ITERATIONS", 1)
    assert [row.converged for row in probes.probe_labels(TRAIN, TEST, ["1"])] == [True, True, False]


def test_senses_without_scikit_learn(monkeypatch, here, make_nlp):
    """The message speaks of them; pages without words need none."""
    monkeypatch.setitem(sys.modules, "sklearn", None)
    make_nlp().to_disk("model")
    (here / "a.txt").write_text("a b\n")
    shown = shown_by("senses", "model", "a.txt", "--word", "a", status=1)
    assert "The grouping of a word's occurrences needs scikit-learn" in shown
    assert 'Run pip install "spacy-elmo[analysis]"' in shown
    assert "probes" not in shown
    shown_by("senses", "model", "--sentence", "a b", "--sentence", "b c")


# Senses


def brute_force(known, senses, asked, k):
    """One cosine at a time, in float64."""
    in_all = Counter(senses)
    for vector in asked.astype("float64"):
        cosines = [vector @ other / np.sqrt((other**2).sum()) for other in known.astype("float64")]
        votes = Counter(senses[i] for i in np.argsort(cosines)[::-1][:k])
        yield min(votes, key=lambda sense: (-votes[sense], -in_all[sense], sense))


@pytest.mark.parametrize("k", [1, 2, 5, 100])
def test_nearest_neighbors(k):
    rng = np.random.default_rng(k)
    known, asked = (rng.normal(size=(n, 6)).astype("float32") for n in (40, 60))
    known *= rng.uniform(0.1, 10, size=(40, 1)).astype("float32")  # length is no part of a cosine
    senses = rng.choice(["a", "b", "b", "c"], size=40).tolist()
    expected = list(brute_force(known, senses, asked, k))
    assert probes.nearest_senses(known, senses, asked, k=k) == expected
    assert len(set(expected)) > 1 or k == 100


def test_equal_vectors_fall_back_to_the_most_frequent_sense():
    """As those of a word's layer 0, which know no context, up to rounding."""
    rng = np.random.default_rng(0)
    vector = rng.normal(size=16).astype("float32")
    known = vector + 1e-5 * rng.normal(size=(5, 16)).astype("float32")
    senses = ["rare", "often", "often", "rare", "often"]
    assert probes.nearest_senses(known, senses, known[:1]) == ["often"]
    assert probes.nearest_senses(known, ["b", "a", "b", "a", "c"], vector[None]) == ["a"]
    # Another form of the word is nearer, and asked first.
    known[0] += rng.normal(size=16)
    assert probes.nearest_senses(known, senses, known[:1]) == ["rare"]
    # Zeros have no direction.
    known = np.array([[0.0, 0.0], [1.0, 0.0]], dtype="float32")
    assert probes.nearest_senses(known, ["a", "b"], np.array([[2.0, 0.1]])) == ["b"]
    assert probes.nearest_senses(known, ["a", "a"], np.zeros((1, 2))) == ["a"]


def words_in_context(n, seed):
    """Layer 0 knows the word, layer 1 nothing, layer 2 the sense, which has its own
    direction in each word."""
    rng = np.random.default_rng(seed)
    words = rng.choice(["bank", "bass", "lead"], size=n).tolist()
    number = rng.choice([0, 1], size=n, p=[0.7, 0.3])
    layers = rng.normal(size=(3, n, 8))
    for i, word in enumerate(words):
        place = ["bank", "bass", "lead"].index(word)
        layers[0, i] = place + np.arange(8)
        layers[2, i] += (8.0 if number[i] else -8.0) * np.eye(8)[place]
    labels = [f"{word}_{sense}" for word, sense in zip(words, number)]
    return Sample(layers.astype("float32"), labels, words)


def test_the_layer_that_disambiguates():
    train, test = words_in_context(300, 1), words_in_context(150, 2)
    rows = list(probes.probe_senses(train, test, ["0", "1", "2"]))
    found = {(row.method, row.input): row.scores["accuracy"] for row in rows}
    # By hand: sense 0 is the most frequent of every word.
    baseline = sum(label.endswith("_0") for label in test.labels) / len(test)
    assert found["most frequent sense", ""] == pytest.approx(baseline)
    for method in ("nearest neighbor", "logistic regression"):
        assert found[method, "layer 0"] == pytest.approx(baseline)
        assert found[method, "layer 1"] < baseline + 0.1
        assert found[method, "layer 2"] == 1.0
    assert all(row.converged for row in rows)
    again = probes.probe_senses(train, test, ["0", "1", "2"])
    assert [row.scores for row in again] == [row.scores for row in rows]


def test_only_the_same_word_is_asked():
    layers = np.array([[[1.0, 0.0], [0.9, 0.1], [1.0, 0.0]]], dtype="float32")
    train = Sample(layers, ["lead_metal", "bass_fish", "bass_fish"], ["lead", "bass", "bass"])
    labels = ["lead_metal", "bass_fish", "bass_tone", "bass_fish"]
    test = Sample(layers[:, [1, 0, 0, 0]], labels, ["lead", "bass", "bass", "wind"])
    for row in probes.probe_senses(train, test, ["0"]):
        # lead: right; bass: one of two, for a sense that training lacks; wind: unknown to
        # training, whose most frequent label is right here.
        assert row.scores == pytest.approx({"accuracy": 3 / 4, "word_accuracy": (1 + 0.5 + 1) / 3})


# The command


TAGS = {"the": "DT", "a": "DT", "cat": "NN", "dog": "NN", "sat": "VB", "ran": "VB"}


@pytest.fixture
def run(here, monkeypatch, tiny_weights):
    monkeypatch.setenv("COLUMNS", "80")
    sentences = list(product(("the", "a"), ("cat", "dog"), ("sat", "ran")))
    for name, part in (("train.spacy", sentences[:6]), ("test.spacy", sentences[6:])):
        docs = [Doc(Vocab(), words=list(s), tags=[TAGS[word] for word in s]) for s in part]
        for doc in docs:
            doc.spans["senses"] = [Span(doc, 1, 2, f"{doc[1]}_{doc[2]}")]
        DocBin(docs=docs).to_disk(name)

    def invoke(*options, json_file="-", status=0):
        arguments = (tiny_weights, "train.spacy", "test.spacy", "--json", json_file, *options)
        return run_elmo("probe", *arguments, status=status)

    return invoke


def test_tags(run, tmp_path):
    shown = run("--task", "tag", json_file="out/tag.json").stdout
    report = json.loads((tmp_path / "out" / "tag.json").read_text())
    assert (report["task"], report["n_labels"]) == ("tag", 3)
    assert (report["n_train"], report["n_test"], report["n_unseen"]) == (18, 6, 0)
    rows = report["rows"]
    assert [row["input"] for row in rows] == ["", "", "layer 0", "layer 1", "layer 2", "average"]
    assert rows[0]["scores"]["accuracy"] == pytest.approx(1 / 3)
    assert rows[1]["scores"]["accuracy"] == 1.0  # a word has one tag
    assert rows[2]["scores"] == {"accuracy": 1.0, "macro_f": 1.0}
    assert max(map(len, shown.splitlines())) <= 80
    shown = " ".join(shown.split())
    assert f"logistic regression layer 1 {rows[3]['scores']['accuracy']:.2%}" in shown
    assert "3 labels; trained on 18, tested on 6" in shown


def test_senses_layers_limit_and_seed(run, tmp_path):
    senses = ("--task", "senses:senses")
    rows = json.loads(run(*senses, "--layers", "1, concat").stdout)["rows"]
    methods = ["most frequent sense", *["nearest neighbor"] * 2, *["logistic regression"] * 2]
    inputs = ["", *["layer 1", "concat"] * 2]
    assert [(row["method"], row["input"]) for row in rows] == list(zip(methods, inputs))
    assert set(rows[0]["scores"]) == {"accuracy", "word_accuracy"}
    tags = ("--task", "tag", "--limit", 5, "--seed")
    reports = [json.loads(run(*tags, seed).stdout) for seed in (0, 0, 1)]
    assert [report["n_train"] for report in reports] == [5, 5, 5]
    first, second, third = ([row["scores"] for row in report["rows"]] for report in reports)
    assert first == second != third
    shown = run(*senses, "--neighbors", "0", json_file="no.json", status=1).output
    assert "must be at least 1, got 0" in shown
    assert not (tmp_path / "no.json").exists()
