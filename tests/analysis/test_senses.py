from collections import Counter

import numpy as np
import pytest

from spacy_elmo.analysis.probes import nearest_senses, probe_senses
from spacy_elmo.analysis.sample import Sample


def brute_force(known, senses, asked, k):
    """One cosine at a time, in float64."""
    found = []
    for vector in asked.astype("float64"):
        cosines = []
        for other in known.astype("float64"):
            norms = np.sqrt((vector**2).sum()) * np.sqrt((other**2).sum())
            cosines.append((vector * other).sum() / norms)
        nearest = sorted(range(len(cosines)), key=lambda i: -cosines[i])[:k]
        votes = Counter(senses[i] for i in nearest)
        in_all = Counter(senses)
        found.append(min(votes, key=lambda sense: (-votes[sense], -in_all[sense], sense)))
    return found


@pytest.mark.parametrize("k", [1, 2, 5, 100])
def test_nearest_neighbors(k):
    rng = np.random.default_rng(k)
    known, asked = (rng.normal(size=(n, 6)).astype("float32") for n in (40, 60))
    known *= rng.uniform(0.1, 10, size=(40, 1)).astype("float32")  # length is no part of a cosine
    senses = rng.choice(["a", "b", "b", "c"], size=40).tolist()
    expected = brute_force(known, senses, asked, k)
    assert nearest_senses(known, senses, asked, k=k) == expected
    assert len(set(expected)) > 1 or k == 100


def test_equal_vectors_fall_back_to_the_most_frequent_sense():
    """As those of a word's layer 0, which know no context, up to rounding."""
    rng = np.random.default_rng(0)
    vector = rng.normal(size=16).astype("float32")
    known = vector + 1e-5 * rng.normal(size=(5, 16)).astype("float32")
    senses = ["rare", "often", "often", "rare", "often"]
    assert nearest_senses(known, senses, known[:1]) == ["often"]
    assert nearest_senses(known, ["b", "a", "b", "a", "c"], vector[None]) == ["a"]
    # Another form of the word is nearer, and asked first.
    known[0] += rng.normal(size=16)
    assert nearest_senses(known, senses, known[:1]) == ["rare"]


def test_zeros_have_no_direction():
    known = np.array([[0.0, 0.0], [1.0, 0.0]], dtype="float32")
    assert nearest_senses(known, ["a", "b"], np.array([[2.0, 0.1]])) == ["b"]
    assert nearest_senses(known, ["a", "a"], np.zeros((1, 2))) == ["a"]


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
    rows = list(probe_senses(train, test, ["0", "1", "2"]))
    found = {(row.method, row.input): row.scores["accuracy"] for row in rows}
    # By hand: sense 0 is the most frequent of every word.
    baseline = sum(label.endswith("_0") for label in test.labels) / len(test)
    assert found["most frequent sense", ""] == pytest.approx(baseline)
    for method in ("nearest neighbor", "logistic regression"):
        assert found[method, "layer 0"] == pytest.approx(baseline)
        assert found[method, "layer 1"] < baseline + 0.1
        assert found[method, "layer 2"] == 1.0
    assert [row.converged for row in rows] == [True] * 7
    again = probe_senses(train, test, ["0", "1", "2"])
    assert [row.scores for row in again] == [row.scores for row in rows]


def test_only_the_same_word_is_asked():
    layers = np.array([[[1.0, 0.0], [0.9, 0.1], [1.0, 0.0]]], dtype="float32")
    train = Sample(layers, ["lead_metal", "bass_fish", "bass_fish"], ["lead", "bass", "bass"])
    test = Sample(
        layers[:, [1, 0, 0, 0]],
        ["lead_metal", "bass_fish", "bass_tone", "bass_fish"],
        ["lead", "bass", "bass", "wind"],
    )
    for row in probe_senses(train, test, ["0"]):
        # lead: right; bass: one of two, for a sense that training lacks; wind: unknown to
        # training, whose most frequent label is right here.
        assert row.scores == pytest.approx({"accuracy": 3 / 4, "word_accuracy": (1 + 0.5 + 1) / 3})


def test_no_neighbor():
    sample = words_in_context(5, 0)
    with pytest.raises(ValueError, match="must be at least 1, got 0"):
        list(probe_senses(sample, sample, ["0"], k=0))
