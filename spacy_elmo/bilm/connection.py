"""What joins a higher LSTM layer's input to its output."""

from typing import Optional

import torch
from torch import Tensor, nn

from .linear import linear


class HighwayConnection(nn.Module):
    """Transform gate r and carry gate 1 - r (Srivastava et al. 2015) between the input x of
    an LSTM layer and its output h:

        r = sigmoid(W_r x + b_r),    y = r * h + (1 - r) * x

    As the residual connection, it is no part of the recurrence; the gate of He et al. 2017,
    which is, reads the state before the step, too.

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
        """
        outputs (Tensor): Of the layer. *Shape:* `(n, P)`
        inputs (Tensor): Of the layer. *Shape:* `(n, P)`
        product_dtype (Optional[torch.dtype]): Type of the matrix product, if not the
            weights' own.
        RETURNS (Tensor): *Shape:* `(n, P)`
        """
        gate = torch.sigmoid(linear(inputs, self.gate, product_dtype))
        return torch.lerp(inputs, outputs, gate)
