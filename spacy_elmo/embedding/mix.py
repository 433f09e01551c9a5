"""Fixed mixes of the layers of a Doc, for `doc.tensor` and for output files."""

from typing import Any, Union

import numpy as np
from thinc.types import Floats2d, Floats3d

Mix = Union[str, int, list[float]]


def mix_layers(layers: Floats3d, mix: Mix) -> Floats2d:
    """Mix the layers of a Doc with fixed weights.

    layers (Floats3d): *Shape:* `(L + 1, n_tokens, 2P)`
    mix (Union[str, int, List[float]]): "average", "top", the index of a layer, or a list with a
        weight for each layer.
    RETURNS (Floats2d): *Shape:* `(n_tokens, 2P)`
    RAISES (ValueError): The layer does not exist, or the number of weights is wrong.
    """
    n_layers = len(layers)
    if mix == "average":
        weights = np.full(n_layers, 1.0 / n_layers)
    elif isinstance(mix, (int, str)):
        number = n_layers - 1 if mix == "top" else int(mix)
        if not 0 <= number < n_layers:
            raise ValueError(f"mix = {mix}: the model's layers are 0 to {n_layers - 1}")
        weights = np.eye(n_layers)[number]
    else:
        weights = np.asarray(mix)
    if weights.shape != (n_layers,):
        raise ValueError(f"mix = {mix}: the model has {n_layers} layers, which need a weight each")
    return np.tensordot(weights.astype("float32"), layers, axes=1)


def check_mix(mix: Any) -> Mix:
    """Check that a value is a mix. `mix_layers` checks whether its layers exist.

    mix (Union[str, int, Sequence[float]]): "average", "top", the index of a layer, or weights.
    RETURNS (Union[str, int, List[float]]): The mix in a form that a config can contain.
    RAISES (ValueError): The value is not a mix.
    """
    if mix in ("average", "top") if isinstance(mix, str) else type(mix) is int:
        return mix
    try:
        weights = np.asarray(mix, dtype="float64")
    except (TypeError, ValueError):
        weights = np.empty(0)
    if isinstance(mix, str) or weights.ndim != 1 or not weights.size or np.isnan(weights).any():
        raise ValueError(
            f"mix must be 'average', 'top', the number of a layer or a list of weights, got {mix!r}"
        )
    return weights.tolist()
