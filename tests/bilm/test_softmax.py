import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from spacy_elmo.bilm import softmax as module
from spacy_elmo.bilm.softmax import (
    AdaptiveSoftmax,
    Candidates,
    LanguageModelSoftmax,
    SampledSoftmaxLoss,
    make_softmax,
)

N_WORDS, WIDTH = 11, 4


@pytest.fixture
def softmax():
    torch.manual_seed(0)
    made = LanguageModelSoftmax(n_words=N_WORDS, width=WIDTH).double()
    made.bias.data.normal_()
    return made


def inclusion(n_draws):
    """How likely a word is drawn at all, by TensorFlow's log-uniform distribution over ranks."""
    rank = np.arange(N_WORDS)
    once = (np.log(rank + 2) - np.log(rank + 1)) / math.log(N_WORDS + 1)
    return 1 - (1 - once) ** n_draws


def sampled_loss(softmax, contexts, targets, drawn, n_draws):
    """Word by word, in numpy, as TensorFlow's `sampled_softmax_loss` describes it."""
    weight, bias = softmax.weight.detach().numpy(), softmax.bias.detach().numpy()
    offset = np.log(inclusion(n_draws))
    losses = []
    for context, target in zip(contexts, targets):
        words = [target] + [word for word in drawn if word != target]
        logits = np.array([weight[w] @ context + bias[w] - offset[w] for w in words])
        losses.append(np.log(np.exp(logits).sum()) - logits[0])
    return np.mean(losses)


@pytest.mark.parametrize("n_draws", [1, 7, 1000])
def test_log_inclusion(softmax, n_draws):
    got = softmax.log_inclusion(torch.arange(N_WORDS), n_draws).exp().detach()
    np.testing.assert_allclose(got, inclusion(n_draws), rtol=1e-12)


def test_words_are_drawn_as_often_as_expected(softmax):
    torch.manual_seed(1)
    n_times, found = 4000, np.zeros(N_WORDS)
    for _ in range(n_times):
        words, n_draws = softmax.draw_negatives(6)
        assert n_draws == 6
        assert len(set(words.tolist())) == len(words) <= 6
        found[words.numpy()] += 1
    expected = inclusion(6)
    deviation = np.sqrt(n_times * expected * (1 - expected))
    assert (np.abs(found - n_times * expected) < 5 * deviation).all()


def loss_of(softmax, contexts, targets, candidates):
    """With the softmax's own weights in the rows, so that gradients reach them."""
    rows = softmax.rows(targets, candidates)
    weight, bias = softmax.weight[rows.words], softmax.bias[rows.words]
    return softmax.loss(contexts, targets, rows._replace(weight=weight, bias=bias))


@pytest.mark.parametrize("drawn", [[0, 3, 5], [2], [7], list(range(N_WORDS))])
def test_sampled_loss(softmax, drawn):
    """Draws that are no, some or all contexts' target."""
    rng = np.random.default_rng(0)
    contexts, targets = rng.standard_normal((5, WIDTH)), np.array([7, 0, 5, 7, 10])
    n_draws = len(drawn) + 2  # some found the same word again
    tensors = torch.from_numpy(contexts), torch.from_numpy(targets)
    loss = loss_of(softmax, *tensors, Candidates(torch.tensor(drawn), n_draws))
    expected = sampled_loss(softmax, contexts, targets, drawn, n_draws)
    assert loss.item() == pytest.approx(expected, rel=1e-7)


def test_full_loss_is_torchs_cross_entropy(softmax):
    torch.manual_seed(3)
    contexts = torch.randn(6, WIDTH, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([0, 1, 2, 5, 10, 10])
    asked = [contexts, softmax.weight, softmax.bias]
    loss = loss_of(softmax, contexts, targets, softmax.all_words())
    expected = F.cross_entropy(contexts @ softmax.weight.t() + softmax.bias, targets)
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=0)
    for ours, theirs in zip(torch.autograd.grad(loss, asked), torch.autograd.grad(expected, asked)):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-13)


