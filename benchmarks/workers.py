"""Worker processes, one for each variant of a training step.

With separate processes, variants do not share threads, allocator or caches. Only one process runs
at a time; the others wait.
"""

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
    """Report of a worker on one round.

    seconds (float): Mean seconds per step.
    fastest (float): Seconds of the fastest step.
    n_steps (int): Number of steps.
    loss (float): Loss of the last step.
    peak_memory (int): Peak memory of the process so far, in bytes.
    """

    seconds: float
    fastest: float
    n_steps: int
    loss: float
    peak_memory: int


@dataclass
class Worker:
    """Variant that runs in its own process.

    name (str): The variant.
    tokens (int): Tokens per step, in one direction.
    make (Callable): Module-level function that returns the step. It is called in the process.
    arguments (tuple): Arguments of `make`.
    threads (int): Number of PyTorch's threads in the process.
    rounds (List[Done]): Reports on all rounds.
    """

    name: str
    tokens: int
    make: Callable[..., Step]
    arguments: tuple
    threads: int
    rounds: list[Done] = field(default_factory=list)

    def start(self) -> None:
        """Start the process, build the variant, and run the warm-up steps."""
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        target = (theirs, self.make, self.arguments, self.threads)
        self._process = context.Process(target=_serve, args=target, daemon=True)
        self._process.start()
        theirs.close()
        self._receive()

    def run(self, seconds: float) -> None:
        """Run steps for some seconds, at least one, and store the report."""
        self._pipe.send(("run", seconds))
        self.rounds.append(self._receive())

    def profile(self, n_steps: int) -> str:
        """Return a table of the time that each operator needs."""
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
            raise SystemExit(f"{self.name} stopped with the error above") from None


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
