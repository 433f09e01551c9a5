"""Gates of an LSTM, as they are stored."""

from typing import Any

# Addend of the forget gate's bias when a model runs. It is never stored.
FORGET_BIAS = 1.0


def swapped_gates(weight: Any) -> Any:
    """Swap the gates j and f: from i, j, f, o to the order i, f, j, o of PyTorch, or back.

    ELMoForManyLangs stores PyTorch's order, too.

    weight (Union[numpy.ndarray, Tensor]): *Shape:* `(4D, ...)`
    RETURNS (Union[numpy.ndarray, Tensor]): *Shape:* `(4D, ...)`
    """
    gates = weight.reshape(4, -1, *weight.shape[1:])
    return gates[[0, 2, 1, 3]].reshape(weight.shape)
