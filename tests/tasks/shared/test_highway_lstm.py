"""The highway LSTM against the formula in numpy's float64, a token at a time."""

import numpy as np
import pytest
import torch

from spacy_elmo.tasks.shared.highway_lstm import build_highway_lstm, orthonormal_blocks

from helpers.formulas import check_differences

pytestmark = pytest.mark.training

LENGTHS = [3, 0, 5, 1]


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def reference(x, W, U, b):
    """One sequence through one layer in one direction (He et al. 2017, section 2.2)."""
    n = U.shape[1]
    h = c = np.zeros(n)
    outputs = np.zeros((len(x), n))
    for t, x_t in enumerate(x):
        z = W[: 5 * n] @ x_t + U @ h + b
        i, f, o, r = (sigmoid(z[k * n : (k + 1) * n]) for k in range(4))
        c = i * np.tanh(z[4 * n :]) + f * c
        h = r * o * np.tanh(c) + (1 - r) * (W[5 * n :] @ x_t)
        outputs[t] = h
    return outputs


def layer_reference(layer, x):
    params = [layer.get_param(name).astype("float64") for name in ("W", "U", "b")]
    found = []
    for direction, *weights in zip(layer.attrs["directions"], *params):
        steps = slice(None, None, -1 if direction else 1)
        found.append(reference(x[steps], *weights)[steps])
    return np.hstack(found)


def inputs(width=4, dtype="float32", seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(length, width)).astype(dtype) for length in LENGTHS]


@pytest.mark.parametrize("directions", ["alternating", "bidirectional"])
@pytest.mark.parametrize("depth", [1, 3])
def test_outputs_equal_the_formula(directions, depth):
    X = inputs()
    model = build_highway_lstm(6, depth, directions).initialize(X=X)
    assert (model.get_dim("nI"), model.get_dim("nO")) == (4, 6)
    layers = [node for node in model.walk() if node.name == "highway_lstm"]
    alternating = [[i % 2] for i in range(depth)]
    expected = [[0, 1]] * depth if directions == "bidirectional" else alternating
    assert [layer.attrs["directions"] for layer in layers] == expected
    for x, found in zip(X, model.predict(X)):
        for layer in layers:
            x = layer_reference(layer, x)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, x.reshape(found.shape), atol=1e-5)


@pytest.mark.parametrize("directions", [[0], [1], [0, 1]])
def test_gradients_equal_finite_differences(directions):
    """The gradients are of inputs and all weights, with a dropout mask in between."""
    rng = np.random.default_rng(1)
    X = inputs(dtype="float64")
    if directions == [0, 1]:
        model = build_highway_lstm(6, 1, "bidirectional", dropout=0.3)
    else:
        model = build_highway_lstm(6, 2, dropout=0.3).layers[directions[0]]
    assert model.initialize(X=X).attrs["directions"] == directions
    for name in ("W", "U", "b"):
        model.set_param(name, rng.normal(size=model.get_param(name).shape))
    wanted = [rng.normal(size=(length, 6)) for length in LENGTHS]

    def run():
        torch.manual_seed(0)
        return model(X, is_train=True)

    def loss():
        return sum((y * d).sum() for y, d in zip(run()[0], wanted))

    pairs = list(zip(X, run()[1](wanted)))
    pairs += [(model.get_param(name), model.get_grad(name)) for name in ("W", "U", "b")]
    check_differences(pairs, loss)


def test_a_sequence_has_one_dropout_mask():
    X = [np.ones((50, 4), dtype="float32") for _ in range(20)]
    model = build_highway_lstm(16, 1, dropout=0.5).initialize(X=X)
    outputs = model(X, is_train=True)[0]
    dropped = np.array([(output == 0.0).all(axis=0) for output in outputs])
    assert all(((output == 0.0) == gone).all() for output, gone in zip(outputs, dropped))
    assert 0.35 < dropped.mean() < 0.65
    assert not np.array_equal(dropped[0], dropped[1])
    assert not any((output == 0.0).any() for output in model.predict(X))


def test_initial_weights():
    X = inputs()
    model = build_highway_lstm(6, 1, "bidirectional").initialize(X=X)
    blocks = [*model.get_param("U").reshape(-1, 3, 3), *model.get_param("W").reshape(-1, 3, 4)]
    assert len(blocks) == 2 * (5 + 6)
    for block in blocks:
        np.testing.assert_allclose(block @ block.T, np.eye(3), atol=1e-5)
    tall = orthonormal_blocks(1, 5, 2)
    np.testing.assert_allclose(tall.T @ tall, np.eye(2), atol=1e-12)
    bias = model.get_param("b").reshape(2, 5, 3)
    assert (bias[:, 1] == 1.0).all()
    assert bias.sum() == 6.0
