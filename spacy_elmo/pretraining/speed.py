"""How fast a run would be on this machine."""

import os
import time
from collections.abc import Iterable, Iterator
from statistics import median

import torch

from ..language_model.processes import Processes
from ..text.corpus import Corpus, read_corpus
from ..text.prepare import is_prepared, open_corpus
from ..text.reading import find_files, read_sentences
from .budget import Budget
from .config import PretrainingConfig
from .trainer import Trainer

STEPS = 10


def is_this_machine(budget: Budget) -> bool:
    """RETURNS (bool): Whether this machine has what a budget names, for one process: the speed of
    another tells nothing."""
    n_gpus = torch.cuda.device_count()
    if budget.n_gpus or n_gpus:
        return budget.n_gpus == 1 <= n_gpus
    return 0 < budget.n_cores <= (os.cpu_count() or 1)


def measure_speed(config: PretrainingConfig) -> float:
    """Train for some steps on the beginning of the text, with everything but the vocabulary as
    in the run.

    config (PretrainingConfig): The settings of the run.
    RETURNS (float): Tokens a second, the median of ten steps after one.
    RAISES (ValueError): The text cannot be read.
    """
    settings = config.training
    corpus = _beginning(config, (STEPS + 1) * settings.batch_size * settings.unroll_steps)
    trainer = Trainer(config, corpus, corpus, processes=Processes.join())
    speeds = []
    for _ in range(STEPS + 1):
        tokens, began = trainer.progress.tokens, time.perf_counter()
        trainer.step()
        speeds.append((trainer.progress.tokens - tokens) / (time.perf_counter() - began))
    return median(speeds[1:])  # the first one makes room


def _beginning(config: PretrainingConfig, n_tokens: int) -> Corpus:
    given = config.corpus.train
    inputs = [given] if isinstance(given, str) else given
    if is_prepared(inputs[0]):
        return open_corpus(inputs[0])
    files = find_files(inputs)
    sentences = read_sentences(files, format=config.corpus.format, lang=config.lang)
    return read_corpus(_first(sentences, n_tokens), ", ".join(inputs))


def _first(sentences: Iterable[list[str]], n_tokens: int) -> Iterator[list[str]]:
    for sentence in sentences:
        if n_tokens <= 0:
            return
        n_tokens -= len(sentence)
        yield sentence
