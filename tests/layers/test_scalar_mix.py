"""Scalar mix of layers: outputs and gradients against the paper's equation 1, and its settings."""

import numpy as np
import pytest
import torch
from thinc.api import Adam, Linear, chain

from spacy_elmo.layers.scalar_mix import ScalarMix, mix_weights, mixes_of


def formula(X, raw, gamma, layer_norm):
    """Compute equation 1 of the paper in PyTorch."""
    weights, outputs = torch.softmax(raw, dim=0), []
    for layers in X:
        if layer_norm:
            layers = layers - layers.mean(2, keepdim=True)
            layers = layers / layers.square().mean(2, keepdim=True).sqrt()
        outputs.append(gamma * sum(w * layer for w, layer in zip(weights, layers)))
    return outputs


def make(layer_norm=False, **settings):
    rng = np.random.default_rng(0)
    mix = ScalarMix(3, layer_norm=layer_norm, **settings)
    mix.initialize()
    mix.set_param("weights", rng.normal(size=3).astype("f"))
    mix.set_param("gamma", np.array([1.7], "f"))
    X = [rng.normal(size=(3, n, 5)).astype("f") for n in (4, 0, 1)]
    dY = [rng.normal(size=(len(x[0]), 5)).astype("f") for x in X]
    return mix, X, dY


def test_one_layer_has_weight_1_and_a_constant_token_becomes_zeros():
    """The layer norm of a token with equal values would divide by zero."""
    mix, layers = ScalarMix(1, layer_norm=True), np.ones((1, 2, 5), "f")
    layers[0, 1] = [1, 2, 3, 4, 5]
    wanted = [np.zeros(5), (layers[0, 1] - 3) / np.sqrt(2)]
    Y, backprop = mix([layers], is_train=True)
    np.testing.assert_allclose(Y[0], wanted, atol=1e-6)
    assert np.isfinite([*backprop([np.ones((2, 5), "f")])]).all()


