"""Speed of a run on this machine, measured before it begins."""

import os
import time
import warnings
from collections.abc import Iterable, Iterator
from statistics import median

import torch

from ..language_model.processes import Processes
from ..text.corpus import Corpus, read_corpus
from ..text.prepare import open_corpus
from .budget import Budget
from .config import PretrainingConfig
from .texts import InputText
from .trainer import Trainer

SPEED_STEPS = 10
BUSY = 1.5  # Ratio of wall time to processor time on a machine with other work.


def is_this_machine(budget: Budget) -> bool:
    """Return whether this machine has the processors of a budget, for one process.

    If the machine or the budget has GPUs, the budget must be one GPU. Otherwise the budget must not
    have more cores than the machine.
    """
    n_gpus = torch.cuda.device_count()
    if budget.n_gpus or n_gpus:
        return budget.n_gpus == 1 <= n_gpus
    return 0 < budget.n_cores <= (os.cpu_count() or 1)


def measure_speed(config: PretrainingConfig) -> float:
    """Measure the speed of a run: train for 11 steps on the beginning of its text.

    On CPUs, time is the processor time of the main thread, which computes in every part of a step:
    other work on this machine during the measurement says nothing about the time of the run. If
    there is such work, the function warns.

    config (PretrainingConfig): The settings of the run.
    RETURNS (float): Tokens per second: the median of all steps except the first.
    RAISES (ValueError): The text cannot be read.
    """
    settings = config.training
    corpus = _beginning(config, (SPEED_STEPS + 1) * settings.batch_size * settings.unroll_steps)
    trainer = Trainer(config, corpus, corpus, processes=Processes.join())
    is_cpu = trainer.processes.device.type == "cpu"
    speeds, ratios = [], []
    for _ in range(SPEED_STEPS + 1):
        tokens, began, used = trainer.progress.tokens, time.perf_counter(), time.thread_time()
        trainer.step()
        seconds = time.perf_counter() - began
        busy = time.thread_time() - used if is_cpu else seconds
        speeds.append((trainer.progress.tokens - tokens) / busy)
        ratios.append(seconds / busy)
    if median(ratios[1:]) > BUSY:
        warnings.warn(
            f"other processes use this machine: a step takes {median(ratios[1:]):.1f} times its "
            f"processor time. The settings are for a free machine.",
            stacklevel=2,
        )
    return median(speeds[1:])  # The first step is slower, because it allocates memory.


def _beginning(config: PretrainingConfig, n_tokens: int) -> Corpus:
    text = InputText(config.corpus.train)
    if text.prepared is not None:
        return open_corpus(text.prepared)
    return read_corpus(_first(text.read(config), n_tokens), str(text))


def _first(sentences: Iterable[list[str]], n_tokens: int) -> Iterator[list[str]]:
    for sentence in sentences:
        if n_tokens <= 0:
            return
        n_tokens -= len(sentence)
        yield sentence
