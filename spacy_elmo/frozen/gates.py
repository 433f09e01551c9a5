"""The gates of an LSTM, as they are stored."""

from typing import Any

# It is added when a model runs, and never stored.
FORGET_BIAS = 1.0


def swapped_gates(weight: Any) -> Any:
    """Reorder gates from i, j, f, o to the order of PyTorch and ELMoForManyLangs, i, f, j, o; or
    back.

    weight (Union[numpy.ndarray, Tensor]): *Shape:* `(4D, ...)`
    RETURNS (Union[numpy.ndarray, Tensor]): *Shape:* `(4D, ...)`
    """
    gates = weight.reshape(4, -1, *weight.shape[1:])
    return gates[[0, 2, 1, 3]].reshape(weight.shape)
