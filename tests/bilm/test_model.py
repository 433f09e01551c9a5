import numpy as np
import pytest
import torch

from spacy_elmo.bilm import model as module
from spacy_elmo.bilm.lstm import BiLMState

from helpers import reference
from helpers.models import (
    MODELS,
    SENTENCES,
    check_layers,
    check_state,
    make_bilm,
    tiny_module,
    tiny_options,
)


@pytest.mark.parametrize("name", MODELS)
def test_all_layers_over_calls(name):
    options = tiny_options(**MODELS[name])
    data = reference.random_datasets(options, seed=len(name))
    bilm = make_bilm(options, data).thaw().requires_grad_(False)
    state = expected_state = None
    for sentences in (SENTENCES, SENTENCES[::-1]):
        expected, expected_state = reference.layers(options, data, sentences, expected_state)
        layers, state = bilm.embed(sentences, state)
        check_layers(layers, expected)
        check_state(state, expected_state)
    expected, _ = reference.layers(options, data, SENTENCES)
    layers, _ = bilm.requires_grad_(True).embed(SENTENCES)  # in one window
    check_layers([values.detach() for values in layers], expected)


@pytest.mark.parametrize("name", ["cell_clip", "proj_clip", "use_skip_connections"])
def test_the_setting_matters(name):
    """So that the comparison above is one of this setting too."""
    options = tiny_options(cell_clip=0.7, proj_clip=0.5)
    data = reference.random_datasets(options)
    before, _ = make_bilm(options, data).embed(SENTENCES[:1])
    options["lstm"][name] = None if "clip" in name else False
    after, _ = make_bilm(options, data).embed(SENTENCES[:1])
    assert np.abs(before[0] - after[0]).max() > 0.01


def test_warm_is_the_state_after_one_empty_sentence():
    options = tiny_options()
    data = reference.random_datasets(options)
    bilm = make_bilm(options, data)
    trainable = bilm.thaw()
    _, warm = reference.layers(options, data, [[]])
    expected, after = reference.layers(options, data, SENTENCES, warm * len(SENTENCES))
    for _ in range(2):  # the second time from memory
        layers, state = bilm.embed(SENTENCES, "warm")
        check_layers(layers, expected)
        check_state(state, after)
    check_state(bilm.warm_state(), warm)
    check_state(trainable.warm_state().detach(), warm)
    layers, state = trainable.requires_grad_(False).embed(SENTENCES, "warm")
    check_layers(layers, expected)
    check_state(state, after)


def test_state_rows():
    bilm = tiny_module()
    _, state = bilm.embed(SENTENCES, "warm")
    layers, _ = bilm.embed([["a"], ["a"], ["a"]], state.rows([3, 0, 3]))
    torch.testing.assert_close(layers[0], layers[2], rtol=0, atol=1e-6)
    one, other = (bilm.embed([["a"]], state.rows(np.array([row])))[0][0] for row in (3, 0))
    torch.testing.assert_close(torch.stack(layers[:2]), torch.stack([one, other]))
    assert (one - other).abs().max() > 1e-3
    joined = BiLMState.concatenate([state.rows([1, 2]), state.rows([0])])
    assert len(joined) == 3
    assert torch.equal(joined.cell, state.cell[:, :, [1, 2, 0]])
    assert torch.equal(joined.hidden, state.hidden[:, :, [1, 2, 0]])


def test_wrong_states():
    bilm = tiny_module()
    with pytest.raises(ValueError, match=r"hidden .*\(2, 2, 3, 5\).* 2 sentences .*\(2, 2, 2, 5\)"):
        bilm.embed([["a"], ["b"]], bilm.zero_state(3))
    good = bilm.zero_state(1)
    with pytest.raises(ValueError, match=r"cell .*\(2, 2, 1, 5\).*\(2, 2, 1, 12\)"):
        bilm.embed([["a"]], BiLMState(good.hidden, good.hidden))
    with pytest.raises(ValueError, match="hidden"):
        bilm.embed([["a"]], tiny_module(n_layers=1).zero_state(1))
    with pytest.raises(ValueError, match="'cold'"):
        bilm.embed([["a"]], "cold")


def test_no_sentences_and_only_empty_ones():
    bilm = tiny_module()
    layers, state = bilm.embed([])
    assert layers == []
    assert len(state) == 0
    layers, state = bilm.embed([[], []], "warm")
    assert [tuple(layer.shape) for layer in layers] == [(3, 0, 10)] * 2
    torch.testing.assert_close(state.hidden[:, :, 0], state.hidden[:, :, 1])
    assert tuple(bilm.token_vectors([]).shape) == (0, 5)


@pytest.mark.parametrize("size", [1, 3, 7])
def test_windows_change_nothing(monkeypatch, size):
    options = tiny_options()
    data = reference.random_datasets(options)
    _, start = reference.layers(options, data, SENTENCES)
    expected, after = reference.layers(options, data, SENTENCES, start)
    monkeypatch.setattr(module, "WINDOW_ITEMS", size)
    monkeypatch.setattr(module, "ENCODER_TOKENS", size)
    calls = []
    original = module.windows

    def counted(*args):
        for window in original(*args):
            calls.append(1)
            yield window

    monkeypatch.setattr(module, "windows", counted)
    bilm = make_bilm(options, data).thaw().requires_grad_(False)
    _, state = bilm.embed(SENTENCES)
    layers, state = bilm.embed(SENTENCES, state)
    check_layers(layers, expected)
    check_state(state, after)
    assert len(calls) > 4  # one for each direction and call is without windows


def test_gradients(monkeypatch):
    """Against finite differences, in float64, for weights of every kind and for the state."""
    monkeypatch.setattr(module, "WINDOW_ITEMS", 3)  # finite differences run through windows
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


def test_dropout_only_in_training():
    bilm = tiny_module().requires_grad_(True)
    vectors, rows = torch.randn(4, 5), torch.arange(4).repeat(2, 1)
    outputs = [
        bilm.train(training)(vectors, rows, [2, 2], bilm.zero_state(2), dropout=dropout)[0][0][1]
        for training, dropout in ((False, 0.0), (False, 0.5), (True, 0.0), (True, 0.5))
    ]
    assert torch.equal(outputs[0], outputs[1])
    torch.testing.assert_close(outputs[0], outputs[2])
    assert (outputs[0] - outputs[3]).abs().max() > 1e-3


def test_skip_connection_adds_the_dropped_input(monkeypatch):
    """FORMATS.md, section 4: with all of the second layer's input dropped, nothing is added."""
    bilm = tiny_module().requires_grad_(True).train()
    vectors, rows = torch.randn(4, 5), torch.arange(4).repeat(2, 1)
    monkeypatch.setattr(module.F, "dropout", lambda x, rate, training: x * (1 - rate))
    state = bilm.zero_state(2)
    full, _ = bilm(vectors, rows, [2, 2], state, dropout=1.0)
    second = bilm.stacks[0][1](torch.zeros(4, 5), [2, 2], state.hidden[0, 1], state.cell[0, 1])[0]
    torch.testing.assert_close(full[0][1], second)
