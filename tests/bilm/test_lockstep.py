"""All ways of the engine against the LSTM's formula in float64, step by step."""

import copy

import pytest
import torch

from spacy_elmo.bilm import engine
from spacy_elmo.bilm.lockstep import MAX_STATE_WEIGHTS, LockstepLSTMs
from spacy_elmo.bilm.lstm import ProjectedLSTM
from spacy_elmo.bilm.model import BiLM
from spacy_elmo.frozen.config import BiLMConfig

from helpers.plain_lstm import plain_loop

BATCH_SIZES = [11, 9, 9, 4, 4, 2, 1, 1, 1]
VARIANTS = [
    {},
    {"bidirectional": False},
    {"projection_dim": 24},  # no projection
    {"use_skip_connections": False},
    {"cell_clip": None, "proj_clip": None},
    {"n_layers": 3, "cell_clip": 0.3, "proj_clip": 0.2},
]


def make(changes):
    torch.manual_seed(0)
    sizes = {"lstm_dim": 24, "projection_dim": 10, "filters": ((1, 4), (2, 4)), "n_highway": 1}
    bilm = BiLM(BiLMConfig(**{**sizes, **changes})).requires_grad_(False).eval()
    for stack in bilm.stacks:
        for weight in stack.parameters():
            weight.normal_(std=0.5)
    return bilm


def plain(bilm, vectors, rows, state):
    """Outputs by direction and layer; the state after."""
    outputs, hidden, cell = [], state.hidden.clone(), state.cell.clone()
    for d, stack in enumerate(bilm.stacks):
        layers = []
        for i, lstm in enumerate(stack):
            inputs = layers[-1] if i else vectors[rows[d]]
            start = hidden[d, i], cell[d, i]
            output, hidden[d, i], cell[d, i] = plain_loop(lstm, inputs, BATCH_SIZES, *start)
            layers.append(output + inputs if i and bilm.config.use_skip_connections else output)
        outputs.append(layers)
    return outputs, hidden, cell


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
@pytest.mark.parametrize("few", [0, 1, 4, 11])
def test_the_formula_from_a_carried_state(monkeypatch, few, changes):
    monkeypatch.setattr(engine, "FEW_ROWS", few)
    bilm = make(changes)
    vectors = torch.randn(7, bilm.config.projection_dim)
    rows = torch.randint(7, (2, sum(BATCH_SIZES)))
    state = bilm.zero_state(BATCH_SIZES[0])
    for values, clip in ((state.hidden, 0.2), (state.cell, 0.3)):
        values.uniform_(-clip, clip)
    before = state.hidden.clone(), state.cell.clone()
    exact = copy.deepcopy(bilm).double()
    start = type(state)(state.hidden.double(), state.cell.double())
    expected, hidden, cell = plain(exact, vectors.double(), rows, start)
    outputs, after = bilm._run(vectors, rows, BATCH_SIZES, state)
    wanted = torch.stack([torch.stack(layers) for layers in expected]).transpose(0, 1)
    torch.testing.assert_close(torch.stack(outputs).double(), wanted, **BOUND)
    torch.testing.assert_close(after.hidden.double(), hidden, **BOUND)
    torch.testing.assert_close(after.cell.double(), cell, **BOUND)
    assert torch.equal(state.hidden, before[0]) and torch.equal(state.cell, before[1])


BOUND = {"rtol": 0, "atol": 2e-5}


def test_large_weights_are_not_copied():
    config = BiLMConfig(lstm_dim=64, projection_dim=16)
    small, large = ProjectedLSTM(config), ProjectedLSTM(config)
    assert LockstepLSTMs.fits(small)
    large.state_weight = torch.nn.Parameter(torch.empty(MAX_STATE_WEIGHTS // 16 + 1, 16))
    assert not LockstepLSTMs.fits(large)
