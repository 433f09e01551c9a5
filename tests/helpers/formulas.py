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


def check_differences(pairs, loss, step=1e-6, rel=1e-4, noise=1e-6):
    """Check gradients, each along a direction, with the tolerances of float64.

    pairs (Iterable[Tuple[numpy.ndarray, numpy.ndarray]]): Values that `loss` reads, and gradients.
    loss (Callable[[], float]): The loss as it is now.
    RETURNS (List[float]): The derivative along each direction.
    """
    torch.manual_seed(1)
    slopes = []
    for values, gradient in pairs:
        assert values.shape == gradient.shape
        direction = torch.randn(values.shape).numpy()
        before, around = values.copy(), []
        for change in (step, -step):
            values[...] = before + change * direction
            around.append(loss())
        values[...] = before
        slopes.append((around[0] - around[1]) / (2 * step))
        assert (gradient * direction).sum() == pytest.approx(slopes[-1], rel=rel, abs=noise)
    return slopes
