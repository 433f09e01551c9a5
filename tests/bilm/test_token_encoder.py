import numpy as np
import pytest
import torch
import torch.nn.functional as F

from spacy_elmo.bilm import token_encoder
from spacy_elmo.bilm.token_encoder import CharacterCNN, ConvolutionMaximum
from spacy_elmo.frozen.config import BiLMConfig
from spacy_elmo.frozen.indexers import character_ids

from helpers import reference
from helpers.models import SENTENCES, make_bilm, tiny_options

TOKENS = [token for sentence in SENTENCES for token in sentence]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"activation": "tanh", "n_highway": 2},
        {"n_highway": 0, "filters": [[1, 2], [4, 3]]},
        {"max_characters_per_token": 50, "filters": [[7, 9]]},
    ],
)
def test_token_vectors(changes):
    options = tiny_options(**changes)
    data = reference.random_datasets(options, 3)
    encoder = make_bilm(options, data).thaw().requires_grad_(False).encoder
    ids = character_ids(TOKENS, max_characters=options["char_cnn"]["max_characters_per_token"])
    expected = [reference.token_vector(options, data, token) for token in TOKENS]
    vectors = encoder.project(encoder.encode_characters(torch.from_numpy(ids)))
    np.testing.assert_allclose(vectors, expected, rtol=0, atol=1e-5)
    assert (encoder.projection is None) == (changes.get("filters") == [[1, 2], [4, 3]])


def test_starting_values():
    """FORMATS.md, section 4."""
    torch.manual_seed(0)
    encoder = CharacterCNN(BiLMConfig(filters=((1, 64), (3, 192)), n_highway=1))
    characters = encoder.embedding.weight.detach()
    assert characters[0].abs().max() == 0
    assert -1 <= characters.min() < -0.99
    assert 0.99 < characters.max() <= 1
    for convolution in encoder.convolutions:
        assert 0.045 < convolution.weight.abs().max() <= 0.05
        assert convolution.bias.abs().max() == 0
    highway = encoder.highways[0]
    assert (highway.gate.bias == -2).all()
    for weight in (highway.gate.weight, highway.nonlinear.weight, encoder.projection.weight):
        assert weight.std().item() == pytest.approx(256**-0.5, rel=0.05)


def test_padding_row_is_not_trained():
    encoder = CharacterCNN(BiLMConfig(filters=((1, 4),)))
    encoder.encode_characters(torch.tensor([[0, 5, 0]])).sum().backward()
    assert encoder.embedding.weight.grad[0].abs().max() == 0


def test_all_characters_or_those_that_occur(monkeypatch):
    """Values and gradients are the same where a GPU takes the whole alphabet."""
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


def test_tokens_in_parts(monkeypatch):
    """Each without the padding of longer tokens in others, and all the same vectors."""
    encoder = CharacterCNN(BiLMConfig(filters=((1, 4), (3, 5)))).double()
    ids = torch.from_numpy(
        character_ids(sorted(TOKENS, key=lambda token: len(token.encode("utf8", "ignore"))))
    )
    whole = encoder.encode_characters(ids)
    widths = []
    original = token_encoder.different

    def different(ids, n_characters):
        widths.append(ids.shape[1])
        return original(ids, n_characters)

    monkeypatch.setattr(token_encoder, "different", different)
    monkeypatch.setattr(token_encoder, "CONVOLVED_TOKENS", 4)
    torch.testing.assert_close(encoder.encode_characters(ids), whole, rtol=1e-13, atol=1e-14)
    assert widths == sorted(widths) and widths[0] < widths[-1]
    assert len(widths) == -(-len(TOKENS) // 4)


@pytest.mark.parametrize("ids", [[[1, 2, 3, 3, 3, 3, 3]], [[1, 2, 3, 3, 3, 3, 3], [4] * 7]])
def test_padding_is_left_out_but_for_one_window(ids):
    ids = torch.tensor(ids)
    assert torch.equal(token_encoder._without_padding(ids, 3), ids[:, :5])
    assert torch.equal(token_encoder._without_padding(ids, 6), ids)
    assert torch.equal(token_encoder._without_padding(ids[-1:, 2:], 2), ids[-1:, 2:4])


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
