"""LSTM stacks as a CUDA graph.

A training window has 40 steps, and each step of an LSTM starts about 30 small operations on the
GPU. Python needs more time to start them than the GPU needs to compute them. A CUDA graph records
the operations once, and then starts all of them together. In the graph, the two directions run at
the same time.
"""

import warnings
from typing import Optional

import torch
from torch import Tensor, nn

from .lstm import BiLMState
from .model import BiLM, joined_state


class RecordedStacks(nn.Module):
    """Module that runs the LSTM stacks of a biLM on windows of one shape, without padding.

    product_dtype (Optional[torch.dtype]): Type of matrix products; None: the weights' type.
    """

    def __init__(
        self, bilm: BiLM, n_rows: int, n_steps: int, product_dtype: Optional[torch.dtype] = None
    ):
        super().__init__()
        self.bilm = bilm
        self.batch_sizes = [n_rows] * n_steps
        self.product_dtype = product_dtype
        items = torch.arange(bilm.config.n_directions * n_rows * n_steps, device=bilm.device)
        self.rows = items.chunk(bilm.config.n_directions)
        self.streams = [torch.cuda.Stream() for _ in self.rows[1:]]

    def forward(self, inputs: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, ...]:
        """Run the stacks from the states of a BiLMState. The states have no gradient.

        inputs (Tensor): Token vectors, first the forward items and then the backward items.
            *Shape:* `(n_directions * n_items, P)`
        RETURNS (Tuple[Tensor, ...]): The top layer, in the shape of the inputs; hidden and cell
            state after the window.
        """
        main, found, state = torch.cuda.current_stream(), [], BiLMState(hidden, cell)
        for d, stream in enumerate([main, *self.streams]):
            stream.wait_stream(main)
            with torch.cuda.stream(stream):
                args = (d, inputs, self.rows[d], self.batch_sizes, state)
                found.append(self.bilm.run_stack(*args, product_dtype=self.product_dtype))
        for stream in self.streams:
            # The current stream reads all results below, so it must wait for the other streams.
            main.wait_stream(stream)
        layers, *ended = zip(*found)
        after = joined_state(*ended).detach()
        return torch.cat([each[-1] for each in layers]), after.hidden, after.cell

    def record(self) -> "RecordedStacks":
        """Record the forward and the backward pass as CUDA graphs, which later calls replay.

        The results and gradients of a call are overwritten by the next call.
        """
        # PyTorch warns that gradients move to another stream than in the recording.
        warnings.filterwarnings("ignore", "The AccumulateGrad node's stream does not match")
        # The values of the sample do not matter: a call copies its own inputs to their place.
        state = self.bilm.zero_state(self.batch_sizes[0])
        n_items = sum(len(rows) for rows in self.rows)
        inputs = state.hidden.new_zeros(n_items, state.hidden.shape[-1]).requires_grad_()
        sample = (inputs, state.hidden, state.cell)
        torch.cuda.make_graphed_callables(self, sample, allow_unused_input=True)  # changes `self`
        return self
