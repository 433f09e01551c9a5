import numpy as np
import pytest
import torch

from spacy_elmo.bilm import char_cnn
from spacy_elmo.bilm.char_cnn import CharacterCNN
from spacy_elmo.frozen.characters import character_ids
from spacy_elmo.frozen.config import BiLMConfig

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
    vectors = encoder.project(encoder.of_characters(torch.from_numpy(ids)))
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
    encoder.of_characters(torch.tensor([[0, 5, 0]])).sum().backward()
    assert encoder.embedding.weight.grad[0].abs().max() == 0


def test_all_characters_or_those_that_occur(monkeypatch):
    """Values and gradients are the same where a GPU takes the whole alphabet."""
    encoder = CharacterCNN(BiLMConfig(filters=((1, 4), (3, 5)))).double()
    ids = torch.from_numpy(character_ids(TOKENS, widest_filter=3))
    found = []
    for different in (char_cnn.different, lambda ids, n: (torch.arange(n), ids.long())):
        monkeypatch.setattr(char_cnn, "different", different)
        vectors = encoder.of_characters(ids)
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
    whole = encoder.of_characters(ids)
    widths = []
    original = char_cnn.different

    def different(ids, n_characters):
        widths.append(ids.shape[1])
        return original(ids, n_characters)

    monkeypatch.setattr(char_cnn, "different", different)
    monkeypatch.setattr(char_cnn, "CONVOLVED_TOKENS", 4)
    torch.testing.assert_close(encoder.of_characters(ids), whole, rtol=1e-13, atol=1e-14)
    assert widths == sorted(widths) and widths[0] < widths[-1]
    assert len(widths) == -(-len(TOKENS) // 4)


@pytest.mark.parametrize("ids", [[[1, 2, 3, 3, 3, 3, 3]], [[1, 2, 3, 3, 3, 3, 3], [4] * 7]])
def test_padding_is_left_out_but_for_one_window(ids):
    ids = torch.tensor(ids)
    assert torch.equal(char_cnn._without_padding(ids, 3), ids[:, :5])
    assert torch.equal(char_cnn._without_padding(ids, 6), ids)
    assert torch.equal(char_cnn._without_padding(ids[-1:, 2:], 2), ids[-1:, 2:4])
