"""Gradients of a component's model, by finite differences."""

import numpy as np
import torch

from spacy_elmo.tasks.shared.torch_module import ModuleShim

from helpers.formulas import check_differences


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
    # Some losses add to the gradients.
    found = [(values.numpy(), gradient.numpy().copy()) for _, values, gradient in parameters(model)]
    slopes = check_differences(found, loss, step, rel, noise)
    assert sum(abs(slope) > 2 * noise for slope in slopes) > len(slopes) / 2 > 3


def softmax(scores, axis=-1):
    """Compute the softmax in float64."""
    exponents = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return exponents / exponents.sum(axis=axis, keepdims=True)
