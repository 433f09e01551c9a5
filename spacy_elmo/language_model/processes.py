"""Processes of a training run: one, or several that `torchrun` started."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Optional

import torch
import torch.distributed as dist
from torch import Tensor

# Timeout for waiting while another process prepares a corpus.
PATIENCE = timedelta(hours=12)
# Timeout of a step, because a lost machine never answers. The longest operation in a step is the
# writing of models.
STEP_PATIENCE = timedelta(minutes=30)
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Processes:
    """Current process of a training run, and its connection to the other processes.

    rank (int): Rank of the process, from 0. Only rank 0 writes files.
    size (int): Number of processes.
    device (torch.device): Device on which this process computes.
    waiting (Optional[dist.ProcessGroup]): Group of all processes, with the timeout of `wait`; None
        for one process.
    """

    rank: int = 0
    size: int = 1
    device: torch.device = CPU
    waiting: Optional[dist.ProcessGroup] = None

    @classmethod
    def join(cls) -> "Processes":
        """Connect to the other processes that `torchrun` started, if there are any.

        The processes communicate with NCCL on GPUs, and with gloo otherwise.
        """
        device = CPU
        if torch.cuda.is_available():
            device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
            torch.cuda.set_device(device)
        if int(os.environ.get("WORLD_SIZE", 1)) == 1:
            return cls(device=device)
        backend = "nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, timeout=STEP_PATIENCE)
        # A group has only one timeout, so the long waits need a group of their own.
        waiting = dist.new_group(timeout=PATIENCE)
        return cls(dist.get_rank(), dist.get_world_size(), device, waiting)

    @property
    def is_first(self) -> bool:
        """True for the process that writes files and messages."""
        return self.rank == 0

    def wait(self) -> None:
        """Wait until all processes have called this, at most 12 hours.

        RAISES (ConnectionError): Another process has ended.
        """
        if self.size > 1:
            with self.together():
                dist.barrier(self.waiting)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Context manager: if another process is lost, raise an error that says what to do.

        RAISES (ConnectionError): Another process has ended, or its machine is lost.
        """
        try:
            yield
        except RuntimeError as error:
            # gloo raises a plain RuntimeError for a lost connection.
            is_lost = isinstance(error, dist.DistError) or "gloo" in str(error)
            if self.size == 1 or not is_lost:
                raise
            raise ConnectionError(
                "another process of the run ended (see its own message), or its machine is lost. "
                "Run the same command with `resume=True` to resume from the last checkpoint."
            ) from None

    def mean_(self, *tensors: Tensor) -> None:
        """Replace tensors in place by their mean over the processes."""
        if self.size > 1:
            for tensor in tensors:
                dist.all_reduce(tensor)
                tensor /= self.size

    def sum(self, values: list[float]) -> list[float]:
        """Add up the lists of all processes, position by position."""
        if self.size == 1:
            return values
        # float64, because float32 cannot count more than 2^24 tokens exactly.
        tensor = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor)
        return [float(value) for value in tensor]

    def agree(self, value: int) -> bool:
        """Return whether all processes have the same value. All processes must call this."""
        values = self.gather_rows(torch.tensor([value], device=self.device), 0)
        return bool((values == value).all())

    def gather_rows(self, tensor: Tensor, dim: int) -> Tensor:
        """Concatenate the tensors of all processes along `dim`. They must have the same shape."""
        if self.size == 1:
            return tensor
        parts = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(parts, tensor.contiguous())
        return torch.cat(parts, dim=dim)

    def leave(self) -> None:
        """Disconnect from the other processes."""
        if self.size > 1:
            dist.destroy_process_group()
