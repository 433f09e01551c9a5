from dataclasses import replace

import numpy as np
import pytest
import torch

from spacy_elmo.bilm.lstm import HighwayConnection, ProjectedLSTM
from spacy_elmo.bilm.model import BiLM
from spacy_elmo.frozen.config import BiLMConfig
from spacy_elmo.weights.safetensors_file import from_bytes, to_bytes

from helpers import reference
from helpers.models import SENTENCES, check_layers, check_state, make_bilm, tiny_options


@pytest.mark.parametrize(("dim", "width"), [(12, 5), (8, 8)])
def test_clips_act_at_every_step(dim, width):
    options = tiny_options(dim=dim, projection_dim=width, cell_clip=0.8, proj_clip=0.6)
    data = reference.random_datasets(options, 1)
    lstm = make_bilm(options, data).thaw().stacks[0][1].double()
    rng = np.random.default_rng(2)
    inputs = rng.standard_normal((9, width))
    start = (rng.standard_normal(dim), rng.standard_normal(width))
    name = reference._cell_name(0, 1)
    outputs, (cell, hidden) = reference._run_layer(options, data, name, list(inputs), start)
    tensors = [torch.from_numpy(array)[None] for array in (start[1], start[0])]
    with torch.no_grad():
        got = lstm(torch.from_numpy(inputs), [1] * 9, *tensors)
    for ours, theirs in zip(got, (outputs, [hidden], [cell])):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)
    assert (np.abs(cell) == 0.8).any()
    assert (np.abs(outputs) == 0.6).any() == (width < dim)  # no projection: no output clip


def test_starting_values():
    """TensorFlow draws the input's and the state's weights as one Glorot matrix."""
    torch.manual_seed(0)
    lstm = ProjectedLSTM(BiLMConfig(lstm_dim=32, projection_dim=16))
    bound = (6 / (2 * 16 + 4 * 32)) ** 0.5
    assert lstm.bias.abs().max() == 0  # the forget gate's 1 is not stored
    for weight in (lstm.input_weight, lstm.state_weight):
        assert 0.95 * bound < weight.abs().max().item() <= bound


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


def test_gradients_of_highways():
    torch.manual_seed(0)
    layer = HighwayConnection(width=3).double()
    inputs = [torch.randn(4, 3, dtype=torch.float64, requires_grad=True) for _ in range(2)]

    def run(*given):
        weights = dict(zip(dict(layer.named_parameters()), given[2:]))
        return torch.func.functional_call(layer, weights, given[:2])

    assert torch.autograd.gradcheck(run, (*inputs, *layer.parameters()))


def test_settings_of_connections():
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
