"""Width of residual layers after a listener that gets its width at initialization."""

from typing import Any

from thinc.api import Model
from thinc.layers.residual import init


def infer_residual_widths(model: Model) -> None:
    """Let residual layers that have no width yet take the width of their input.

    Thinc would take the width of the component's output. This matters for `spacy.EntityLinker.v2`,
    which reads the width of its tok2vec when it is built.

    model (Model): The component's model.
    """
    for node in model.walk():
        if node.name.startswith("residual(") and node.has_dim("nO") is None:
            node.init = init_as_wide_as_input


def init_as_wide_as_input(model: Model, X: Any = None, Y: Any = None) -> None:
    """Initialize a residual layer without a target, so that it is as wide as its input."""
    init(model, X=X, Y=X)
