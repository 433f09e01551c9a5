"""Clipped LSTM with projection."""

from typing import Optional

import torch
from torch import Tensor, nn

from ..frozen.config import BiLMConfig
from ..frozen.gates import FORGET_BIAS, swapped_gates
from .sequence import ProjectedLSTMSequence, SequenceOptions


class ProjectedLSTM(nn.Module):
    """LSTM layer in one direction, with clipped cell state and projected, clipped output.

    It computes the same as bilm-tf's LSTMCell (Sak et al. 2014). The order of the gates is i, j,
    f, o, where j is the candidate:

        c = clip(sigmoid(f + 1) * c + sigmoid(i) * tanh(j))
        h = clip((sigmoid(o) * tanh(c)) W_P)

    Without a projection the output is not clipped.

    config (BiLMConfig): The sizes.
    layer (int): Index of the layer, from 0.
    """

    def __init__(self, config: BiLMConfig, layer: int = 0):
        super().__init__()
        lstm_dim, width = config.lstm_dim, config.projection_dim
        input_dim = config.width if layer and config.joined_directions else width
        self.cell_clip = config.cell_clip
        self.proj_clip = config.proj_clip
        self.has_clips = config.has_clips
        self.input_weight = nn.Parameter(torch.empty(4 * lstm_dim, input_dim))
        self.state_weight = nn.Parameter(torch.empty(4 * lstm_dim, width))
        self.bias = nn.Parameter(torch.zeros(4 * lstm_dim))
        self.projection: Optional[nn.Parameter] = None
        if width < lstm_dim or config.square_projection:
            self.projection = nn.Parameter(torch.empty(width, lstm_dim))
            nn.init.xavier_uniform_(self.projection)
        # TensorFlow initializes input and state weight as one matrix.
        both = torch.empty(4 * lstm_dim, input_dim + width)
        nn.init.xavier_uniform_(both)
        with torch.no_grad():
            self.input_weight.copy_(both[:, :input_dim])
            self.state_weight.copy_(both[:, input_dim:])

    def forward(
        self,
        inputs: Tensor,
        batch_sizes: list[int],
        hidden: Tensor,
        cell: Tensor,
        product_dtype: Optional[torch.dtype] = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Run the LSTM over packed sequences (see `frozen.packing`).

        A row is a sequence. Each step runs the sequences that have not ended: the first
        `batch_sizes[step]` rows. The other rows keep their state.

        inputs (Tensor): *Shape:* `(sum(batch_sizes), input_dim)`
        batch_sizes (List[int]): Number of running rows at each step, in non-increasing order.
        hidden (Tensor): Initial hidden state. *Shape:* `(batch_sizes[0] or more, P)`
        cell (Tensor): Initial cell state. *Shape:* `(batch_sizes[0] or more, D)`
        product_dtype (Optional[torch.dtype]): Type of the matrix products. Default: the type of the
            weights.
        RETURNS (Tuple[Tensor, Tensor, Tensor]): The outputs, packed like the inputs, and the hidden
            and cell state of each row after its last step.
        """
        n_rows = batch_sizes[0]
        started = hidden[:n_rows], cell[:n_rows]
        if not self.has_clips and inputs.is_cuda:
            outputs, *ended = fused_lstm(self, inputs, batch_sizes, *started, product_dtype)
        else:
            options = SequenceOptions(batch_sizes, self.cell_clip, self.proj_clip, product_dtype)
            weights = (self.input_weight, self.state_weight, self.full_bias(), self.projection)
            outputs, *ended = ProjectedLSTMSequence.apply(inputs, *started, *weights, options)
        rest = hidden[n_rows:], cell[n_rows:]
        hidden, cell = (torch.cat(pair) for pair in zip(ended, rest))
        return outputs, hidden, cell

    def full_bias(self) -> Tensor:
        """Return the bias with `FORGET_BIAS` added to the forget gates."""
        offset = torch.zeros_like(self.bias)
        lstm_dim = len(offset) // 4
        offset[2 * lstm_dim : 3 * lstm_dim] = FORGET_BIAS
        return self.bias + offset


def fused_lstm(
    lstm: ProjectedLSTM,
    inputs: Tensor,
    batch_sizes: list[int],
    hidden: Tensor,
    cell: Tensor,
    product_dtype: Optional[torch.dtype] = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Run a layer without clips with PyTorch's LSTM, which is cuDNN's LSTM on a GPU.

    Arguments and results are the same as for `ProjectedLSTM.forward`. But state and gates are also
    computed in `product_dtype`, not only the matrix products.

    lstm (ProjectedLSTM): The layer.
    """
    dtype = product_dtype or inputs.dtype
    bias = lstm.full_bias()
    weights = [swapped_gates(w) for w in (lstm.input_weight, lstm.state_weight, bias)]
    weights.append(torch.zeros_like(bias))
    if lstm.projection is not None:
        weights.append(lstm.projection)
    results = torch._VF.lstm(  # type: ignore[attr-defined]
        inputs.to(dtype),
        torch.tensor(batch_sizes),
        (hidden.to(dtype).unsqueeze(0), cell.to(dtype).unsqueeze(0)),
        [weight.to(dtype) for weight in weights],
        True,  # has_biases
        1,  # num_layers
        0.0,  # dropout
        lstm.training,
        False,  # bidirectional
    )
    outputs, hidden, cell = (result.to(inputs.dtype) for result in results)
    return outputs, hidden.squeeze(0), cell.squeeze(0)
