"""LSTM layer with clips and projection, its highway connection, and the state of all LSTMs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Optional, Union

import numpy as np
import torch
from torch import Tensor, nn

from ..compat import packed_lstm
from ..model.config import FORGET_BIAS, BiLMConfig, swapped_gates
from .precision import linear, without_tf32
from .sequence import ProjectedLSTMSequence, SequenceOptions


class ProjectedLSTM(nn.Module):
    """LSTM layer in one direction, with clipped cell state and projected, clipped output.

    It computes the same as bilm-tf's LSTMCell (Sak et al. 2014). The order of the gates is i, j,
    f, o, where j is the candidate:

        c = clip(sigmoid(f + 1) * c + sigmoid(i) * tanh(j))
        h = clip((sigmoid(o) * tanh(c)) W_P)

    Without a projection the output is not clipped.

    layer (int): Index of the layer, from 0.
    """

    def __init__(self, config: BiLMConfig, layer: int = 0):
        super().__init__()
        lstm_dim, width = config.lstm_dim, config.projection_dim
        input_dim = config.width if layer and config.joined_directions else width
        self.cell_clip = config.cell_clip
        self.proj_clip = config.proj_clip
        # cuDNN's LSTM has no clips, and no projection that keeps the width.
        self.fits_cudnn = not config.has_clips and not config.square_projection
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
        """Run the LSTM over packed sequences (see `model.packing`).

        A row is a sequence. Each step runs the sequences that have not ended: the first
        `batch_sizes[step]` rows. The other rows keep their state.

        inputs (Tensor): *Shape:* `(sum(batch_sizes), input_dim)`
        batch_sizes (List[int]): Number of running rows at each step, in non-increasing order.
        hidden (Tensor): Initial hidden state. *Shape:* `(batch_sizes[0] or more, P)`
        cell (Tensor): Initial cell state. *Shape:* `(batch_sizes[0] or more, D)`
        product_dtype (Optional[torch.dtype]): Type of matrix products; None: the weights' type.
        RETURNS (Tuple[Tensor, Tensor, Tensor]): The outputs, packed like the inputs, and the hidden
            and cell state of each row after its last step.
        """
        n_rows = batch_sizes[0]
        started = hidden[:n_rows], cell[:n_rows]
        if self.fits_cudnn and inputs.is_cuda:
            outputs, *ended = fused_lstm(self, inputs, batch_sizes, *started, product_dtype)
        else:
            options = SequenceOptions(batch_sizes, self.cell_clip, self.proj_clip, product_dtype)
            weights = (self.input_weight, self.state_weight, self.full_bias(), self.projection)
            outputs, *ended = ProjectedLSTMSequence.apply(inputs, *started, *weights, options)
        # Rows without a step in this window keep their state.
        rest = hidden[n_rows:], cell[n_rows:]
        hidden, cell = (torch.cat(pair) for pair in zip(ended, rest))
        return outputs, hidden, cell

    def full_bias(self) -> Tensor:
        """Return the bias with `FORGET_BIAS` added to the forget gates."""
        # Added here and not to the parameter, because files of weights have no forget bias, as in
        # bilm-tf.
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
    """Use PyTorch's LSTM, which is cuDNN's LSTM on a GPU, to run a layer that fits it.

    Arguments and results are the same as for `ProjectedLSTM.forward`, except for `product_dtype`:
    this function uses it for the state and the gates, too.
    """
    dtype = product_dtype or inputs.dtype
    bias = lstm.full_bias()
    weights = [swapped_gates(w) for w in (lstm.input_weight, lstm.state_weight, bias)]
    # PyTorch has two biases and adds them; ours is the first.
    weights.append(torch.zeros_like(bias))
    if lstm.projection is not None:
        weights.append(lstm.projection)
    with without_tf32():
        results = packed_lstm(
            inputs.to(dtype),
            batch_sizes,
            (hidden.to(dtype).unsqueeze(0), cell.to(dtype).unsqueeze(0)),
            [weight.to(dtype) for weight in weights],
            # cuDNN has a backward pass only in training mode, but a language model that is
            # fine-tuned stays in evaluation mode. Without dropout, the modes do not differ.
            train=torch.is_grad_enabled(),
        )
    outputs, hidden, cell = (result.to(inputs.dtype) for result in results)
    return outputs, hidden.squeeze(0), cell.squeeze(0)


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
        """Mix the outputs h and inputs x of a layer with the gate. *Shape:* `(n, P)` each.

        product_dtype (Optional[torch.dtype]): Type of the product; None: the weights' type.
        """
        gate = torch.sigmoid(linear(inputs, self.gate, product_dtype))
        return torch.lerp(inputs, outputs, gate)


@dataclass(frozen=True)
class BiLMState:
    """Hidden and cell states of all LSTMs, one row per sequence. Direction 0 is forward.

    hidden (Tensor): *Shape:* `(n_directions, L, n_sequences, P)`
    cell (Tensor): *Shape:* `(n_directions, L, n_sequences, D)`
    """

    hidden: Tensor
    cell: Tensor

    def __len__(self) -> int:
        return self.hidden.shape[2]

    def rows(self, index: Union[Tensor, np.ndarray, Sequence[int]]) -> "BiLMState":
        """Return a copy of the states of some sequences, in the order of `index`.

        index (Union[Tensor, numpy.ndarray, Sequence[int]]): An index may occur more than once.
        """
        index = torch.as_tensor(index, dtype=torch.int64, device=self.hidden.device)
        return BiLMState(self.hidden.index_select(2, index), self.cell.index_select(2, index))

    def detach(self) -> "BiLMState":
        """Return the same values, detached from autograd."""
        return BiLMState(self.hidden.detach(), self.cell.detach())

    @classmethod
    def concatenate(cls, states: Sequence["BiLMState"]) -> "BiLMState":
        """Join several states to one state that has the rows of all, in order."""
        return cls(
            torch.cat([state.hidden for state in states], dim=2),
            torch.cat([state.cell for state in states], dim=2),
        )


State = Union[None, Literal["warm"], BiLMState]
