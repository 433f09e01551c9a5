"""Sections of a training step, such as the encoder and the LSTMs, and the time that they take.

`section` marks a part of the code. It does nothing unless a `SectionTimes` is active. A profiler of
operators cannot tell these parts: on a GPU, the backward pass runs in a thread of its own, and a
CUDA graph is one operation.
"""

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Optional

import torch

SECTIONS = ("reader", "encoder", "lstms", "softmax", "backward", "optimizer")


class SectionTimes:
    """Times of sections, measured while it is active as a context manager.

    On a GPU, `cpu` contains the time in which the CPU starts the operations, and `gpu` the time in
    which the GPU computes them.
    """

    active: "Optional[SectionTimes]" = None

    def __init__(self, device: torch.device):
        self.is_gpu = device.type == "cuda"
        self.cpu: dict[str, float] = defaultdict(float)
        self.events: list[tuple[str, torch.cuda.Event, torch.cuda.Event]] = []

    def __enter__(self) -> "SectionTimes":
        SectionTimes.active = self
        return self

    def __exit__(self, *_: object) -> None:
        SectionTimes.active = None

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Context manager: add the time of the block to a section."""
        started = time.perf_counter()
        before = self._event()
        yield
        after = self._event()
        self.cpu[name] += time.perf_counter() - started
        if before is not None and after is not None:
            self.events.append((name, before, after))

    def _event(self) -> Optional[torch.cuda.Event]:
        if not self.is_gpu:
            return None
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    @property
    def gpu(self) -> dict[str, float]:
        """Seconds of each section on the GPU; empty for a CPU. The CPU waits for the GPU."""
        if not self.is_gpu:
            return {}
        torch.cuda.synchronize()
        found: dict[str, float] = defaultdict(float)
        for name, before, after in self.events:
            found[name] += before.elapsed_time(after) / 1000
        return dict(found)


@contextmanager
def section(name: str) -> Iterator[None]:
    """Context manager: mark a section of a training step.

    name (str): One of `SECTIONS`.
    """
    if SectionTimes.active is None:
        yield
        return
    with SectionTimes.active.measure(name):
        yield
