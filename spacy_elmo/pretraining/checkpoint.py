"""Checkpoints of a pretraining run, from which it resumes bit for bit.

A checkpoint has the weights, the optimizers' states, the carried LSTM states and the progress. All
else, such as the order of the text and the random draws, follows from the seed and the step.
"""

import zipfile
from pathlib import Path
from typing import Any, Optional

import torch

from ..bilm.model import BiLM
from ..bilm.softmax import make_softmax
from ..files import atomic_stream, full_disk, sweep
from ..files.terminal import msg
from ..frozen.config import BiLMConfig
from ..frozen.vocabulary import InputVocabulary, Vocabularies, Vocabulary
from ..language_model.model import LanguageModel
from ..weights.attribution import inherited
from ..weights.state_dict_file import without_advice
from .config import InitSettings, PretrainingConfig, TrainingSettings, VocabularySettings
from .stopping import LOWERED, find_not_finite
from .trainer import Trainer

VERSION = 1
PATTERN = f"checkpoint-{'[0-9]' * 10}.pt"  # other programs write checkpoint-500.pt
# Settings that may change when a run is resumed.
FREE = (
    *("max_epochs", "max_steps", "max_tokens", "max_minutes", "patience", "eval_frequency"),
    *("eval_tokens", "eval_streams", "checkpoint_minutes", "keep", "logger"),
    "accumulate_gradient",
)


def save_checkpoint(
    trainer: Trainer, folder: Path, *, corpus: str, keep: int, init: Optional[str] = None
) -> Optional[Path]:
    """Write a checkpoint, and delete all but the last ones.

    It is written under a temporary name and renamed. Every process must call this at the same
    time; the first one writes.

    trainer (Trainer): The run.
    folder (Path): The folder of checkpoints.
    corpus (str): Checksum of the training text.
    keep (int): Number of checkpoints to keep.
    init (Optional[str]): Checksum of the initial model.
    RETURNS (Optional[Path]): The file; None in the other processes.
    RAISES (OSError): It cannot be written. Earlier checkpoints are unchanged.
    RAISES (FloatingPointError): A weight is not finite.
    """
    states = trainer.state_dict()
    if not trainer.processes.is_first:
        return None
    sweep(folder)
    vocabularies = trainer.model.bilm.indexer.vocabularies._asdict()
    content = {
        "version": VERSION,
        "config": comparable(trainer.config),
        "sizes": trainer.model.bilm.config.to_dict(),
        "words": trainer.model.vocabulary.words,
        "vocabularies": {
            name: list(v.strings) for name, v in vocabularies.items() if v is not None
        },
        "corpus": corpus,
        "init": init,
        "provenance": inherited(trainer.model.bilm.provenance),
        "states": states,
    }
    step = trainer.progress.step
    path = _path_of(folder, step)
    earlier = [other.name for other in checkpoints(folder) if other != path]
    advice = f"resume with `resume=True`: {earlier[-1] if earlier else 'nothing before it'} is kept"
    with full_disk(path, advice), atomic_stream(path) as file:
        torch.save(content, file)
    set_aside(folder, step + 1)  # unreadable ones: this run resumed from an earlier one
    for old in checkpoints(folder)[:-keep]:
        old.unlink()
    return path


def checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints of a folder, oldest first."""
    return sorted(folder.glob(PATTERN))


def set_aside(folder: Path, step: int) -> None:
    """Rename checkpoints to `.damaged`, so that a run resumes from an earlier one.

    folder (Path): The folder of checkpoints.
    step (int): The first step whose checkpoint is renamed.
    """
    for path in checkpoints(folder):
        if path.name >= _path_of(folder, step).name:
            path.rename(path.with_suffix(".damaged"))


def _path_of(folder: Path, step: int) -> Path:
    return folder / f"checkpoint-{step:010d}.pt"


def read_checkpoint(folder: Path) -> Optional[dict[str, Any]]:
    """Read the newest checkpoint whose checksums are right.

    folder (Path): The folder of checkpoints.
    RETURNS (Optional[dict]): Its content; None if there is no checkpoint.
    RAISES (ValueError): There are checkpoints, but none can be read.
    """
    unusable: list[str] = []
    for path in reversed(checkpoints(folder)):
        try:
            content = _read(path)
        except Exception as error:  # broken files raise many kinds of errors
            unusable.append(f"{path} cannot be used: {without_advice(error)}")
            continue
        for reason in unusable:
            msg.warn(f"{reason}; resuming from the one before it, {path.name}")
        return content
    if unusable:
        raise ValueError(
            f"no checkpoint in {folder} can be read: {'; '.join(unusable)}. "
            f"`overwrite=True` starts again. `pretraining.init={folder.parent / 'model-last'}` and "
            f"another `output` start from the last model"
        )
    return None


def _read(path: Path) -> dict[str, Any]:
    # PyTorch writes a checksum for each part, but does not check it.
    with zipfile.ZipFile(path) as archive:
        damaged = archive.testzip()
    if damaged is not None:
        raise ValueError(f"{damaged} in it is damaged")
    content = torch.load(path, map_location="cpu", weights_only=True)
    if content["version"] != VERSION:
        raise ValueError(f"it is of version {content['version']}, this is version {VERSION}")
    states = content["states"]
    name = find_not_finite({key: states[key] for key in ("bilm", "softmax", "optimizers")})
    if name is not None:  # earlier versions wrote such checkpoints
        raise ValueError(f"its {name} is NaN or infinite")
    return dict(content)


def check_same_run(content: dict[str, Any], config: PretrainingConfig, corpus: str) -> None:
    """Check that a run can resume from a checkpoint.

    content (dict): The result of `read_checkpoint`.
    config (PretrainingConfig): The settings of the resumed run.
    corpus (str): Checksum of the text of the resumed run.
    RAISES (ValueError): Text or settings differ. The settings of `LOWERED` may be lower.
    """
    now = comparable(config)
    # Old checkpoints lack newer settings.
    defaults = {
        "corpus": config.corpus.model_copy(update={"noise": 0.0}),
        "bilm": BiLMConfig(),
        "pretraining": InitSettings(),
        "vocabulary": VocabularySettings(),
        "training": TrainingSettings(),
    }
    known = comparable(config.model_copy(update=defaults))
    then = {name: value for name, value in known.items() if name in now} | content["config"]
    if config.lang == "xx":
        # Earlier versions wrote "en" if the config had no language; the text is compared below.
        then["lang"] = "xx"
    may_be_lower = [f"training.{name}" for name in LOWERED]
    differing = [
        f"{name} was {then.get(name)!r} and is {now.get(name)!r}"
        for name in sorted(set(then) | set(now))
        if then.get(name) != now.get(name)
        and not (name in may_be_lower and name in then and now[name] < then[name])
    ]
    if content["corpus"] != corpus:
        differing.append("the training text is another one")
    if differing:
        raise ValueError(
            f"the run cannot be resumed: {'; '.join(differing)}. Resume with what it was "
            f"started with, or start again with `overwrite=True` or another `output`."
        )


def restored_model(content: dict[str, Any]) -> LanguageModel:
    """Make a model with a checkpoint's sizes and vocabulary, for `Trainer.load_state_dict`."""
    # Early versions did not write these.
    read = {name: InputVocabulary(s) for name, s in content.get("vocabularies", {}).items()}
    bilm = BiLM(BiLMConfig.from_dict(content["sizes"]), Vocabularies(**read))
    bilm.provenance = content.get("provenance", {})
    kind = content["config"]["training.softmax"]
    width = bilm.config.projection_dim
    softmax = make_softmax(kind, n_words=len(content["words"]), width=width)
    return LanguageModel(bilm, softmax, Vocabulary(content["words"]))


def comparable(config: PretrainingConfig) -> dict[str, Any]:
    """Return the settings that a resumed run must share, by dotted name."""
    values: dict[str, Any] = {"lang": config.lang, "seed": config.seed}
    values["corpus.noise"] = config.corpus.noise
    for section in ("pretraining", "vocabulary", "training"):
        for name, value in getattr(config, section).model_dump().items():
            if section != "training" or name not in FREE:
                values[f"{section}.{name}"] = value
    if config.pretraining.init is None:
        sizes = config.bilm.to_dict()
        values.update({f"model.{name}": value for name, value in sizes.items()})
    return values