def test_rows_are_those_that_a_step_touches(softmax):
    candidates = Candidates(torch.tensor([1, 4, 9]), 4)
    rows = softmax.rows(torch.tensor([4, 7, 0]), candidates)
    assert rows.words.tolist() == [0, 1, 4, 7, 9]
    assert torch.equal(rows.weight, softmax.weight[rows.words])
    assert torch.equal(rows.bias, softmax.bias[rows.words])
    before = softmax.weight.detach().clone()
    for leaf in (rows.weight, rows.bias):
        assert leaf.is_leaf
        assert leaf.requires_grad
        leaf.detach().add_(1.0)  # copies
    assert torch.equal(softmax.weight, before)
    assert softmax.rows(torch.tensor([4]), softmax.all_words()).words.tolist() == list(range(11))


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


def test_draws_by_a_generator_of_their_own(softmax):
    drawn = [softmax.draw_negatives(8, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)]
    assert torch.equal(drawn[0].words, drawn[1].words)
    assert drawn[0].words.tolist() != drawn[2].words.tolist()


@pytest.mark.parametrize("n_words", [4, 5, 6, 9, 2_050])
def test_adaptive_likelihood_by_its_formula(n_words):
    """A word of a cluster has the cluster's share of the head, times its own in the cluster."""
    torch.manual_seed(1)
    softmax = AdaptiveSoftmax(n_words=n_words, width=8).double()
    weights = {name: value.numpy() for name, value in softmax.layers.state_dict().items()}
    cutoff = 2_000 if n_words > 2_000 else n_words // 2
    assert weights["tail.0.1.weight"].shape == (n_words - cutoff, 4)
    contexts = torch.randn(5, 8, dtype=torch.float64)
    targets = torch.tensor([0, 1, cutoff - 1, cutoff, n_words - 1])
    expected = []
    for context, target in zip(contexts.numpy(), targets.tolist()):
        head = weights["head.weight"] @ context + weights["head.bias"]
        log_head = head - np.log(np.exp(head).sum())
        if target < cutoff:
            expected.append(-log_head[target])
            continue
        tail = weights["tail.0.1.weight"] @ (weights["tail.0.0.weight"] @ context)
        of_tail = tail[target - cutoff] - np.log(np.exp(tail).sum())
        expected.append(-log_head[cutoff] - of_tail)
    found = softmax.negative_log_likelihood(contexts, targets)
    assert found == pytest.approx(sum(expected), rel=1e-10)
    assert softmax.loss(contexts, targets).item() == pytest.approx(np.mean(expected), rel=1e-10)


def test_adaptive_likelihood_of_many_contexts():
    torch.manual_seed(2)
    softmax = AdaptiveSoftmax(n_words=7, width=4)
    contexts, targets = torch.randn(2_500, 4), torch.randint(7, (2_500,))
    expected = softmax.loss(contexts, targets).item() * 2_500
    assert softmax.negative_log_likelihood(contexts, targets) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("n_words", [2_001, 2_002, 10_050, 60_100])
