"""Losses of training steps, read from a GPU without waiting for the step that it computes.

To read a number from a GPU, the CPU waits until the GPU has computed everything before it. If each
step did this, the GPU would then wait until the CPU has started the next step. So a loss is copied
to the CPU's memory by the GPU itself, and read one step later.
"""

from collections import deque
from typing import Optional

import torch
from torch import Tensor


class PendingLosses:
    """Losses that may still be computed, by step.

    n_waiting (int): Number of losses that `take` leaves. 0 waits for each loss at once.
    """

    def __init__(self, n_waiting: int = 0):
        self.n_waiting = n_waiting
        self.pending: deque[tuple[int, Tensor, Optional[torch.cuda.Event]]] = deque()

    def add(self, step: int, loss: Tensor) -> None:
        """Add the loss of a step.

        step (int): Number of the step.
        loss (Tensor): A scalar, on any device.
        """
        if not loss.is_cuda:
            self.pending.append((step, loss, None))
            return
        copy = torch.empty((), dtype=loss.dtype, pin_memory=True)
        copy.copy_(loss, non_blocking=True)
        copied = torch.cuda.Event()
        copied.record()
        self.pending.append((step, copy, copied))

    def take(self, n_waiting: Optional[int] = None) -> list[tuple[int, float]]:
        """Remove and return the oldest losses. Wait until they are computed.

        n_waiting (Optional[int]): Number of losses that remain. Default: the number of the
            constructor.
        RETURNS (List[Tuple[int, float]]): Step and loss, oldest first.
        """
        remaining = self.n_waiting if n_waiting is None else n_waiting
        taken = []
        while len(self.pending) > remaining:
            step, loss, copied = self.pending.popleft()
            if copied is not None:
                copied.synchronize()
            taken.append((step, float(loss)))
        return taken
