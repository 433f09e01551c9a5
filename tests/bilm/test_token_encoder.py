"""Character CNN: values and gradients equal those of PyTorch's own layers."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from spacy_elmo.bilm import token_encoder
from spacy_elmo.bilm.token_encoder import CharacterCNN, ConvolutionMaximum
from spacy_elmo.model.config import BiLMConfig
from spacy_elmo.model.indexers import character_ids

from helpers.models import SENTENCES

TOKENS = [token for sentence in SENTENCES for token in sentence]


@pytest.mark.training
def test_padding_row_is_not_trained():
    encoder = CharacterCNN(BiLMConfig(filters=((1, 4),)))
    encoder.encode_characters(torch.tensor([[0, 5, 0]])).sum().backward()
    assert encoder.embedding.weight.grad[0].abs().max() == 0


def test_the_whole_alphabet_gives_the_same_as_the_characters_that_occur(monkeypatch):
    """A GPU projects the whole alphabet. Values and gradients are the same."""
    encoder = CharacterCNN(BiLMConfig(filters=((1, 4), (3, 5)))).double()
    ids = torch.from_numpy(character_ids(TOKENS, widest_filter=3))
    found = []
    for different in (token_encoder.different, lambda ids, n: (torch.arange(n), ids.long())):
        monkeypatch.setattr(token_encoder, "different", different)
        vectors = encoder.encode_characters(ids)
        weights = torch.arange(vectors.numel(), dtype=torch.float64).view(vectors.shape).cos()
        asked = list(encoder.parameters())
        gradients = torch.autograd.grad((vectors * weights).sum(), asked, allow_unused=True)
        found.append([vectors, *(gradient for gradient in gradients if gradient is not None)])
    for ours, theirs in zip(*found):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("n_characters", "width"), [(6, 1), (6, 3), (6, 6), (1, 1)])
def test_values_and_gradients_are_those_of_pytorchs_layers(n_characters, width):
    """The case has seven characters, three tokens without a repeated character, and five
    filters."""
    rng = np.random.default_rng(0)
    shapes = ((7, 2), (5, 2, width), (5,))
    asked = [torch.from_numpy(rng.standard_normal(shape)).requires_grad_() for shape in shapes]
    vectors, weight, bias = asked
    index = torch.from_numpy(np.stack([rng.permutation(7)[:n_characters] for _ in range(3)]))
    got = ConvolutionMaximum.apply(vectors, index, weight, bias)
    expected = F.conv1d(vectors[index].transpose(1, 2), weight, bias).amax(dim=2)
    torch.testing.assert_close(got, expected)
    upstream = torch.from_numpy(rng.standard_normal(tuple(got.shape)))
    both = (torch.autograd.grad(values, asked, upstream) for values in (got, expected))
    for ours, theirs in zip(*both):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.training
def test_gradient_of_equal_maxima_goes_to_the_first():
    vectors = torch.tensor([[0.0], [1.0], [1.0]], requires_grad=True)
    index = torch.tensor([[0, 2, 1, 0]])
    ConvolutionMaximum.apply(vectors, index, torch.ones(1, 1, 1), torch.zeros(1)).sum().backward()
    assert vectors.grad.flatten().tolist() == [0, 0, 1]
