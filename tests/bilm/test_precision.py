import pytest
import torch
import torch.nn.functional as F

from spacy_elmo.bilm.precision import linear


@pytest.fixture
def layer():
    torch.manual_seed(0)
    return torch.nn.Linear(32, 16)


def results(layer, dtype):
    torch.manual_seed(1)
    inputs = torch.randn(20, 32, requires_grad=True)
    output = linear(inputs, layer, dtype)
    upstream = torch.randn(20, 16)
    return [output, *torch.autograd.grad(output, [inputs, layer.weight, layer.bias], upstream)]


def test_without_a_type_it_is_pytorchs(layer):
    torch.manual_seed(1)
    inputs = torch.randn(20, 32)
    assert torch.equal(linear(inputs, layer, None), F.linear(inputs, layer.weight, layer.bias))


def test_lower_products_are_near_and_results_keep_their_type(layer):
    exact, low = results(layer, None), results(layer, torch.bfloat16)
    for ours, theirs in zip(low, exact):
        assert ours.dtype == torch.float32
        assert (ours - theirs).norm() < 0.01 * theirs.norm()
    assert not torch.equal(low[0], exact[0])
    torch.testing.assert_close(low[3], exact[3])  # a sum, no product
