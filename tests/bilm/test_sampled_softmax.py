import pytest
import torch

from spacy_elmo.bilm import sampled_softmax as module
from spacy_elmo.bilm.sampled_softmax import SampledSoftmaxLoss

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
        monkeypatch.setattr(module, "CHUNK_LOGITS", size)
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
