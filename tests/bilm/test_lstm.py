import numpy as np
import pytest
import torch

from spacy_elmo.bilm.lstm import ProjectedLSTM
from spacy_elmo.frozen.config import BiLMConfig

from helpers import reference
from helpers.models import make_bilm, tiny_options


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
