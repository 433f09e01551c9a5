"""Entry point of pretraining: from text files to a model on disk, in one process or one per GPU."""

import ctypes
import logging
import os
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Optional, Union

import torch

from ..files import lock, user_path
from ..files.remote import is_url
from ..files.unfinished import delete
from ..language_model.processes import Processes
from ..text.corpus import Corpus, load_text, read_corpus
from ..text.prepare import is_foreign_corpus, is_prepared, manifest_of, open_corpus, prepare
from ..text.reading import blank_pipeline, find_files, read_sentences
from ..text.settings import PrepareSettings
from ..weights.formats import read_bundle
from ..weights.pipeline_folder import PipelineFolder
from .budget import Budget
from .checkpoint import check_same_run, checkpoints, read_checkpoint, restored_model
from .config import Inputs, PretrainingConfig
from .reporting import METRICS, Reporter, is_metrics
from .trainer import Trainer

SMALL = 20_000_000  # Bytes. For less text, starting several processes takes longer than it saves.
SPEED_STEPS = 10
BUSY = 1.5  # Ratio of wall time to processor time on a machine with other work.
# glibc's malloc.h
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4


def pretrain(
    config: PretrainingConfig, output: Path, *, resume: bool = False, overwrite: bool = False
) -> bool:
    """Pretrain a language model, or resume a run.

    config (PretrainingConfig): The settings.
    output (Path): Folder for models, checkpoints, metrics and the prepared text.
    resume (bool): Whether to resume from the last checkpoint. Without one, a new run starts.
    overwrite (bool): Whether to delete the files of an earlier run first.
    RETURNS (bool): True if the run reached its end; False if a signal stopped it.
    RAISES (ValueError): The text cannot be read, the folder contains a run but `resume` and
        `overwrite` are False, or the run cannot be resumed with these settings.
    RAISES (OSError): The last checkpoint or model cannot be written.
    """
    if resume and overwrite:
        raise ValueError("`resume` and `overwrite` exclude each other. Give one of them")
    if overwrite and int(os.environ.get("GROUP_WORLD_SIZE", 1)) > 1:
        raise ValueError(
            f"`overwrite` does not work on several machines: when a machine joins, all processes "
            f"start again and would delete their own run. Delete {output}, and set `resume=True`."
        )
    output = user_path(output)
    processes = Processes.join()
    try:
        # After a failure, `torchrun` restarts all processes. Only the machine with the failure
        # counts restarts, so the processes exchange the count.
        restarts = float(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))
        if sum(processes.sum([restarts])) > 0:
            resume, overwrite = True, False
        with processes.together(), ExitStack() as alone:
            if processes.is_first:
                blank_pipeline(config.lang)  # Check the language before anything is deleted.
                output.mkdir(parents=True, exist_ok=True)
                (output / "checkpoints").mkdir(exist_ok=True)
                # Two runs in one folder would destroy each other.
                alone.enter_context(lock(output / "checkpoints" / "lock"))
                _make_room(config, output, resume=resume, overwrite=overwrite)
            return _train(config, output, processes, resume=resume)
    finally:
        processes.leave()


def _train(config: PretrainingConfig, output: Path, processes: Processes, *, resume: bool) -> bool:
    train, dev = _texts(config, output, processes)
    checksum = train.checksum()
    content = read_checkpoint(output / "checkpoints") if resume else None
    model = None
    if content is not None:
        check_same_run(content, config, checksum)
        model = restored_model(content)
    keep_freed_memory()
    trainer = Trainer(config, train, dev, model=model, processes=processes)
    if content is not None:
        trainer.load_state_dict(content["states"])
    if not processes.agree(trainer.progress.step) or not processes.agree(int(checksum[:15], 16)):
        raise ValueError(
            f"the processes do not see the same text or checkpoints. Put {output} on storage "
            f"that all machines share."
        )
    with Reporter(trainer, output, corpus=checksum, checkpoint=content) as reporter:
        trainer.run(on_step=reporter.on_step, on_evaluation=reporter.on_evaluation)
        reporter.end()
    return not trainer.stopped


def _make_room(config: PretrainingConfig, output: Path, *, resume: bool, overwrite: bool) -> None:
    # Check the inputs before anything is deleted.
    inputs: list[Union[str, Path]] = []
    for texts in (config.corpus.train, config.corpus.dev):
        prepared = find_prepared(texts)
        if prepared is None:
            inputs += find_files(texts)
        else:
            manifest_of(prepared)
            inputs.append(prepared)
    found = _earlier_run(output)
    if overwrite:
        corpus = output / "corpus"
        if corpus.exists() and is_foreign_corpus(corpus):
            raise ValueError(f"{corpus} is not a prepared corpus. Give another output folder.")
        if config.pretraining.init is not None:
            read_bundle(config.pretraining.init)
            inputs.append(config.pretraining.init)
        outputs = [*found, corpus]
        _check_apart(inputs, outputs)
        for path in outputs:
            delete(path)
    elif not resume and found:
        name = "checkpoints" if found[0].parent.name == "checkpoints" else found[0].name
        raise ValueError(
            f"{output} contains the {name} of a run. `resume=True` resumes it, "
            f"`overwrite=True` deletes it and starts again."
        )


def _check_apart(inputs: list[Union[str, Path]], outputs: list[Path]) -> None:
    """Check that a run does not delete its own inputs.

    RAISES (ValueError): An input is one of the outputs, or is inside one.
    """
    deleted = [output.resolve() for output in outputs]
    for given in inputs:
        path = user_path(given).resolve()
        for output in deleted:
            if path.is_relative_to(output):
                raise ValueError(
                    f"{given} is an input of this run, but `overwrite=True` deletes {output}. Move "
                    f"the input, or give another output folder."
                )


