import numpy as np
import pytest
import torch
import torch.nn.functional as F

from spacy_elmo.bilm.convolution import ConvolutionMaximum


def tensors(seed=0, n_tokens=3, n_characters=6, size=2, n_filters=5, width=3):
    rng = np.random.default_rng(seed)
    shapes = ((n_tokens, n_characters, size), (n_filters, size, width), (n_filters,))
    return [torch.from_numpy(rng.standard_normal(shape)).requires_grad_() for shape in shapes]


@pytest.mark.parametrize(("n_characters", "width"), [(6, 1), (6, 3), (6, 6), (1, 1)])
def test_values_and_gradients_are_those_of_pytorchs_layers(n_characters, width):
    given = tensors(n_characters=n_characters, width=width)
    characters, weight, bias = given
    got = ConvolutionMaximum.apply(*given)
    expected = F.conv1d(characters.transpose(1, 2), weight, bias).amax(dim=2)
    torch.testing.assert_close(got, expected)
    upstream = torch.from_numpy(np.random.default_rng(1).standard_normal(tuple(got.shape)))
    for ours, theirs in zip(
        torch.autograd.grad(got, given, upstream), torch.autograd.grad(expected, given, upstream)
    ):
        torch.testing.assert_close(ours, theirs)


def test_gradients_by_finite_differences():
    assert torch.autograd.gradcheck(ConvolutionMaximum.apply, tensors())


def test_gradient_of_equal_maxima_goes_to_the_first():
    characters = torch.zeros(1, 4, 1)
    characters[0, 1:3] = 1.0  # twice the same character
    characters.requires_grad_()
    ConvolutionMaximum.apply(characters, torch.ones(1, 1, 1), torch.zeros(1)).sum().backward()
    assert characters.grad.flatten().tolist() == [0, 1, 0, 0]


def test_frozen_inputs_have_no_gradient():
    characters, weight, bias = tensors()
    ConvolutionMaximum.apply(characters.detach(), weight, bias).sum().backward()
    assert weight.grad is not None
    assert characters.grad is None
