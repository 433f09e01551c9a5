"""The softmax of a model, where its file has one."""

import numpy as np
import pytest
import torch

from spacy_elmo.weights import read_weights
from spacy_elmo.weights.formats import read_bundle

from models import check_refused, tiny_options
from reference import random_datasets, write_hdf5

WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", ".", "日本語", "x" * 60]


def test_softmax(tmp_path):
    options = tiny_options()
    data = random_datasets(options)
    rng = np.random.default_rng(0)
    weight, bias = rng.standard_normal((8, 5)).astype("float32"), np.arange(8, dtype="float32")
    path = write_hdf5(tmp_path, options, {**data, "softmax/W": weight, "softmax/b": bias}, WORDS)
    softmax, vocabulary = read_bundle(path).prediction
    assert vocabulary.words == WORDS
    contexts, targets = rng.standard_normal((6, 5)), rng.integers(0, 8, size=6)
    logits = contexts @ weight.T.astype("float64") + bias
    log_norm = np.log(np.exp(logits).sum(axis=1))
    expected = (log_norm - logits[np.arange(6), targets]).sum()
    got = softmax.negative_log_likelihood(
        torch.from_numpy(contexts).float(), torch.from_numpy(targets)
    )
    assert got == pytest.approx(expected, abs=1e-4)
    assert not any(weight.requires_grad for weight in softmax.parameters())
    assert read_weights(path).config.n_words == 0  # of which it is no part


def test_no_softmax_and_half_of_one(tmp_path):
    options = tiny_options()
    data = random_datasets(options)
    path = write_hdf5(tmp_path, options, data, WORDS)

    def read():
        return read_bundle(path)

    assert (read().prediction, read().missing, read().extras) == (None, "softmax", [])

    write_hdf5(tmp_path, options, {**data, "softmax/W": np.zeros((8, 5))}, WORDS)
    check_refused(read, path, "'softmax/b' is missing", "(8,)")
    write_hdf5(tmp_path, options, {**data, "softmax/b": np.zeros(8)}, WORDS)
    check_refused(read, path, "'softmax/W' is missing")
    both = {"softmax/W": np.zeros((8, 6)), "softmax/b": np.zeros(8)}
    write_hdf5(tmp_path, options, {**data, **both}, WORDS)
    check_refused(read, path, "'softmax/W'", "(8, 6)", "(8, 5)")
    both = {"softmax/W": np.zeros((7, 5)), "softmax/b": np.zeros(7)}
    write_hdf5(tmp_path, options, {**data, **both}, WORDS)
    check_refused(read, "8 words, but dataset 'softmax/W'", "7 rows")
    (tmp_path / "vocab.txt").unlink()
    assert (read().prediction, read().missing) == (None, "vocab.txt")
    assert read().extras == ["the softmax, which has no vocab.txt beside it"]


def test_softmax_of_a_model_of_words(tmp_path):
    options = {"lstm": tiny_options()["lstm"]}
    data = random_datasets(options, n_words=8)
    both = {"softmax/W": np.ones((8, 5)), "softmax/b": np.zeros(8)}
    path = write_hdf5(tmp_path, options, {**data, **both}, WORDS)
    softmax, _ = read_bundle(path).prediction
    assert softmax.weight.shape == (8, 5)
