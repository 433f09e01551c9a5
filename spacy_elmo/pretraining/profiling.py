"""Profile of training steps: the time that each section of a step takes."""

import time
from collections.abc import Callable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from ..bilm.sections import SECTIONS, SectionTimes
from .trainer import Trainer

WARMUP_STEPS = 3  # The first steps allocate memory, and fill the table of token ids.
SHOWN_OPERATORS = 12


def profile_steps(trainer: Trainer, n_steps: int) -> dict[str, Any]:
    """Train for some steps, and measure where the time goes.

    Steps run in turn as in a run, with the sections timed; then a third of them runs again under
    PyTorch's profiler, which makes steps slower.

    trainer (Trainer): The run. Its weights change.
    n_steps (int): Number of steps to time.
    RETURNS (dict): `ms_per_step`, `tokens_per_second`, `sections` (milliseconds a step on the CPU
        and, if there is one, on the GPU) and `operators` (milliseconds a step of PyTorch's
        operators, longest first). On a GPU, the sections of the CPU are the time to start the work.
    """
    device = trainer.processes.device
    _timed(trainer, WARMUP_STEPS)
    tokens = trainer.progress.tokens
    with SectionTimes(device) as times:
        seconds = _timed(trainer, n_steps)
    tokens = trainer.progress.tokens - tokens
    activities = [ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(ProfilerActivity.CUDA)
    n_profiled = max(1, n_steps // 3)
    with profile(activities=activities) as profiler:
        _timed(trainer, n_profiled)
    gpu = times.gpu
    sections = {}
    for name in SECTIONS:
        sections[name] = {"cpu": 1000 * times.cpu[name] / n_steps}
        if gpu:
            sections[name]["gpu"] = 1000 * gpu.get(name, 0.0) / n_steps
    return {
        "steps": n_steps,
        "streams": trainer.streams.batch_size,
        "unroll_steps": trainer.streams.unroll_steps,
        "ms_per_step": 1000 * seconds / n_steps,
        "tokens_per_second": tokens / seconds,
        "sections": sections,
        "operators": _operators(profiler, n_profiled, device),
    }


def profile_text(result: dict[str, Any]) -> str:
    """Return a profile as a table.

    result (dict): The result of `profile_steps`.
    """
    total = result["ms_per_step"]
    devices = list(next(iter(result["sections"].values())))
    lines = [
        f"{result['steps']} steps of {result['streams']} streams x {result['unroll_steps']} "
        f"tokens: {total:.1f} ms a step, {result['tokens_per_second']:,.0f} tokens/s",
        f"{'section':<12}" + "".join(f"{f'ms ({name})':>12}{'share':>8}" for name in devices),
    ]
    rows = list(result["sections"].items())
    others = {name: total - sum(times[name] for _, times in rows) for name in devices}
    for section, times in [*rows, ("other", others)]:
        cells = (f"{times[name]:>12.2f}{times[name] / total:>8.1%}" for name in devices)
        lines.append(f"{section:<12}" + "".join(cells))
    lines.append(f"{'operator':<44}{'ms':>10}{'calls':>8}")
    for row in result["operators"]:
        lines.append(f"{row['name'][:43]:<44}{row['ms']:>10.2f}{row['calls']:>8.0f}")
    return "\n".join(lines)


def _timed(trainer: Trainer, n_steps: int) -> float:
    """Train for some steps as in a run, and return the seconds until all are computed."""
    started = time.perf_counter()
    for _ in range(n_steps):
        trainer.start_step()
    trainer.wait()
    return time.perf_counter() - started


def _operators(profiler: profile, n_steps: int, device: torch.device) -> list[dict[str, Any]]:
    """Return name, milliseconds and calls in a step of the operators that take longest."""
    is_gpu = device.type == "cuda"
    time_of: Callable[[Any], float] = (
        (lambda event: event.self_device_time_total)
        if is_gpu
        else (lambda event: event.self_cpu_time_total)
    )
    events = sorted(profiler.key_averages(), key=time_of, reverse=True)
    return [
        {
            "name": event.key,
            "ms": time_of(event) / 1000 / n_steps,
            "calls": event.count / n_steps,
        }
        for event in events[:SHOWN_OPERATORS]
    ]
