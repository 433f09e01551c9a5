"""Loss of the softmax over candidate words, and how words are drawn."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from spacy_elmo.bilm import softmax as module
from spacy_elmo.bilm.softmax import Candidates, LanguageModelSoftmax, SampledSoftmaxLoss

N_WORDS, WIDTH = 11, 4


@pytest.fixture
def softmax():
    torch.manual_seed(0)
    made = LanguageModelSoftmax(n_words=N_WORDS, width=WIDTH).double()
    made.bias.data.normal_()
    return made


def inclusion(n_draws):
    """Return the probability that a word is drawn at all, by TensorFlow's log-uniform distribution
    over ranks."""
    rank = np.arange(N_WORDS)
    once = (np.log(rank + 2) - np.log(rank + 1)) / math.log(N_WORDS + 1)
    return 1 - (1 - once) ** n_draws


def test_words_are_drawn_as_often_as_expected(softmax):
    """Half of the draws use a given generator, and half use PyTorch's."""
    generator = torch.Generator()
    n_times, found = 4000, np.zeros(N_WORDS)
    for seed in range(n_times):
        words, n_draws = softmax.draw_negatives(
            6, generator.manual_seed(seed) if seed % 2 else None
        )
        assert n_draws == 6
        assert len(set(words.tolist())) == len(words) <= 6
        found[words.numpy()] += 1
    expected = inclusion(6)
    deviation = np.sqrt(n_times * expected * (1 - expected))
    assert (np.abs(found - n_times * expected) < 5 * deviation).all()
    draws = [softmax.draw_negatives(8, generator.manual_seed(seed)).words for seed in (1, 1, 2)]
    assert draws[0].tolist() == draws[1].tolist() != draws[2].tolist()


def loss_of(softmax, contexts, targets, candidates):
    """Compute the loss with the softmax's own weights in the rows, so that gradients reach them."""
    rows = softmax.rows(targets, candidates)
    weight, bias = softmax.weight[rows.words], softmax.bias[rows.words]
    return softmax.loss(contexts, targets, rows._replace(weight=weight, bias=bias))


@pytest.mark.parametrize("drawn", [[5, 0, 3], [2], [7], list(range(N_WORDS)), None])
def test_loss_and_gradients_equal_the_formula(softmax, drawn):
    """The draws contain no, some or all targets of the contexts, or all words: the full softmax. A
    target is no negative of its own, as in TensorFlow's `sampled_softmax_loss`."""
    torch.manual_seed(3)
    contexts = torch.randn(5, WIDTH, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([7, 0, 5, 7, 10])
    logits = contexts @ softmax.weight.t() + softmax.bias
    if drawn is None:
        candidates = softmax.all_words()
        expected = F.cross_entropy(logits, targets)
    else:
        candidates = Candidates(torch.tensor(drawn), len(drawn) + 2)  # two were drawn twice
        logits = logits - torch.from_numpy(np.log(inclusion(candidates.n_draws)))
        words = [[t, *(word for word in drawn if word != t)] for t in targets.tolist()]
        expected = torch.stack(
            [row[which].logsumexp(0) - row[which[0]] for row, which in zip(logits, words)]
        ).mean()
    loss = loss_of(softmax, contexts, targets, candidates)
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=0)
    asked = [contexts, softmax.weight, softmax.bias]
    for ours, theirs in zip(*(torch.autograd.grad(each / 3, asked) for each in (loss, expected))):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-13)


def test_rows_are_the_words_that_a_step_reads(softmax):
    candidates = Candidates(torch.tensor([1, 4, 9]), 4)
    rows = softmax.rows(torch.tensor([4, 7, 0]), candidates)
    assert rows.words.tolist() == [0, 1, 4, 7, 9]
    before = softmax.weight.detach().clone()
    for leaf, whole in ((rows.weight, softmax.weight), (rows.bias, softmax.bias)):
        assert torch.equal(leaf, whole[rows.words])
        assert leaf.is_leaf and leaf.requires_grad
        leaf.detach().add_(1.0)  # copies
    assert torch.equal(softmax.weight, before)
    assert softmax.rows(torch.tensor([4]), softmax.all_words()).words.tolist() == list(range(11))


def arguments(dtype=torch.float64):
    """Return contexts, weights and biases; targets and candidates, unsorted; and their offsets."""
    candidates, targets = [8, 0, 2, 3], [0, 8, 2, 1, 0, 7, 7]
    generator = torch.Generator().manual_seed(0)
    shapes = (len(targets), WIDTH), (9, WIDTH), (9,), (len(targets),), (len(candidates),)
    drawn = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    *leaves, one, other = (each.to(dtype) for each in drawn)
    ids = [torch.tensor(targets), torch.tensor(candidates)]
    return [leaf.requires_grad_() for leaf in leaves], [*ids, one, other]


@pytest.mark.parametrize("chunk", [1, 7, 12])
def test_chunks_do_not_change_loss_or_gradients(monkeypatch, chunk):
    found = []
    for size in (module.LOSS_LOGITS, chunk):
        monkeypatch.setattr(module, "LOSS_LOGITS", size)
        leaves, others = arguments()
        loss = SampledSoftmaxLoss.apply(*leaves, *others)
        found.append([loss, *torch.autograd.grad(loss, leaves)])
    for ours, theirs in zip(*found):
        torch.testing.assert_close(ours, theirs, rtol=1e-13, atol=1e-14)


@pytest.mark.training
def test_large_logits_do_not_overflow():
    """Small logits are not lost either."""
    found = []
    for dtype in (torch.float32, torch.float64):
        leaves, others = arguments(dtype)
        leaves[1].data *= 1000
        loss = SampledSoftmaxLoss.apply(*leaves, *others)
        loss.backward()
        assert all(torch.isfinite(leaf.grad).all() for leaf in leaves)
        found.append(loss.item())
    assert 100 < found[0] == pytest.approx(found[1], rel=1e-5)
