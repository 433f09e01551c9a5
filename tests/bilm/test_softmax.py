import math

import numpy as np
import pytest
import torch

from spacy_elmo.bilm import softmax as module
from spacy_elmo.bilm.softmax import LanguageModelSoftmax

N_WORDS, WIDTH = 11, 4


@pytest.fixture
def softmax():
    torch.manual_seed(0)
    made = LanguageModelSoftmax(n_words=N_WORDS, width=WIDTH).double()
    made.bias.data.normal_()
    return made


def expected_counts(n_draws):
    """TensorFlow's log-uniform distribution over ranks."""
    rank = np.arange(N_WORDS)
    return n_draws * (np.log(rank + 2) - np.log(rank + 1)) / math.log(N_WORDS + 1)


def sampled_loss(softmax, contexts, targets, drawn):
    """Draw by draw, in numpy."""
    weight, bias = softmax.weight.detach().numpy(), softmax.bias.detach().numpy()
    log_counts = np.log(expected_counts(len(drawn)))
    losses = []
    for context, target in zip(contexts, targets):
        words = [target] + [word for word in drawn if word != target]
        logits = np.array([weight[w] @ context + bias[w] - log_counts[w] for w in words])
        losses.append(np.log(np.exp(logits).sum()) - logits[0])
    return np.mean(losses)


def test_log_expected_count(softmax):
    got = softmax.log_expected_count(torch.arange(N_WORDS), 7).exp().detach()
    np.testing.assert_allclose(got, expected_counts(7), rtol=1e-12)
    assert got.sum().item() == pytest.approx(7)


def test_draws_have_the_expected_counts(softmax):
    torch.manual_seed(1)
    n = 200_000
    words, counts = softmax.draw_negatives(n)
    assert words.tolist() == list(range(N_WORDS))
    assert counts.sum() == n
    expected = expected_counts(n)
    assert (np.abs(counts.numpy() - expected) < 5 * np.sqrt(expected)).all()


def test_draws_are_different_words_with_counts(softmax):
    words, counts = softmax.draw_negatives(5)
    assert len(set(words.tolist())) == len(words) == len(counts)
    assert counts.sum() == 5


@pytest.mark.parametrize("drawn", [[0, 0, 0, 3, 5, 5], [2], [7, 7, 7], list(range(N_WORDS))])
def test_sampled_loss_and_its_gradient(softmax, drawn):
    """Draws that repeat, draws that are some or all contexts' target."""
    rng = np.random.default_rng(0)
    contexts, targets = rng.standard_normal((5, WIDTH)), np.array([7, 0, 5, 7, 10])
    words, counts = np.unique(drawn, return_counts=True)
    arguments = [torch.from_numpy(array) for array in (contexts, targets, words, counts)]
    arguments[0].requires_grad_()
    loss = softmax.sampled_loss(*arguments)
    assert loss.item() == pytest.approx(sampled_loss(softmax, contexts, targets, drawn), rel=1e-7)
    loss.backward()
    for tensor in (softmax.weight, softmax.bias, arguments[0]):
        flat, grad = tensor.detach().view(-1), tensor.grad.view(-1)
        for i in range(len(flat)):
            value, results = flat[i].item(), []
            for changed in (value + 1e-6, value - 1e-6):
                flat[i] = changed
                now = arguments[0].detach().numpy()
                results.append(sampled_loss(softmax, now, targets, drawn))
            flat[i] = value
            slope = (results[0] - results[1]) / 2e-6
            assert grad[i].item() == pytest.approx(slope, rel=1e-5, abs=1e-8)


def test_many_draws_come_near_the_full_softmax(softmax):
    """The estimate of the sum over the vocabulary is consistent."""
    torch.manual_seed(2)
    contexts, targets = torch.randn(6, WIDTH, dtype=torch.float64), torch.tensor([0, 1, 2, 5, 9, 9])
    words, counts = softmax.draw_negatives(1_000_000)
    # A target's own expected count is left out of both its terms: it stands for itself once.
    log_count = softmax.log_expected_count(targets, 1_000_000)
    logits = contexts @ softmax.weight.t() + softmax.bias
    of_target = logits.gather(1, targets[:, None])[:, 0]
    others = logits.scatter(1, targets[:, None], -math.inf).logsumexp(1)
    expected = torch.logaddexp(of_target - log_count, others) - (of_target - log_count)
    got = softmax.sampled_loss(contexts, targets, words, counts)
    assert got.item() == pytest.approx(expected.mean().item(), abs=0.01)


@pytest.mark.parametrize("chunk", [1, 25, 10**6])
def test_negative_log_likelihood(softmax, monkeypatch, chunk):
    monkeypatch.setattr(module, "CHUNK_LOGITS", chunk)
    rng = np.random.default_rng(0)
    contexts, targets = rng.standard_normal((7, WIDTH)), rng.integers(N_WORDS, size=7)
    logits = contexts @ softmax.weight.detach().numpy().T + softmax.bias.detach().numpy()
    expected = sum(np.log(np.exp(row).sum()) - row[target] for row, target in zip(logits, targets))
    got = softmax.negative_log_likelihood(torch.from_numpy(contexts), torch.from_numpy(targets))
    assert got == pytest.approx(expected, rel=1e-12)


def test_starting_values():
    torch.manual_seed(0)
    softmax = LanguageModelSoftmax(n_words=500, width=64)
    assert softmax.weight.std().item() == pytest.approx(1 / 8, rel=0.05)
    assert softmax.bias.abs().max() == 0
