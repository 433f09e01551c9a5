"""The biLM in PyTorch: gradients against finite differences, dropout, skip connections, first
weights."""

import pytest
import torch

from spacy_elmo.bilm import model as module
from spacy_elmo.bilm import token_encoder
from spacy_elmo.bilm.lstm import BiLMState
from spacy_elmo.bilm.model import BiLM
from spacy_elmo.bilm.softmax import LanguageModelSoftmax
from spacy_elmo.model.config import BiLMConfig

from helpers.models import tiny_module


@pytest.mark.training
def test_gradients_equal_finite_differences(monkeypatch):
    """They are computed in float64, for weights of every kind and for the state."""
    monkeypatch.setattr(module, "WINDOW_ITEMS", 3)  # finite differences run through windows
    monkeypatch.setattr(token_encoder, "CONVOLVED_TOKENS", 2)
    bilm = tiny_module(cell_clip=1.5, proj_clip=2.5).double()
    sentences = [["a", "bc", "a"], [], ["naïve"]]
    _, state = bilm.embed(sentences, "warm")
    start = BiLMState(state.hidden.clone(), state.cell.clone())
    given = dict(bilm.requires_grad_(True).named_parameters(), hidden=start.hidden, cell=start.cell)
    bilm.encoder.embedding.padding_idx = None  # So the masked position gets a gradient, too.
    for tensor in given.values():
        tensor.requires_grad_()

    def run(*given):
        layers, after = bilm.embed(sentences, start)
        return torch.cat(layers, dim=1), after.hidden, after.cell

    assert torch.autograd.gradcheck(run, list(given.values()), fast_mode=True)


@pytest.mark.training
def test_dropout_acts_only_in_training():
    bilm = tiny_module().requires_grad_(True)
    vectors, rows = torch.randn(4, 5), torch.arange(4).repeat(2, 1)
    outputs = [
        bilm.train(training)(vectors, rows, [2, 2], bilm.zero_state(2), dropout=dropout)[0][0][1]
        for training, dropout in ((False, 0.0), (False, 0.5), (True, 0.0), (True, 0.5))
    ]
    assert torch.equal(outputs[0], outputs[1])
    torch.testing.assert_close(outputs[0], outputs[2])
    assert (outputs[0] - outputs[3]).abs().max() > 1e-3


@pytest.mark.training
def test_skip_connection_adds_the_dropped_input(monkeypatch):
    """FORMATS.md, section 4: with all of the second layer's input dropped, nothing is added."""
    bilm = tiny_module().requires_grad_(True).train()
    vectors, rows = torch.randn(4, 5), torch.arange(4).repeat(2, 1)
    monkeypatch.setattr(module.F, "dropout", lambda x, rate, training: x * (1 - rate))
    state = bilm.zero_state(2)
    full, _ = bilm(vectors, rows, [2, 2], state, dropout=1.0)
    second = bilm.stacks[0][1](torch.zeros(4, 5), [2, 2], state.hidden[0, 1], state.cell[0, 1])[0]
    torch.testing.assert_close(full[0][1], second)


def test_initial_weights_are_those_of_tensorflow():
    """FORMATS.md, section 4. TensorFlow draws an LSTM's two weight matrices as one Glorot
    matrix."""
    torch.manual_seed(0)
    sizes = {"lstm_dim": 32, "projection_dim": 16, "filters": ((1, 64), (3, 192)), "n_highway": 1}
    bilm, softmax = BiLM(BiLMConfig(**sizes)), LanguageModelSoftmax(n_words=500, width=64)
    encoder, lstm = bilm.encoder, bilm.stacks[0][0]
    highway, glorot = encoder.highways[0], (6 / (2 * 16 + 4 * 32)) ** 0.5
    characters = encoder.embedding.weight.detach()
    assert characters[0].abs().max() == 0
    assert -1 <= characters.min() < -0.99 and 0.99 < characters.max() <= 1
    for bias in (lstm.bias, softmax.bias, *(each.bias for each in encoder.convolutions)):
        assert bias.abs().max() == 0  # the forget gate's 1 is not stored
    assert (highway.gate.bias == -2).all()
    uniform = {each.weight: 0.05 for each in encoder.convolutions}
    for weight, bound in {**uniform, lstm.input_weight: glorot, lstm.state_weight: glorot}.items():
        assert 0.9 * bound < weight.abs().max().item() <= bound
    for weight in (highway.gate.weight, highway.nonlinear.weight, encoder.projection.weight):
        assert weight.std().item() == pytest.approx(256**-0.5, rel=0.05)
    assert softmax.weight.std().item() == pytest.approx(1 / 8, rel=0.05)
