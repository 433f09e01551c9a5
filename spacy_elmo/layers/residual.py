"""Width of residual layers behind a listener whose width is known at initialization only."""

from typing import Any

from thinc.api import Model
from thinc.layers.residual import init


def infer_residual_widths(model: Model) -> None:
    """Make the residual layers of a component as wide as their input, where they were built
    without a width. Thinc would take the width of the component's output, as in
    `spacy.EntityLinker.v2`, which reads the width of its tok2vec when it is built.

    model (Model): The component's model.
    """
    for node in model.walk():
        if node.name.startswith("residual(") and node.has_dim("nO") is None:
            node.init = init_as_wide_as_input


def init_as_wide_as_input(model: Model, X: Any = None, Y: Any = None) -> None:
    """Initialize a residual layer: it adds its output to its input."""
    init(model, X=X, Y=X)
