"""Fix for residual layers after a listener: initialization sets their width."""

from typing import Any

from thinc.api import Model
from thinc.layers.residual import init


def infer_residual_widths(model: Model) -> None:
    """Make residual layers without a width take the width of their input at initialization.

    Thinc would use the width of the component's output, which is wrong in `spacy.EntityLinker.v2`.

    model (Model): The component's model.
    """
    for node in model.walk():
        if node.name.startswith("residual(") and node.has_dim("nO") is None:
            node.init = init_as_wide_as_input


def init_as_wide_as_input(model: Model, X: Any = None, Y: Any = None) -> None:
    """Initialize a residual layer with the width of its input X instead of its target Y."""
    init(model, X=X, Y=X)
