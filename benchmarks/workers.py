"""Each way to train in a process of its own, so that none changes what another
finds: threads, allocator, caches. One works at a time, the others wait."""

import multiprocessing
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import torch

Step = Callable[[], float]
WARMUP_STEPS = 2
SHOWN_OPERATORS = 18


@dataclass(frozen=True)
class Done:
    """What a worker reports.

    seconds (float): Of a step, in the mean.
    fastest (float): Seconds of the fastest one.
    n_steps (int): Steps since the last report.
    loss (float): Of the last step.
    peak_memory (int): Bytes that the process has held so far at most.
    """

    seconds: float
    fastest: float
    n_steps: int
    loss: float
    peak_memory: int


@dataclass
class Worker:
    """A variant in its process.

    name (str): The variant.
    tokens (int): Read by a step, in one direction.
    make (Callable): Module-level; called in the process, returns the step.
    arguments (tuple): Of `make`.
    threads (int): PyTorch's threads there.
    rounds (List[Done]): What it has reported of every round.
    """

    name: str
    tokens: int
    make: Callable[..., Step]
    arguments: tuple
    threads: int
    rounds: list[Done] = field(default_factory=list)

    def start(self) -> None:
        """Build the variant and run it warm."""
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        target = (theirs, self.make, self.arguments, self.threads)
        self._process = context.Process(target=_serve, args=target, daemon=True)
        self._process.start()
        theirs.close()
        self._receive()

    def run(self, seconds: float) -> None:
        """Train for so long, and one step at least."""
        self._pipe.send(("run", seconds))
        self.rounds.append(self._receive())

    def profile(self, n_steps: int) -> str:
        """RETURNS (str): A table of operators."""
        self._pipe.send(("profile", n_steps))
        return self._receive()

    def stop(self) -> None:
        """End the process."""
        self._pipe.close()
        self._process.join()

    def _receive(self) -> Any:
        try:
            return self._pipe.recv()
        except EOFError:
            raise SystemExit(f"{self.name} ended early; its error is above") from None


def _serve(pipe: Connection, make: Callable[..., Step], arguments: tuple, threads: int) -> None:
    torch.set_num_threads(threads)
    step = make(*arguments)
    for _ in range(WARMUP_STEPS):
        step()
    pipe.send("ready")
    while True:
        try:
            command, value = pipe.recv()
        except EOFError:
            return
        pipe.send(_run(step, value) if command == "run" else _profile(step, value))


def _run(step: Step, seconds: float) -> Done:
    times: list[float] = []
    while sum(times) < seconds or not times:
        started = time.perf_counter()
        loss = step()
        times.append(time.perf_counter() - started)
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return Done(sum(times) / len(times), min(times), len(times), loss, peak)


def _profile(step: Step, n_steps: int) -> str:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        started = time.perf_counter()
        for _ in range(n_steps):
            step()
        elapsed = time.perf_counter() - started
    events = sorted(profiler.key_averages(), key=lambda event: -event.self_cpu_time_total)
    total = sum(event.self_cpu_time_total for event in events)
    lines = [
        f"{n_steps} steps under the profiler, {1000 * elapsed / n_steps:.0f} ms each",
        f"{'operator':<48}{'ms/step':>9}{'share':>7}{'calls/step':>12}",
    ]
    for event in events[:SHOWN_OPERATORS]:
        spent = event.self_cpu_time_total
        lines.append(
            f"{event.key[:47]:<48}{spent / 1000 / n_steps:>9.2f}{spent / total:>7.1%}"
            f"{event.count / n_steps:>12.1f}"
        )
    return "\n".join(f"    {line}" for line in lines)