def _earlier_run(output: Path) -> list[Path]:
    """Return the checkpoints, models and metrics that an earlier run wrote to `output`.

    RAISES (ValueError): A folder or file has the name of a model or of metrics, but is neither.
    """
    models = [path for path in (output / "model-best", output / "model-last") if path.exists()]
    for model in models:
        if not model.is_dir() or PipelineFolder.is_foreign(model):
            raise ValueError(
                f"{model} is not from a pretraining, or contains other files. Move these away, or "
                f"give another output folder."
            )
    metrics = output / METRICS
    if metrics.exists() and not is_metrics(metrics):
        raise ValueError(f"{metrics} is not from a pretraining. Give another output folder.")
    has_metrics = metrics.exists() and metrics.stat().st_size > 0
    return [*checkpoints(output / "checkpoints"), *models, *[metrics] * has_metrics]


def _texts(config: PretrainingConfig, output: Path, processes: Processes) -> tuple[Corpus, Corpus]:
    """Open the training text and the held-out text.

    If the training text is not a prepared corpus, the first process prepares it in `output`. If the
    held-out text is not a prepared corpus, each process reads it into memory.
    """
    settings = config.corpus
    folder = find_prepared(settings.train)
    if folder is None:
        folder = output / "corpus"
        if processes.is_first:
            size = sum(file.stat().st_size for file in find_files(settings.train))
            prepare(
                settings.train,
                folder,
                PrepareSettings(
                    format=settings.format,
                    lang=config.lang,
                    **config.vocabulary.model_dump(),
                    n_process=1 if size < SMALL else -1,
                    on_error=settings.on_error,
                    ignore=output,
                ),
            )
    dev = find_prepared(settings.dev)
    for prepared in (folder, dev) if processes.is_first else ():
        if prepared is not None:
            open_corpus(prepared, verify=True)
    processes.wait()
    train = open_corpus(folder)
    if dev is not None:
        return train, open_corpus(dev)
    return train, load_text(settings.dev, format=settings.format, lang=config.lang)


def find_prepared(inputs: Inputs) -> Optional[Union[str, Path]]:
    """Return the folder or URL of `inputs` if it is a prepared corpus; None for text files.

    With several inputs, the result is None. `find_files` then refuses a prepared corpus.
    """
    given = [inputs] if isinstance(inputs, str) else inputs
    if len(given) > 1:
        return None
    if is_url(given[0]):
        return given[0]
    return user_path(given[0]) if is_prepared(given[0]) else None


def keep_freed_memory() -> bool:
    """Set glibc to keep freed memory in the process, so that training steps can use it again.

    By default, glibc returns large blocks to the system. Every training step then requests them
    again, page by page, which took up to 10 % of the time. Peak memory stays the same.

    RETURNS (bool): Whether it worked; False without glibc.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(mallopt(_M_MMAP_MAX, 0)) and bool(mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))


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
    inputs = config.corpus.train
    prepared = find_prepared(inputs)
    if prepared is not None:
        return open_corpus(prepared)
    sentences = read_sentences(find_files(inputs), format=config.corpus.format, lang=config.lang)
    name = inputs if isinstance(inputs, str) else ", ".join(inputs)
    return read_corpus(_first(sentences, n_tokens), name)


def _first(sentences: Iterable[list[str]], n_tokens: int) -> Iterator[list[str]]:
    for sentence in sentences:
        if n_tokens <= 0:
            return
        n_tokens -= len(sentence)
        yield sentence


def choose_gpus(text: str) -> list[str]:
    """Convert ids of GPUs to values for CUDA_VISIBLE_DEVICES.

    text (str): Ids such as "0,1,2,3". If CUDA_VISIBLE_DEVICES is set, 0 is the first GPU in it.
    RETURNS (List[str]): One value for each GPU.
    RAISES (ValueError): The text does not consist of different ids, or PyTorch does not see a GPU.
    """
    numbers = [number.strip() for number in text.split(",")]
    if not all(map(str.isdecimal, numbers)) or len({*map(int, numbers)}) < len(numbers):
        raise ValueError(f"`gpus` must be a list of different ids, such as 0,1,2,3; got '{text}'")
    n_gpus = torch.cuda.device_count()
    if not n_gpus:
        raise ValueError("`gpus`: PyTorch sees no GPU here. Omit it to train on processors.")
    missing = [number for number in numbers if int(number) >= n_gpus]
    if missing:
        raise ValueError(
            f"`gpus`: there is no GPU {', '.join(missing)}; PyTorch sees {n_gpus}, counted from 0"
        )
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    return [visible[int(number)] if visible[0] else str(int(number)) for number in numbers]


def launch(arguments: list[str], n_processes: int) -> int:
    """Run `python -m spacy elmo pretrain` in several processes that train one model.

    It works like `torchrun`. The processes run on this machine. Ctrl-C stops all of them.

    arguments (List[str]): Command-line arguments of `pretrain`.
    n_processes (int): Number of processes.
    RETURNS (int): The exit status of the command.
    RAISES (ChildProcessError): A process was killed.
    """
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import parse_args, run

    # Seconds for the last step and checkpoint. PyTorch's 30 may be too few.
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "600")
    # The processes print their own, better messages.
    logging.getLogger("torch.distributed").setLevel(logging.CRITICAL)
    options = ["--standalone", "--nproc-per-node", str(n_processes)]
    try:
        run(parse_args([*options, "-m", "spacy", "elmo", "pretrain", *arguments]))
    except SignalException:
        return 130  # Exit status after Ctrl-C or another signal.
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        if failure.exitcode < 0:
            raise ChildProcessError(
                f"process {rank} was ended by signal {-failure.exitcode}. Run the same command "
                f"with `resume=True` to resume from the last checkpoint."
            ) from None
        return int(failure.exitcode)
    return 0
