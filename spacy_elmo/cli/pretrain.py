"""Command `python -m spacy elmo pretrain`."""

import difflib
import os
from pathlib import Path
from typing import Any, Optional

import srsly
import typer

from ..compat import config_overrides
from ..files import atomic_write, user_path
from ..files.terminal import echo, msg
from ..pretraining.config import PretrainingConfig, read_config, similar_setting
from .errors import CommandLineError, stopped


def pretrain_cli(
    ctx: typer.Context,
    config_path: Path = typer.Argument(..., help="Config file", exists=True, dir_okay=False),
    output: Path = typer.Option(..., "--output", "-o", help="Folder for the models"),
    resume: bool = typer.Option(False, "--resume", help="Resume from the last checkpoint, if any"),
    overwrite: bool = typer.Option(
        False, "--overwrite", help="Delete an earlier run, and start again"
    ),
    gpus: Optional[str] = typer.Option(
        None,
        help="GPU ids, such as 0,1,2,3. One process per GPU; all train the same model. -1: no GPU",
    ),
    profile: int = typer.Option(
        0, min=0, metavar="STEPS", help="Write where the time of this number of steps goes, and end"
    ),
) -> None:
    """Pretrain a language model on text.

    Override settings of the config like this: --training.max_minutes 30

    The output is model-best and model-last (spaCy pipelines with the pipe `elmo`) and
    metrics.jsonl. Ctrl-C writes a checkpoint first; --resume resumes from it.

    Example: python -m spacy elmo pretrain pretrain.cfg --output models --paths.train corpus/
    --paths.dev dev.txt

    On several machines, or processes without GPUs: torchrun --nproc-per-node 2 -m spacy elmo
    pretrain ...
    """
    from ..pretraining.gpus import choose_gpus
    from ..pretraining.launch import launch
    from ..pretraining.run import pretrain

    config = read_config(config_path, _overrides(ctx))
    if gpus == "-1":  # Like spaCy's --gpu-id.
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    elif gpus is not None and not profile:
        chosen = choose_gpus(gpus)
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(chosen)
        flags = [*["--resume"] * resume, *["--overwrite"] * overwrite]
        arguments = [str(config_path), "--output", str(output), *flags, *ctx.args]
        raise typer.Exit(launch(arguments, len(chosen)))
    if profile:
        _profile(config, output, profile, resume=resume)
        return
    with stopped("Stopped. To resume, run the same command with --resume"):
        if not pretrain(config, output, resume=resume, overwrite=overwrite):
            raise typer.Exit(130)


def _profile(config: PretrainingConfig, output: Path, n_steps: int, *, resume: bool) -> None:
    """Print and write the profile of some steps. The run in the output folder does not change."""
    from ..language_model.processes import Processes
    from ..pretraining.profiling import profile_steps, profile_text
    from ..pretraining.run import make_trainer
    from ..pretraining.texts import InputTexts

    output = user_path(output)
    output.mkdir(parents=True, exist_ok=True)
    processes = Processes.join()
    try:
        texts = InputTexts(config.corpus)
        trainer, _, _ = make_trainer(config, texts, output, processes, resume=resume)
        result = profile_steps(trainer, n_steps)
    finally:
        processes.leave()
    if processes.is_first:
        echo(profile_text(result))
        path = output / "profile.json"
        atomic_write(path, srsly.json_dumps(result, indent=2) + "\n")
        msg.good(f"Wrote {path}")


def _overrides(ctx: typer.Context) -> dict[str, Any]:
    """Return the config settings among the options. These have a dot: --training.max_minutes."""
    for argument in ctx.args:
        name = argument.partition("=")[0]
        if name.startswith("--") and "." not in name:
            options = [option for parameter in ctx.command.params for option in parameter.opts]
            setting = similar_setting(name.removeprefix("--").replace("-", "_"))
            similar = difflib.get_close_matches(name, options, n=1)
            similar += [f"--{setting}"] if setting else []
            meant = f". Did you mean {similar[0]}?" if similar else ""
            raise CommandLineError(f"pretrain has no option {name}{meant}")
    try:
        overrides: dict[str, Any] = config_overrides(list(ctx.args))
    except SystemExit:  # spaCy has printed the reason.
        raise typer.Exit(CommandLineError.exit_code) from None
    return overrides