def test_clusters_of_large_vocabularies(n_words):
    torch.manual_seed(0)
    layers = AdaptiveSoftmax(n_words=n_words, width=16).layers
    assert layers.cutoffs[-1] == n_words
    expected = [cutoff for cutoff in (2_000, 10_000, 60_000) if cutoff < n_words - 1]
    assert layers.cutoffs[:-1] == (expected or [n_words // 2])
    assert [tail[0].out_features for tail in layers.tail] == [8, 4, 2][: len(layers.tail)]


def test_kinds():
    for kind, made in (("sampled", LanguageModelSoftmax), ("full", LanguageModelSoftmax)):
        assert type(make_softmax(kind, n_words=5, width=2)) is made
    assert type(make_softmax("adaptive", n_words=5, width=2)) is AdaptiveSoftmax
    with pytest.raises(ValueError, match=r"sampled, full, adaptive, got 'hierarchical'"):
        make_softmax("hierarchical", n_words=5, width=2)


N_ROWS, WIDTH = 9, 4


def arguments(candidates, targets, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)

    leaves = [draw(len(targets), WIDTH), draw(N_ROWS, WIDTH), draw(N_ROWS)]
    offsets = [draw(len(targets)), draw(len(candidates))]
    ids = [torch.tensor(targets), torch.tensor(candidates)]
    return [leaf.requires_grad_() for leaf in leaves], ids, offsets


CASES = [
    ([0, 2, 3, 8], [1, 4, 5, 1, 7]),  # no hit
    ([8, 0, 2, 3], [0, 8, 2, 1, 0, 7, 7]),  # hits, and not in order
    ([5], [5, 5, 1]),  # nothing but the target is left
    (list(range(N_ROWS)), [3, 0, 8]),  # every word: the full softmax
]


@pytest.mark.parametrize(("candidates", "targets"), CASES)
def test_gradient_by_finite_differences(candidates, targets):
    leaves, ids, offsets = arguments(candidates, targets)
    assert torch.autograd.gradcheck(
        lambda *args: SampledSoftmaxLoss.apply(*args, *ids, *offsets), leaves
    )


@pytest.mark.parametrize("chunk", [1, 7, 12, 10**6])
def test_chunks_change_nothing(monkeypatch, chunk):
    found = []
    for size in (2**19, chunk):
        monkeypatch.setattr(module, "LOSS_LOGITS", size)
        leaves, ids, offsets = arguments(*CASES[1])
        loss = SampledSoftmaxLoss.apply(*leaves, *ids, *offsets)
        found.append([loss, *torch.autograd.grad(3 * loss, leaves)])
    for ours, theirs in zip(*found):
        torch.testing.assert_close(ours, theirs, rtol=1e-13, atol=1e-14)


def test_large_logits():
    """Neither overflow nor loss of the small ones."""
    found = []
    for dtype in (torch.float32, torch.float64):
        leaves, ids, offsets = arguments(*CASES[1], dtype=torch.float32)
        leaves = [leaf.detach().to(dtype) for leaf in leaves]
        leaves[1] *= 1000
        leaves = [leaf.requires_grad_() for leaf in leaves]
        loss = SampledSoftmaxLoss.apply(*leaves, *ids, *(offset.to(dtype) for offset in offsets))
        loss.backward()
        assert all(torch.isfinite(leaf.grad).all() for leaf in leaves)
        found.append(loss.item())
    assert 100 < found[0] == pytest.approx(found[1], rel=1e-5)


def test_products_in_bfloat16():
    """The loss itself is the same; only the products of the gradients are rounded."""
    found = []
    for dtype in (None, torch.bfloat16):
        leaves, ids, offsets = arguments(*CASES[3], dtype=torch.float32)
        offsets = [offset.float() for offset in offsets]
        loss = SampledSoftmaxLoss.apply(*leaves, *ids, *offsets, dtype)
        found.append([loss.item(), *torch.autograd.grad(loss, leaves)])
    assert found[0][0] == found[1][0]
    for exact, low in zip(found[0][1:], found[1][1:]):
        assert low.dtype == torch.float32
        assert (low - exact).norm() < 4 * 2.0**-8 * exact.norm()
    assert not torch.equal(found[0][1], found[1][1])


def test_gradient_is_scaled_by_what_comes_in():
    leaves, ids, offsets = arguments(*CASES[0])
    loss = SampledSoftmaxLoss.apply(*leaves, *ids, *offsets)
    once = torch.autograd.grad(loss, leaves, retain_graph=True)
    quarter = torch.autograd.grad(loss / 4, leaves)
    for one, other in zip(once, quarter):
        torch.testing.assert_close(one / 4, other, rtol=1e-14, atol=0)
