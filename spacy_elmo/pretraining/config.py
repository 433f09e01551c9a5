"""The settings of a pretraining run, in spaCy's config format."""

from pathlib import Path
from typing import Any, Literal, Optional, Union

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from thinc.api import Config

from ..bilm.config import BiLMConfig

Inputs = Union[str, list[str]]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CorpusSettings(_Section):
    """`[corpus]`: `train` and `dev` are files, folders or globs; `format` says
    whether a line of a text file is a sentence of tokens separated by spaces,
    or running text for spaCy to split."""

    train: Inputs
    dev: Inputs
    format: Literal["sentences", "text"] = "sentences"


class VocabularySettings(_Section):
    """`[vocabulary]`: the words that the softmax predicts; the others are `<UNK>`.
    They have vectors all the same: the model reads characters."""

    min_count: int = Field(default=2, ge=1)
    max_size: int = Field(default=30_000, ge=4)


class TrainingSettings(_Section):
    """`[training]`: `batch_size` streams of text side by side, in windows of
    `unroll_steps` tokens. `state_reset` is the share of the streams that start a
    window from zeros: bilm-tf has none, and its models have never seen a zero
    state again; some of ours, trained so, never recovered from one. A limit of 0
    is none; the first one reached ends the run."""

    batch_size: int = Field(default=128, ge=1)
    unroll_steps: int = Field(default=20, ge=1)
    n_negatives: int = Field(default=4096, ge=1)
    dropout: float = Field(default=0.1, ge=0.0, lt=1.0)
    state_reset: float = Field(default=0.1, ge=0.0, le=1.0)
    optimizer: Literal["adam", "adagrad"] = "adam"
    learn_rate: float = Field(default=0.002, gt=0.0)
    warmup_steps: int = Field(default=100, ge=0)
    decay: Literal["linear", "none"] = "linear"
    grad_clip: float = Field(default=10.0, gt=0.0)
    max_epochs: int = Field(default=10, ge=0)
    max_steps: int = Field(default=0, ge=0)
    max_minutes: float = Field(default=0.0, ge=0.0)
    eval_frequency: int = Field(default=1000, ge=1)
    eval_streams: int = Field(default=16, ge=1)

    @model_validator(mode="after")
    def _has_an_end(self) -> "TrainingSettings":
        if not (self.max_epochs or self.max_steps or self.max_minutes):
            raise ValueError("one of max_epochs, max_steps and max_minutes must be above 0")
        return self


class PretrainingConfig(BaseModel):
    """All settings of a run."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    lang: str
    seed: int
    bilm: BiLMConfig
    corpus: CorpusSettings
    vocabulary: VocabularySettings
    training: TrainingSettings


def read_config(path: Path, overrides: Optional[dict[str, Any]] = None) -> PretrainingConfig:
    """Read the config of a pretraining run.

    path (Path): A file in spaCy's config format.
    overrides (Optional[dict]): Settings that take precedence, by dotted name.
    RETURNS (PretrainingConfig): The settings, defaults filled in.
    RAISES (ValueError): A section or a setting is unknown, missing or impossible.
    """
    config = Config().from_disk(path, interpolate=True, overrides=overrides or {})
    return check_config(config, str(path))


def check_config(config: Config, source: str = "the config") -> PretrainingConfig:
    """Check the sections of a config.

    config (Config): The config, interpolated.
    source (str): Its name in error messages.
    RETURNS (PretrainingConfig): The settings, defaults filled in.
    RAISES (ValueError): As `read_config`.
    """
    known = {"paths", "system", "nlp", "model", "corpus", "vocabulary", "training"}
    unknown = sorted(set(config) - known)
    if unknown:
        raise ValueError(
            f"{source}: unknown sections: {', '.join(unknown)}. A pretraining config has "
            f"{', '.join(sorted(known))}."
        )
    corpus = config.get("corpus", {})
    for name in ("train", "dev"):
        if not corpus.get(name):
            raise ValueError(
                f"{source}: [corpus] {name} is not set: give a file, a folder or a glob, "
                f"for example with --paths.{name} PATH"
            )
    sizes = {key: value for key, value in config.get("model", {}).items() if key[0] != "@"}
    try:
        return PretrainingConfig(
            lang=config.get("nlp", {}).get("lang", "en"),
            seed=config.get("system", {}).get("seed", 0),
            bilm=BiLMConfig.from_dict(sizes),
            corpus=CorpusSettings(**corpus),
            vocabulary=VocabularySettings(**config.get("vocabulary", {})),
            training=TrainingSettings(**config.get("training", {})),
        )
    except (ValidationError, ValueError) as error:
        raise ValueError(f"{source}: {error}") from error
