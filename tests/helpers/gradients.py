"""Gradients of a component's model, by finite differences."""

import numpy as np
import pytest
import torch

from spacy_elmo.tasks.shared.torch_module import ModuleShim


def parameters(model):
    """Name, values and gradient of each parameter, of Thinc's and of PyTorch's, as tensors
    that share their memory."""
    for node in model.walk():
        for name in node.param_names:
            values = torch.from_numpy(node.get_param(name))
            gradient = torch.from_numpy(node.get_grad(name)) if node.has_grad(name) else None
            yield f"{node.name}.{name}", values, gradient
        for shim in node.shims:
            if isinstance(shim, ModuleShim):
                for name, value in shim.module.named_parameters():
                    yield f"{node.name}.{name}", value.data, value.grad


def randomize(model, scale=0.4):
    """Draw all weights, so that no gradient is too small to be seen."""
    torch.manual_seed(0)
    for _, values, _ in parameters(model):
        values.copy_(scale * torch.randn(values.shape))


def check_gradients(model, loss, *, step=1e-3, rel=0.1, noise=0.01):
    """Check the gradients of a backward pass, each along one direction of its own. The
    tolerance is for what a step does to rectified units and maxima.

    model (Model): The model, after one backward pass of the loss.
    loss (Callable[[], float]): The loss as it is now.
    """
    torch.manual_seed(1)
    n_seen = n_checked = 0
    # Some losses add to the gradients.
    places = [(name, values, gradient.clone()) for name, values, gradient in parameters(model)]
    for name, values, gradient in places:
        kept, direction = values.clone(), torch.randn(values.shape)
        around = []
        for change in (step, -step):
            values.copy_(kept + change * direction)
            around.append(loss())
        values.copy_(kept)
        expected = (around[0] - around[1]) / (2 * step)
        found = float((gradient * direction).sum())
        assert found == pytest.approx(expected, rel=rel, abs=noise), name
        n_seen, n_checked = n_seen + 1, n_checked + (abs(expected) > 2 * noise)
    assert n_checked > n_seen / 2 > 3


def softmax(scores, axis=-1):
    """In float64."""
    exponents = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return exponents / exponents.sum(axis=axis, keepdims=True)
