"""`FrozenSoftmax` against the torch modules and the formula in float64."""

import numpy as np
import pytest
import torch

from spacy_elmo.bilm.softmax import freeze, make_softmax
from spacy_elmo.frozen import softmax as module
from spacy_elmo.frozen.softmax import FrozenSoftmax, softmax_shapes

SIZES = [("full", 7), ("adaptive", 7), ("adaptive", 2050)]


def made(kind, n_words, width=8):
    torch.manual_seed(n_words)
    softmax = make_softmax(kind, n_words=n_words, width=width).requires_grad_(False)
    for weight in softmax.parameters():
        weight.normal_()
    return softmax


def log_softmax(scores):
    return scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))


def expected_of(arrays, contexts):
    """Word by word in float64: a cluster's probability times that of the word in it."""
    arrays = {name: values.astype("float64") for name, values in arrays.items()}
    if "weight" in arrays:
        return log_softmax(contexts @ arrays["weight"].T + arrays["bias"])
    head = log_softmax(contexts @ arrays["layers.head.weight"].T + arrays["layers.head.bias"])
    n_tails = sum(name.endswith(".1.weight") for name in arrays)
    parts = [head[:, : head.shape[1] - n_tails]]
    for i in range(n_tails):
        down, low = (arrays[f"layers.tail.{i}.{k}.weight"] for k in (0, 1))
        cluster = head[:, head.shape[1] - n_tails + i, None]
        parts.append(cluster + log_softmax(contexts @ down.T @ low.T))
    return np.concatenate(parts, axis=1)


@pytest.mark.parametrize("type", ["float32", "float16"])
@pytest.mark.parametrize(("kind", "n_words"), SIZES)
def test_formula_and_torch_module(monkeypatch, kind, n_words, type):
    arrays = {
        name: values.astype(type) for name, values in freeze(made(kind, n_words)).arrays().items()
    }
    frozen = FrozenSoftmax(arrays)
    rng = np.random.default_rng(0)
    contexts = rng.standard_normal((9, 8)).astype("float32")
    targets = rng.integers(n_words, size=9)
    expected = expected_of(arrays, contexts.astype("float64"))
    found = frozen.log_probabilities(contexts)
    assert found.dtype == "float64"
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(np.exp(found).sum(axis=1), 1.0, rtol=1e-6)
    inputs = torch.from_numpy(contexts)
    loss = -expected[np.arange(9), targets].sum()
    assert frozen.thaw().negative_log_likelihood(inputs, torch.from_numpy(targets)) == (
        pytest.approx(loss, rel=1e-6)
    )
    for n_logits in (module.CHUNK_LOGITS, 2 * n_words, 1):
        monkeypatch.setattr(module, "CHUNK_LOGITS", n_logits)
        assert frozen.negative_log_likelihood(contexts, targets) == pytest.approx(loss, rel=1e-6)
    assert frozen.negative_log_likelihood(contexts[:0], targets[:0]) == 0


@pytest.mark.parametrize(("kind", "n_words"), SIZES)
def test_sizes_and_round_trip(kind, n_words):
    softmax = made(kind, n_words)
    frozen = freeze(softmax)
    assert (frozen.kind, frozen.sizes) == (kind, (n_words, 8))
    shapes = {name: values.shape for name, values in frozen.arrays().items()}
    assert shapes == softmax_shapes(kind, n_words=n_words, width=8)
    before = {name: values.copy() for name, values in frozen.arrays().items()}
    for each in (softmax, frozen.thaw()):  # neither shares memory with it
        for weight in each.parameters():
            weight.data.zero_()
    for name, values in frozen.arrays().items():
        np.testing.assert_array_equal(values, before[name])
    assert all(weight.requires_grad for weight in frozen.thaw().parameters())


def test_large_scores():
    frozen = FrozenSoftmax(
        {"weight": 1e4 * np.eye(3, dtype="float32"), "bias": np.zeros(3, "float32")}
    )
    found = frozen.log_probabilities(np.array([[1, 0, -1]], "float32"))
    np.testing.assert_allclose(found, [[0, -1e4, -2e4]])
