"""Highway connection between the input and the output of a higher LSTM layer."""

from typing import Optional

import torch
from torch import Tensor, nn

from .linear import linear


class HighwayConnection(nn.Module):
    """Highway connection (Srivastava et al. 2015) from an LSTM layer's input x to its output h.

    It has a transform gate r and a carry gate 1 - r:

        r = sigmoid(W_r x + b_r),    y = r * h + (1 - r) * x

    Like a residual connection, it works outside of the LSTM's recurrence. The highway of He et al.
    2017 is different: it is inside the recurrence, and its gate also reads the previous state.

    width (int): Size of input and output, P.
    """

    def __init__(self, *, width: int):
        super().__init__()
        self.gate = nn.Linear(width, width)
        nn.init.xavier_uniform_(self.gate.weight)
        nn.init.zeros_(self.gate.bias)

    def forward(
        self, outputs: Tensor, inputs: Tensor, product_dtype: Optional[torch.dtype] = None
    ) -> Tensor:
        """Mix the outputs and inputs of a layer with the gate.

        outputs (Tensor): Outputs of the LSTM layer, h. *Shape:* `(n, P)`
        inputs (Tensor): Inputs of the LSTM layer, x. *Shape:* `(n, P)`
        product_dtype (Optional[torch.dtype]): Type of the matrix product. Default: the type of the
            weights.
        RETURNS (Tensor): *Shape:* `(n, P)`
        """
        gate = torch.sigmoid(linear(inputs, self.gate, product_dtype))
        return torch.lerp(inputs, outputs, gate)
