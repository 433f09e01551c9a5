"""Entry point of pretraining: from text files to a model on disk, in one process or one per GPU."""

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Optional

from ..files import lock, user_path
from ..language_model.processes import Processes
from ..text.reading import blank_pipeline
from .allocator import keep_freed_memory
from .checkpoint import check_same_run, read_checkpoint, restored_model
from .config import PretrainingConfig
from .earlier_run import make_room
from .reporting import Reporter
from .texts import InputTexts, open_texts
from .trainer import Trainer


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
    processes, texts = Processes.join(), InputTexts(config.corpus)
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
                make_room(config, texts, output, resume=resume, overwrite=overwrite)
            return _train(config, texts, output, processes, resume=resume)
    finally:
        processes.leave()


def _train(
    config: PretrainingConfig,
    texts: InputTexts,
    output: Path,
    processes: Processes,
    *,
    resume: bool,
) -> bool:
    trainer, checksum, content = make_trainer(config, texts, output, processes, resume=resume)
    with Reporter(trainer, output, corpus=checksum, checkpoint=content) as reporter:
        trainer.run(on_step=reporter.on_step, on_evaluation=reporter.on_evaluation)
        reporter.end()
    return not trainer.stopped


def make_trainer(
    config: PretrainingConfig,
    texts: InputTexts,
    output: Path,
    processes: Processes,
    *,
    resume: bool,
) -> tuple[Trainer, str, Optional[dict[str, Any]]]:
    """Make the trainer of a run, with the states of the last checkpoint if it resumes.

    config (PretrainingConfig): The settings.
    texts (InputTexts): The texts.
    output (Path): Folder of the run.
    processes (Processes): The processes of the run. All must call this.
    resume (bool): Whether to resume from the last checkpoint, if there is one.
    RETURNS (Tuple[Trainer, str, Optional[dict]]): The trainer, the checksum of the training text,
        and the content of the checkpoint; None for a new run.
    RAISES (ValueError): The text cannot be read, or the run cannot be resumed with these settings.
    """
    train, dev = open_texts(config, texts, output, processes)
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
    return trainer, checksum, content
