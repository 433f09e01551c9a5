"""The tasks' models beside formulas: layers of one sequence in numpy, and finite differences."""

import numpy as np
import pytest
import torch


def run(layer, x):
    """The outputs of a BidirectionalRNN, by PyTorch."""
    if not len(x):
        return np.zeros((0, 2 * layer.rnn.hidden_size))
    with torch.no_grad():
        return layer.rnn(torch.as_tensor(x)[None])[0][0].numpy()


def linear(layer, x):
    weights = {name: value.numpy() for name, value in layer.state_dict().items()}
    return x @ weights["weight"].T + weights.get("bias", 0.0)


def check_differences(pairs, loss):
    """Check gradients in float64, each along a direction.

    pairs (Iterable[Tuple[numpy.ndarray, numpy.ndarray]]): Values that `loss` reads, and gradients.
    loss (Callable[[], float]): The loss as it is now.
    """
    rng = np.random.default_rng(1)
    for values, gradient in pairs:
        assert values.shape == gradient.shape
        direction = rng.normal(size=values.shape)
        before, around = values.copy(), []
        for step in (1e-6, -1e-6):
            values[...] = before + step * direction
            around.append(loss())
        values[...] = before
        expected = (around[0] - around[1]) / 2e-6
        assert (gradient * direction).sum() == pytest.approx(expected, rel=1e-4, abs=1e-6)
