import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from spacy_elmo.bilm.lstm import ProjectedLSTM
from spacy_elmo.frozen.config import BiLMConfig

from helpers import reference
from helpers.models import make_bilm, tiny_options


@pytest.mark.parametrize(("dim", "width"), [(7, 3), (5, 5)])
def test_without_clips_it_is_torchs_lstm(dim, width):
    torch.manual_seed(0)
    config = BiLMConfig(lstm_dim=dim, projection_dim=width, cell_clip=None, proj_clip=None)
    ours = ProjectedLSTM(config).double()
    ours.bias.data.normal_()
    theirs = nn.LSTM(width, dim, proj_size=width if width < dim else 0).double()
    i, j, f, o = range(4)
    with torch.no_grad():
        for got, wanted in (
            (theirs.weight_ih_l0, ours.input_weight),
            (theirs.weight_hh_l0, ours.state_weight),
            (theirs.bias_ih_l0, ours.bias),
        ):
            parts = wanted.chunk(4)
            got.copy_(torch.cat([parts[i], parts[f], parts[j], parts[o]]))
        theirs.bias_hh_l0.zero_()
        theirs.bias_hh_l0[dim : 2 * dim] = 1.0
        if width < dim:
            theirs.weight_hr_l0.copy_(ours.projection)
    lengths = [4, 4, 2, 1]
    padded = torch.randn(4, 4, width, dtype=torch.float64)
    packed = pack_padded_sequence(padded, lengths)
    hidden = torch.randn(4, width, dtype=torch.float64)
    cell = torch.randn(4, dim, dtype=torch.float64)
    expected, (last_hidden, last_cell) = theirs(packed, (hidden[None], cell[None]))
    got = ours(packed.data, packed.batch_sizes.tolist(), hidden, cell)
    for ours_, theirs_ in zip(got, (expected.data, last_hidden[0], last_cell[0])):
        torch.testing.assert_close(ours_, theirs_, rtol=0, atol=1e-12)


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


def test_forget_bias_is_not_stored():
    lstm = ProjectedLSTM(BiLMConfig(lstm_dim=4, projection_dim=2))
    assert lstm.bias.abs().max() == 0


def test_starting_values():
    """TensorFlow draws the input's and the state's weights as one Glorot matrix."""
    torch.manual_seed(0)
    lstm = ProjectedLSTM(BiLMConfig(lstm_dim=32, projection_dim=16))
    bound = (6 / (2 * 16 + 4 * 32)) ** 0.5
    for weight in (lstm.input_weight, lstm.state_weight):
        assert 0.95 * bound < weight.abs().max().item() <= bound
