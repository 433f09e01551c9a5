"""Order of the gates in stored LSTM weights."""

from typing import Any

# Added to the bias of the forget gate when a model runs. Stored weights do not include it.
FORGET_BIAS = 1.0


def swapped_gates(weight: Any) -> Any:
    """Swap the gates j and f: from the order i, j, f, o to PyTorch's i, f, j, o, or back.

    ELMoForManyLangs also stores PyTorch's order.

    weight (Union[numpy.ndarray, Tensor]): *Shape:* `(4D, ...)`
    RETURNS (Union[numpy.ndarray, Tensor]): *Shape:* `(4D, ...)`
    """
    gates = weight.reshape(4, -1, *weight.shape[1:])
    return gates[[0, 2, 1, 3]].reshape(weight.shape)
