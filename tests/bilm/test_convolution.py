import numpy as np
import pytest
import torch
import torch.nn.functional as F

from spacy_elmo.bilm.convolution import ConvolutionMaximum


def tensors(seed=0, n_tokens=3, n_characters=6, size=2, n_filters=5, width=3, n_different=7):
    """Vectors of characters, the characters of tokens, none twice in one, weight and bias."""
    rng = np.random.default_rng(seed)
    shapes = ((n_different, size), (n_filters, size, width), (n_filters,))
    leaves = [torch.from_numpy(rng.standard_normal(shape)).requires_grad_() for shape in shapes]
    rows = [rng.permutation(n_different)[:n_characters] for _ in range(n_tokens)]
    return [leaves[0], torch.from_numpy(np.stack(rows)), *leaves[1:]]


@pytest.mark.parametrize(("n_characters", "width"), [(6, 1), (6, 3), (6, 6), (1, 1)])
def test_values_and_gradients_are_those_of_pytorchs_layers(n_characters, width):
    given = tensors(n_characters=n_characters, width=width)
    vectors, index, weight, bias = given
    got = ConvolutionMaximum.apply(*given)
    expected = F.conv1d(vectors[index].transpose(1, 2), weight, bias).amax(dim=2)
    torch.testing.assert_close(got, expected)
    upstream = torch.from_numpy(np.random.default_rng(1).standard_normal(tuple(got.shape)))
    asked = (vectors, weight, bias)
    for ours, theirs in zip(
        torch.autograd.grad(got, asked, upstream), torch.autograd.grad(expected, asked, upstream)
    ):
        torch.testing.assert_close(ours, theirs)


def test_gradient_of_equal_maxima_goes_to_the_first():
    vectors = torch.tensor([[0.0], [1.0], [1.0]], requires_grad=True)
    index = torch.tensor([[0, 2, 1, 0]])
    ConvolutionMaximum.apply(vectors, index, torch.ones(1, 1, 1), torch.zeros(1)).sum().backward()
    assert vectors.grad.flatten().tolist() == [0, 0, 1]


def test_frozen_inputs_have_no_gradient():
    vectors, index, weight, bias = tensors()
    ConvolutionMaximum.apply(vectors.detach(), index, weight, bias).sum().backward()
    assert weight.grad is not None
    assert vectors.grad is None
