"""LSTM with projection over a packed batch: values and gradients equal those of a plain loop."""

from functools import partial
from itertools import product

import pytest
import torch

from spacy_elmo.bilm import lstm_products
from spacy_elmo.bilm.lstm import ProjectedLSTM, fused_lstm
from spacy_elmo.bilm.sequence import ProjectedLSTMSequence, SequenceOptions
from spacy_elmo.model.config import BiLMConfig

from helpers.plain_lstm import plain_loop

FALLING = [4, 4, 2, 1, 1]
SIZES = [(6, 3), (4, 4)]  # with and without projection
CLIPS = [(None, None), (0.25, 0.2), (0.25, None), (None, 0.2), (50.0, 50.0)]


def make(dim, width, clips):
    torch.manual_seed(0)
    config = BiLMConfig(lstm_dim=dim, projection_dim=width, cell_clip=clips[0], proj_clip=clips[1])
    lstm = ProjectedLSTM(config).double()
    for weight in lstm.parameters():
        weight.data.normal_(std=0.7)
    return lstm


def starts(lstm, batch_sizes):
    """Return inputs, hidden and cell state. The state is within the clips, as in use."""
    torch.manual_seed(1)
    dim, width = len(lstm.bias) // 4, lstm.input_weight.shape[1]
    shapes = [(sum(batch_sizes), width), (batch_sizes[0], width), (batch_sizes[0], dim)]
    tensors = [torch.randn(shape, dtype=torch.float64) for shape in shapes]
    for tensor, clip in zip(tensors[1:], (lstm.proj_clip, lstm.cell_clip)):
        tensor.clamp_(-(clip or 1e9), clip or 1e9)
    return [tensor.requires_grad_() for tensor in tensors]


def weighted(results):
    """Return a scalar that depends on all numbers of the results, each with its own factor."""
    torch.manual_seed(2)
    return sum((result * torch.randn_like(result)).sum() for result in results)


def results_and_gradients(lstm, run, batch_sizes, kept=(0, 1, 2)):
    tensors = starts(lstm, batch_sizes)
    results = run(tensors[0], batch_sizes, *tensors[1:])
    asked = [*tensors, *lstm.parameters()]
    found = torch.autograd.grad(weighted([results[i] for i in kept]), asked, allow_unused=True)
    return [*(result.detach() for result in results), *found]


def assert_same(found, expected):
    for ours, theirs in zip(found, expected):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(
    ("clips", "batch_sizes", "kept"),
    [
        *product(CLIPS, [FALLING, [3, 3, 3], [1], [2, 1]], [(0, 1, 2)]),
        # The state of rows that end early flows back into the middle of the sequence.
        *product([(0.25, 0.2)], [FALLING], [(0,), (1,), (2,), (1, 2)]),
    ],
    ids=str,
)
@pytest.mark.parametrize(("dim", "width"), SIZES)
def test_values_and_gradients_are_those_of_the_loop(
    monkeypatch, dim, width, clips, batch_sizes, kept
):
    lstm = make(dim, width, clips)
    expected = results_and_gradients(lstm, partial(plain_loop, lstm), batch_sizes, kept)
    found = results_and_gradients(lstm, lstm, batch_sizes, kept)
    assert_same(found, expected)
    if clips == (0.25, 0.2) and batch_sizes == FALLING:  # they bite, though not everywhere
        outputs, _, cell, *gradients = found
        assert 0 < (cell.abs() == 0.25).sum() < cell.numel()
        assert ((outputs.abs() == 0.2).any()) == (width < dim)
        assert all(gradient.any() for gradient in gradients)
        monkeypatch.setattr(lstm_products, "CHUNK_GATES", 5 * 4 * dim)  # five items at a time
        assert_same(results_and_gradients(lstm, lstm, batch_sizes, kept), expected)


@pytest.mark.training
def test_only_the_requested_gradients_are_computed():
    """Weights, inputs or the state may need no gradient."""
    lstm = make(6, 3, (0.25, 0.2))
    everything = results_and_gradients(lstm, lstm, FALLING)[3:]
    tensors = starts(lstm, FALLING)
    for chosen in ([0], [1], [2], [3], [5], [6], [0, 4]):
        asked = [*tensors, *lstm.parameters()]
        for i, tensor in enumerate(asked):
            tensor.requires_grad_(i in chosen)
        weights = (lstm.input_weight, lstm.state_weight, lstm.full_bias(), lstm.projection)
        options = SequenceOptions(FALLING, lstm.cell_clip, lstm.proj_clip)
        weighted(ProjectedLSTMSequence.apply(*tensors, *weights, options)).backward()
        for i, tensor in enumerate(asked):
            assert (tensor.grad is not None) == (i in chosen)
            if i in chosen:
                torch.testing.assert_close(tensor.grad, everything[i], rtol=0, atol=0)
            tensor.grad = None


def test_neither_inputs_nor_incoming_gradients_are_changed():
    lstm = make(6, 3, (0.25, 0.2))
    tensors = starts(lstm, FALLING)
    before = [tensor.detach().clone() for tensor in tensors]
    results = lstm(tensors[0], FALLING, *tensors[1:])
    incoming = [torch.randn_like(result) for result in results]
    copies = [gradient.clone() for gradient in incoming]
    first = torch.autograd.grad(results, tensors, incoming, retain_graph=True)
    again = torch.autograd.grad(results, tensors, incoming)
    for a, b in zip([*tensors, *incoming, *first], [*before, *copies, *again]):
        assert torch.equal(a, b)


@pytest.mark.parametrize("batch_sizes", [FALLING, [3, 3, 3]])
@pytest.mark.parametrize(("dim", "width"), SIZES)
def test_fused_lstm_is_the_loop_without_clips(dim, width, batch_sizes):
    lstm = make(dim, width, (None, None))
    expected = results_and_gradients(lstm, partial(plain_loop, lstm), batch_sizes)
    assert_same(results_and_gradients(lstm, partial(fused_lstm, lstm), batch_sizes), expected)
