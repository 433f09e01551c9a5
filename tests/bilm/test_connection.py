from dataclasses import replace

import numpy as np
import pytest
import torch

from spacy_elmo.bilm.connection import HighwayConnection
from spacy_elmo.bilm.model import BiLM
from spacy_elmo.frozen.config import BiLMConfig
from spacy_elmo.weights.safetensors_file import from_bytes, to_bytes

from helpers import reference
from helpers.models import SENTENCES, check_layers, check_state, make_bilm, tiny_options


@pytest.mark.parametrize("n_layers", [1, 3])
def test_highways_in_float64(n_layers):
    options = tiny_options(n_layers=n_layers)
    data = reference.random_datasets(options, seed=3)
    plain = make_bilm(options, data).thaw()
    torch.manual_seed(0)
    bilm = BiLM(replace(plain.config, connections="highway"))
    bilm.load_state_dict({**bilm.state_dict(), **plain.state_dict()})
    gates = [[(h.gate.weight, h.gate.bias) for h in stack] for stack in bilm.highways]
    assert [len(stack) for stack in gates] == [n_layers - 1] * 2
    for _, bias in [one for stack in gates for one in stack]:
        torch.nn.init.uniform_(bias, -2.0, 2.0)
    gates = [[tuple(w.detach().double().numpy() for w in one) for one in s] for s in gates]
    expected, expected_state = reference.layers(options, data, SENTENCES, gates=gates)
    trained, _ = bilm.embed(SENTENCES)
    for model in (bilm.requires_grad_(False), bilm.freeze()):
        layers, state = model.embed(SENTENCES)
        check_layers(layers, expected)
        check_state(state, expected_state)
    check_layers([values.detach() for values in trained], expected)
    again = from_bytes(to_bytes(bilm.freeze()))
    assert again.config == bilm.config
    np.testing.assert_array_equal(again.embed(SENTENCES)[0][0], layers[0])


def test_gradients():
    torch.manual_seed(0)
    layer = HighwayConnection(width=3).double()
    inputs = [torch.randn(4, 3, dtype=torch.float64, requires_grad=True) for _ in range(2)]

    def run(*given):
        weights = dict(zip(dict(layer.named_parameters()), given[2:]))
        return torch.func.functional_call(layer, weights, given[:2])

    assert torch.autograd.gradcheck(run, (*inputs, *layer.parameters()))


def test_settings():
    residual, none, highway = (
        BiLMConfig(connections=kind) for kind in ("residual", "none", "highway")
    )
    assert residual == BiLMConfig(use_skip_connections=True) == BiLMConfig()
    assert BiLMConfig(connections="residual", use_skip_connections=False) == residual
    assert none == BiLMConfig(use_skip_connections=False)
    assert len({residual, none, highway}) == 3
    for config in (residual, none):  # as files were before the setting
        assert "connections" not in config.to_dict()
    for config in (residual, none, highway):
        assert BiLMConfig.from_dict(config.to_dict()) == config
    with pytest.raises(ValueError, match="connections.*'residual', 'highway' or 'none'"):
        BiLMConfig(connections="dense")


def test_the_carry_gate_carries():
    layer = HighwayConnection(width=2).requires_grad_(False)
    outputs, inputs = torch.tensor([[1.0, 2.0]]), torch.tensor([[-3.0, 5.0]])
    layer.gate.weight.zero_()
    for bias, expected in ((-50.0, inputs), (50.0, outputs), (0.0, (inputs + outputs) / 2)):
        layer.gate.bias.fill_(bias)
        np.testing.assert_allclose(layer(outputs, inputs), expected, atol=1e-6)
