"""`FrozenSoftmax` and the softmaxes in PyTorch against the formula in float64."""

import numpy as np
import pytest
import torch

from spacy_elmo.bilm import softmax as torch_module
from spacy_elmo.bilm.softmax import freeze, make_softmax, thaw_softmax
from spacy_elmo.frozen import softmax as module
from spacy_elmo.frozen.softmax import FrozenSoftmax, softmax_shapes

ADAPTIVE = [4, 5, 6, 9, 2_050, 10_050]
SIZES = [("full", 7), *(("adaptive", n_words) for n_words in ADAPTIVE)]


def made(kind, n_words):
    torch.manual_seed(n_words)
    softmax = make_softmax(kind, n_words=n_words, width=8).requires_grad_(False)
    for weight in softmax.parameters():
        weight.normal_()
    return softmax


def log_softmax(scores):
    return scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))


def expected_of(arrays, contexts):
    """Compute log probabilities word by word in float64. A cluster's probability is multiplied by
    the word's probability in it."""
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
def test_likelihoods_equal_the_formula(monkeypatch, kind, n_words, type):
    arrays = {
        name: values.astype(type) for name, values in freeze(made(kind, n_words)).arrays().items()
    }
    frozen = FrozenSoftmax(arrays)
    rng = np.random.default_rng(0)
    contexts = rng.standard_normal((9, 8)).astype("float32")
    targets = np.append(rng.integers(n_words, size=7), [0, n_words - 1])
    expected = expected_of(arrays, contexts.astype("float64"))
    found = frozen.log_probabilities(contexts)
    assert found.dtype == "float64"
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    loss = -expected[np.arange(9), targets].sum()
    exact = (
        thaw_softmax(frozen).double(),
        torch.from_numpy(contexts).double(),
        torch.from_numpy(targets),
    )
    for n_logits in (module.CHUNK_LOGITS, 2 * n_words, 1):
        monkeypatch.setattr(module, "CHUNK_LOGITS", n_logits)
        monkeypatch.setattr(torch_module, "CHUNK_LOGITS", n_logits)
        assert frozen.negative_log_likelihood(contexts, targets) == pytest.approx(loss, rel=1e-6)
        found = exact[0].negative_log_likelihood(*exact[1:])
        assert found == pytest.approx(loss, rel=1e-10)
    assert frozen.negative_log_likelihood(contexts[:0], targets[:0]) == 0
    if kind == "adaptive":
        assert exact[0].loss(*exact[1:]).item() == pytest.approx(loss / 9, rel=1e-10)


def test_adaptive_likelihood_of_many_contexts_is_the_sum():
    softmax, contexts, targets = made("adaptive", 7), torch.randn(2_500, 8), torch.arange(2_500) % 7
    expected = softmax.loss(contexts, targets).item() * 2_500
    assert softmax.negative_log_likelihood(contexts, targets) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("kind", "n_words"), SIZES)
def test_a_frozen_softmax_is_thawed_the_same(kind, n_words):
    softmax = made(kind, n_words)
    frozen = freeze(softmax)
    assert (frozen.kind, frozen.sizes) == (kind, (n_words, 8))
    before = {name: values.copy() for name, values in frozen.arrays().items()}
    shapes = {name: values.shape for name, values in before.items()}
    assert shapes == softmax_shapes(kind, n_words=n_words, width=8)
    for each in (softmax, thaw_softmax(frozen)):  # neither shares memory with it
        for weight in each.parameters():
            weight.data.zero_()
    for name, values in frozen.arrays().items():
        np.testing.assert_array_equal(values, before[name])
    assert all(weight.requires_grad for weight in thaw_softmax(frozen).parameters())


def test_clusters_grow_with_the_vocabulary():
    """Expected are the words in the head, and words and width of each cluster of rare words."""
    expected = {
        2_001: [1_000, (1_001, 8)],
        2_002: [2_000, (2, 8)],
        10_050: [2_000, (8_000, 8), (50, 4)],
        60_100: [2_000, (8_000, 8), (50_000, 4), (100, 2)],
    }
    for n_words, (n_head, *tails) in expected.items():
        shapes = softmax_shapes("adaptive", n_words=n_words, width=16)
        assert shapes["layers.head.weight"] == (n_head + len(tails), 16)
        assert [shapes[name] for name in shapes if name.endswith("1.weight")] == tails


def test_large_scores_do_not_overflow():
    arrays = {"weight": 1e4 * np.eye(3, dtype="float32"), "bias": np.zeros(3, "float32")}
    found = FrozenSoftmax(arrays).log_probabilities(np.array([[1, 0, -1]], "float32"))
    np.testing.assert_allclose(found, [[0, -1e4, -2e4]])


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match=r"sampled, full, adaptive, got 'hierarchical'"):
        make_softmax("hierarchical", n_words=5, width=2)