@pytest.mark.training
def test_gradients_are_a_sequence():
    """A layer before the mix may ask for their number, and read them twice."""
    mix, X, dY = make(layer_norm=True)
    gradients = mix(X, is_train=True)[1](dY)
    assert len(gradients) == len(X)
    for one, other in zip(gradients, gradients, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.training
@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize(("l2", "factor"), [(0.0, 1.0), (0.3, 1.0), (0.3, 4.0)])
def test_outputs_and_gradients_equal_the_formula(layer_norm, l2, factor):
    settings = {"l2": l2, "learn_rate_factor": factor}
    mix, X, dY = make(layer_norm, **settings)
    given = [*X, *(mix.get_param(name) for name in ("weights", "gamma"))]
    *layers, raw, gamma = leaves = [torch.tensor(x).double().requires_grad_() for x in given]
    expected = formula(layers, factor * raw, gamma, layer_norm)
    loss = sum((torch.tensor(d) * y).sum() for d, y in zip(dY, expected))
    loss = loss + l2 * ((factor * raw) ** 2).sum()
    wanted = torch.autograd.grad(loss, leaves)
    outputs, backprop = mix(X, is_train=True)
    found = [*outputs, *backprop(dY), mix.get_grad("weights"), mix.get_grad("gamma")]
    for ours, theirs in zip(found, [*expected, *wanted], strict=True):
        np.testing.assert_allclose(ours, theirs.detach(), rtol=1e-4, atol=1e-5)
    for again in (mix, ScalarMix(3, layer_norm=layer_norm, **settings).from_bytes(mix.to_bytes())):
        for ours, theirs in zip(again.predict(X), outputs):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.training
@pytest.mark.parametrize("n_parts", [1, 2, 4])
def test_the_penalty_counts_once_in_an_update(n_parts):
    """An update may add the gradients of several batches. The next update has the penalty again."""
    mix, X, _ = make(l2=0.3, learn_rate_factor=2.0)
    X, found = X[:1], []

    def note(key, weights, gradient, **_):
        found.append(gradient.copy())
        gradient *= 0
        return weights, gradient

    for _ in range(2):
        for _ in range(n_parts):
            Y, backprop = mix(X, is_train=True)
            backprop([np.zeros_like(y) for y in Y])
        mix.finish_update(note)
    penalty = 2 * 0.3 * 2.0**2 * mix.get_param("weights")
    gradients = [gradient for gradient in found if len(gradient) == 3]
    np.testing.assert_allclose(gradients, [penalty, penalty], rtol=1e-6)


def test_initial_weights_are_normalized():
    wanted = [0.7, 0.2, 0.1]
    np.testing.assert_allclose(mix_weights(ScalarMix(3, initial=wanted)), wanted, rtol=1e-5)
    np.testing.assert_allclose(mix_weights(ScalarMix(2, initial=[0.0, 1.0])), [0, 1], atol=1e-6)
    np.testing.assert_allclose(mix_weights(ScalarMix(4)), [0.25] * 4)
    np.testing.assert_allclose(mix_weights(ScalarMix(initial=[0.0, 1.0])), [0, 1], atol=1e-6)


@pytest.mark.training
def test_adam_moves_the_weights_by_the_factor():
    """Adam's first step has the length of the learning rate, whatever the gradient."""
    start = np.array([0.5, 0.3, 0.2], "f")
    for factor in (1.0, 10.0):
        mix = ScalarMix(initial=start.tolist(), learn_rate_factor=factor)
        np.testing.assert_allclose(mix_weights(mix), start, rtol=1e-5)
        _, X, dY = make()
        mix(X, is_train=True)[1](dY)
        mix.finish_update(Adam(0.001, eps=1e-12, L2=0.0))
        moved = np.log(mix_weights(mix)) - np.log(start)
        np.testing.assert_allclose(np.abs(moved - moved[0]).max(), 0.002 * factor, rtol=1e-2)


def test_number_of_layers_follows_the_input():
    mix = ScalarMix()
    assert mix.predict([]) == []
    X = [np.random.default_rng(0).normal(size=(5, 2, 3)).astype("f")]
    np.testing.assert_allclose(mix.predict(X)[0], X[0].mean(0), atol=1e-6)
    loaded = ScalarMix().from_bytes(mix.to_bytes())
    assert len(mix_weights(loaded)) == 5
    with pytest.raises(ValueError, match="n_layers = 5.* 2 layers.* Set n_layers .* to 2"):
        loaded.predict([np.zeros((2, 1, 3), dtype="f")])


@pytest.mark.training
@pytest.mark.parametrize("settings", [{"initial": [0.7, 0.2, 0.1]}, {"n_layers": 3}, {}])
def test_initialize_resets_the_weights(settings):
    mix, wanted = ScalarMix(**settings), settings.get("initial", [1 / 3] * 3)
    X = [np.zeros((3, 2, 5), "f")]
    for given in (X, X, None):
        mix.initialize(X=given)
        np.testing.assert_allclose(mix_weights(mix), wanted, rtol=1e-5)
        assert mix.get_param("gamma") == 1
        mix.set_param("weights", np.array([1, 2, 3], "f"))
        mix.set_param("gamma", np.array([1.7], "f"))
    mix.predict(X)
    assert mix.get_param("gamma") == np.float32(1.7)
    if not settings:
        mix.initialize(X=[np.zeros((2, 2, 5), "f")])
        np.testing.assert_allclose(mix_weights(mix), [0.5, 0.5])


def test_all_mixes_of_a_model_are_found():
    first, second = ScalarMix(2), ScalarMix(3)
    assert mixes_of(chain(first, Linear(2, 2), chain(second, Linear(2, 2)))) == [first, second]
    assert mixes_of(Linear(2, 2)) == mixes_of(None) == []


@pytest.mark.training
def test_a_mix_that_is_not_trainable_has_no_gradient():
    mix, X, dY = make(trainable=False)
    mix(X, is_train=True)[1](dY)
    assert not mix.has_grad("weights") and not mix.has_grad("gamma")


@pytest.mark.training
def test_dropout_acts_only_in_training_with_its_own_rate():
    mix, _, _ = make(dropout=0.5)
    X = [np.ones((3, 40, 50), dtype="f")]
    expected = mix.get_param("gamma")[0]
    np.testing.assert_allclose(mix.predict(X)[0], expected, rtol=1e-6)
    outputs, backprop = mix(X, is_train=True)
    kept = outputs[0] != 0
    assert 0.4 < kept.mean() < 0.6
    np.testing.assert_allclose(outputs[0][kept], 2 * expected, rtol=1e-5)
    (dX,) = backprop([np.ones((40, 50), dtype="f")])
    assert ((dX[1] != 0) == kept).all()
    assert "dropout_rate" not in mix.attrs  # spaCy would overwrite it


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"initial": [0.5, 0.6]}, "initial"),
        ({"initial": [0.5, 0.6, -0.1]}, "initial"),
        ({"dropout": 1.0}, "dropout"),
        ({"l2": -1.0}, "l2"),
        ({"learn_rate_factor": 0.0}, "learn_rate_factor"),
        ({"n_layers": 0}, "n_layers"),
    ],
)
def test_impossible_settings_are_named(settings, named):
    with pytest.raises(ValueError, match=named):
        ScalarMix(**settings)
