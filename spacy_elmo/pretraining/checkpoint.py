"""Checkpoints, from which a pretraining run resumes bit for bit.

A checkpoint contains the weights, the states of the optimizers, the carried LSTM states, the
progress, the vocabularies and the settings. It needs no state of random generators and no position
in the text: both follow from the seed and the step (`trainer.py`).

A run can stop at any time, so a checkpoint is written under a temporary name and then renamed. The
newest `keep` checkpoints remain. A checkpoint that cannot be read is skipped with a warning, and
the run resumes from the one before. Its file is then renamed to `.damaged`, never deleted.

Invariant: the resumed run writes the same weights as a run that was not interrupted. So resuming
raises an error if the text or a setting differs. Limits, settings of evaluation and output, and
`accumulate_gradient` may differ (`FREE`). There are two exceptions: some values may be lower, to
save a run that diverged (`LOWERED`); and a run may move to a machine for which another batch size
is right (`BATCH`), and then the settings that depend on it may differ, too (`WITH_BATCH`).
"""

import zipfile
from pathlib import Path
from typing import Any, Optional

import torch

from ..bilm.model import BiLM
from ..bilm.softmax import make_softmax
from ..files import atomic_stream, full_disk, sweep
from ..files.errors import bounded
from ..files.terminal import msg
from ..language_model.model import LanguageModel
from ..model.config import BiLMConfig
from ..model.vocabulary import InputVocabulary, Vocabularies, Vocabulary
from ..weights.attribution import inherited
from .config import PretrainingConfig
from .stopping import LOWERED
from .trainer import Trainer

VERSION = 1
PATTERN = f"checkpoint-{'[0-9]' * 10}.pt"  # Other programs write names like checkpoint-500.pt.
# Settings of [training] that a resumed run may change. With a decay, other limits change the
# learning rate of later steps.
FREE = (
    *("max_epochs", "max_steps", "max_tokens", "max_minutes", "patience", "eval_frequency"),
    *("eval_tokens", "checkpoint_minutes", "keep", "logger"),
    "advanced.accumulate_gradient",
)
BATCH = ("batch_size", "unroll_steps")
WITH_BATCH = (*LOWERED, "warmup_steps")


def save_checkpoint(
    trainer: Trainer,
    folder: Path,
    *,
    corpus: str,
    keep: int,
    models: Optional[dict[str, Any]] = None,
) -> Optional[Path]:
    """Write a checkpoint of the current step, and delete all but the newest `keep`.

    All processes must call this at the same step. The first process writes.

    trainer (Trainer): The run.
    folder (Path): The folder of checkpoints.
    corpus (str): Checksum of the training text.
    keep (int): Number of checkpoints to keep.
    models (Optional[dict]): Result of the last evaluation ("report"), and names of models that
        could not be written ("unsaved").
    RETURNS (Optional[Path]): The file; None in all processes except the first.
    RAISES (OSError): The file cannot be written. Earlier checkpoints are unchanged.
    RAISES (FloatingPointError): A weight is not finite.
    """
    states = trainer.state_dict()
    if not trainer.processes.is_first:
        return None
    sweep(folder)
    vocabularies = trainer.model.bilm.indexer.vocabularies._asdict().items()
    content = {
        "version": VERSION,
        "config": comparable(trainer.config),
        "sizes": trainer.model.bilm.config.to_dict(),
        "words": trainer.model.vocabulary.words,
        "vocabularies": {name: list(v.strings) for name, v in vocabularies if v is not None},
        "corpus": corpus,
        "models": models,
        "provenance": inherited(trainer.model.bilm.provenance),
        "states": states,
    }
    step = trainer.progress.step
    path = _path_of(folder, step)
    earlier = [other.name for other in checkpoints(folder) if other != path]
    advice = f"resume with `resume=True`: {earlier[-1] if earlier else 'nothing before it'} is kept"
    with full_disk(path, advice), atomic_stream(path) as file:
        torch.save(content, file)
    # Later checkpoints are damaged, or this run would have resumed from one of them.
    set_aside(folder, step + 1)
    for old in checkpoints(folder)[:-keep]:
        old.unlink()
    return path


def checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints in a folder, oldest first."""
    return sorted(folder.glob(PATTERN))


def set_aside(folder: Path, step: int) -> None:
    """Rename checkpoints to `.damaged`, so that a run resumes from an earlier checkpoint.

    folder (Path): The folder of checkpoints.
    step (int): Checkpoints of this step and of later steps are renamed.
    """
    for path in checkpoints(folder):
        if path.name >= _path_of(folder, step).name:
            path.rename(path.with_suffix(".damaged"))


def _path_of(folder: Path, step: int) -> Path:
    return folder / f"checkpoint-{step:010d}.pt"


def read_checkpoint(folder: Path) -> Optional[dict[str, Any]]:
    """Read the newest checkpoint that is not damaged.

    folder (Path): The folder of checkpoints.
    RETURNS (Optional[dict]): The content of the checkpoint; None if the folder has none.
    RAISES (ValueError): The folder has checkpoints, but none can be read.
    """
    unusable: list[str] = []
    for path in reversed(checkpoints(folder)):
        try:
            content = _read(path)
        except Exception as error:  # Damaged files raise many kinds of errors.
            unusable.append(f"{path} cannot be used: {_without_advice(error)}")
            continue
        for reason in unusable:
            msg.warn(f"{reason}; resuming from the checkpoint before, {path.name}")
        return content
    if unusable:
        raise ValueError(
            f"no checkpoint in {folder} can be read: {'; '.join(unusable)}. "
            f"Start again with `overwrite=True`, or start a new run in another `output` from the "
            f"last model with `pretraining.init={folder.parent / 'model-last'}`"
        )
    return None


def _without_advice(error: Exception) -> str:
    """Return the first sentence of an error, without PyTorch's advice to load the file anyway."""
    line = str(error).split("\n")[0].split(". ")[0]
    return bounded(line) if line and "eights" not in line else type(error).__name__


def _read(path: Path) -> dict[str, Any]:
    # PyTorch writes a checksum for each part, but does not check it.
    with zipfile.ZipFile(path) as archive:
        damaged = archive.testzip()
    if damaged is not None:
        raise ValueError(f"its part {damaged} is damaged")
    content = torch.load(path, map_location="cpu", weights_only=True)
    if content["version"] != VERSION:
        raise ValueError(
            f"it has version {content['version']}, but this program reads only version {VERSION}"
        )
    return dict(content)


def check_same_run(content: dict[str, Any], config: PretrainingConfig, corpus: str) -> None:
    """Check that a run with this text and these settings can resume from a checkpoint.

    content (dict): The result of `read_checkpoint`.
    config (PretrainingConfig): The settings of the resumed run.
    corpus (str): Checksum of the text of the resumed run.
    RAISES (ValueError): The text or a setting differs. Settings in `LOWERED` may be lower. With
        another batch size, the settings in `WITH_BATCH` may have any value.
    """
    now = comparable(config)
    # A setting that a later version has is not in the checkpoint, and is not compared.
    sizes = BiLMConfig.from_dict(content["sizes"]).to_dict().items()
    then = {f"model.{name}": value for name, value in sizes} | content["config"]
    batch, lowered, with_batch = (
        [f"training.{name}" for name in names] for names in (BATCH, LOWERED, WITH_BATCH)
    )
    has_other_batch = any(then[name] != now[name] for name in batch)
    differing = [
        f"{name} was {then[name]!r} and is {now[name]!r}"
        for name in sorted(then.keys() & now.keys())
        if then[name] != now[name]
        and name not in batch
        and not (name in lowered and now[name] < then[name])
        and not (name in with_batch and has_other_batch)
    ]
    if content["corpus"] != corpus:
        differing.append("the training text is different")
    if differing:
        raise ValueError(
            f"the run cannot be resumed: {'; '.join(differing)}. Resume with the text and settings "
            f"of the start, or start again with `overwrite=True` or another `output`."
        )


def restored_model(content: dict[str, Any]) -> LanguageModel:
    """Make a model with the sizes and vocabularies of a checkpoint, but without its weights.

    `Trainer.load_state_dict` loads the weights.
    """
    read = {name: InputVocabulary(s) for name, s in content["vocabularies"].items()}
    bilm = BiLM(BiLMConfig.from_dict(content["sizes"]), Vocabularies(**read))
    bilm.provenance = content["provenance"]
    kind = content["config"]["training.softmax"]
    width = bilm.config.projection_dim
    softmax = make_softmax(kind, n_words=len(content["words"]), width=width)
    return LanguageModel(bilm, softmax, Vocabulary(content["words"]))


def comparable(config: PretrainingConfig) -> dict[str, Any]:
    """Return the settings that must be the same in a resumed run, by dotted name."""
    values: dict[str, Any] = {"lang": config.lang, "seed": config.seed}
    for name in ("noise", "case_noise"):
        values[f"corpus.{name}"] = getattr(config.corpus, name)
    training = config.training.model_dump()
    advanced = training.pop("advanced").items()
    training.update({f"advanced.{name}": value for name, value in advanced})
    kept = {name: value for name, value in training.items() if name not in FREE}
    sections = {
        "pretraining": config.pretraining.model_dump(),
        "vocabulary": config.vocabulary.model_dump(),
        "training": kept,
    }
    for section, settings in sections.items():
        values.update({f"{section}.{name}": value for name, value in settings.items()})
    if config.pretraining.init is None:
        values |= {f"model.{name}": value for name, value in config.bilm.to_dict().items()}
    return values
