"""Settings of a pretraining run, in spaCy's config format."""

import configparser
import difflib
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, Union

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from thinc.api import Config, ConfigValidationError

from ..files import check_regular, user_path
from ..files.input_files import read_text
from ..model.config import BiLMConfig


def _name(given: Any) -> Any:
    """Return a name as a string. spaCy parses overrides such as `--paths.train 1848` as numbers."""
    return str(given) if isinstance(given, int) and not isinstance(given, bool) else given


Name = Annotated[str, BeforeValidator(_name)]
Inputs = Union[Name, list[Name]]
SECTIONS = (
    "paths", "system", "nlp", "model", "pretraining", "corpus", "vocabulary", "training"
)  # fmt: skip


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class InitSettings(_Section):
    """Section `[pretraining]`: the initial model.

    `init` is a model in any format that `spacy elmo info` can read. If it has a vocabulary and a
    softmax, the run uses them, except with `vocabulary = "new"`. If the softmax is new, the first
    `softmax_warmup` steps train only the softmax.
    """

    init: Optional[Name] = None
    vocabulary: Literal["keep", "new"] = "keep"
    softmax_warmup: int = Field(default=500, ge=0)


class CorpusSettings(_Section):
    """Section `[corpus]`: the text.

    * `train` and `dev`: files, folders or globs, or corpora of `spacy elmo corpus`.
    * `format`: "sentences" means one sentence per line, with spaces between tokens. "text" means
      running text, which spaCy splits.
    * `on_error`: "skip" reports and omits text that cannot be read; "refuse" ends the run.
    * `noise`: share of the words of three or more letters that the model reads misspelled. It still
      predicts the correct words.
    * `case_noise`: share of the streams of each window whose words the model reads in lower case
      (three of four) or in capitals. It still predicts the words as they are in the text.
    """

    train: Inputs
    dev: Inputs
    format: Literal["sentences", "text"] = "sentences"
    on_error: Literal["skip", "refuse"] = "skip"
    noise: float = Field(default=0.0, ge=0.0, lt=1.0)
    case_noise: float = Field(default=0.0, ge=0.0, lt=1.0)


class VocabularySettings(_Section):
    """Section `[vocabulary]`: the words that the softmax predicts. All other words are `<UNK>`.

    A model that reads characters has vectors for all words. A model that reads words has vectors
    only for the words that it predicts. Their number is also limited by `n_words` of `[model]`.
    """

    min_count: int = Field(default=2, ge=1)
    max_size: int = Field(default=30_000, ge=4)


class AdvancedSettings(_Section):
    """Section `[training.advanced]`: settings for special cases, each with its case.

    * `accumulate_gradient`: if a batch does not fit into the memory. The model reads this number of
      parts of the batch one after another, with the same result, except for dropout masks and
      rounding.
    * `n_negatives`: if the vocabulary is very small or very large. Number of words that the sampled
      softmax draws in a step.
    * `muon_learn_rate`: if you tune Muon. Highest rate of Muon's matrices.
    * `decay_share`: if you may extend the run later. The learning rate falls only in this share of
      the run, at its end.
    * `state_reset`: if you compare with bilm-tf, where it is 0. Share of streams that start a
      window from a zero state. Some of our models that never saw a zero state in training never
      recovered from it.
    """

    accumulate_gradient: int = Field(default=1, ge=1)
    n_negatives: int = Field(default=4096, ge=1)
    muon_learn_rate: float = Field(default=0.02, gt=0.0)
    decay_share: float = Field(default=1.0, gt=0.0, le=1.0)
    state_reset: float = Field(default=0.1, ge=0.0, le=1.0)


class TrainingSettings(_Section):
    """Section `[training]`: batches, optimizer, limits and evaluations.

    * `batch_size`: number of streams of text in a batch, the sum over all processes. A step reads
      a window of `unroll_steps` tokens of each stream. Without dropout, the number of processes
      changes the result only by rounding. Each process draws its own dropout masks.
    * `directions`: with "same", forward and backward model read the same text. With "different",
      they read different text, as in bilm-tf.
    * `share_embedding_softmax`: a model of words has one table for the words that it reads and for
      the words that it predicts, as with bilm-tf's option of the same name.
    * `optimizer`: with "muon", Muon trains the matrices of LSTMs, projections and highways, and
      Adam the other weights. `learn_rate` is the highest rate of the run. `weight_decay` is for the
      biLM's weights with AdamW, and for the matrices with Muon. A softmax has none.
    * `decay`: how the learning rate falls. "inverse_sqrt" falls from the end of the warm-up.
    * Limits (`max_...`): the first limit reached ends the run. 0 means no limit.
    * `patience`: number of evaluations without a better perplexity that end the run. 0: no limit.
    * `eval_tokens`: number of held-out tokens that each evaluation reads. 0: all.
    * `keep`: number of checkpoints to keep.
    * `advanced`: settings whose defaults fit nearly every run.
    """

    batch_size: int = Field(default=128, ge=1)
    unroll_steps: int = Field(default=20, ge=1)
    directions: Literal["same", "different"] = "same"
    softmax: Literal["sampled", "full", "adaptive"] = "sampled"
    share_embedding_softmax: bool = False
    dropout: float = Field(default=0.1, ge=0.0, lt=1.0)
    precision: Literal["float32", "bf16", "auto"] = "auto"
    optimizer: Literal["adam", "adamw", "adagrad", "muon"] = "adam"
    learn_rate: float = Field(default=0.002, gt=0.0)
    weight_decay: float = Field(default=0.01, ge=0.0)
    warmup_steps: int = Field(default=100, ge=0)
    decay: Literal["cosine", "linear", "inverse_sqrt", "none"] = "cosine"
    grad_clip: float = Field(default=10.0, gt=0.0)
    max_epochs: int = Field(default=10, ge=0)
    max_steps: int = Field(default=0, ge=0)
    max_tokens: int = Field(default=0, ge=0)
    max_minutes: float = Field(default=0.0, ge=0.0)
    patience: int = Field(default=0, ge=0)
    eval_frequency: int = Field(default=1000, ge=1)
    eval_tokens: int = Field(default=50_000, ge=0)
    checkpoint_minutes: float = Field(default=5.0, gt=0.0)
    keep: int = Field(default=2, ge=1)
    logger: Optional[dict[str, Any]] = None
    advanced: AdvancedSettings = AdvancedSettings()

    @model_validator(mode="after")
    def _has_an_end(self) -> "TrainingSettings":
        if not (self.max_epochs or self.max_steps or self.max_tokens or self.max_minutes):
            raise ValueError(
                "max_epochs, max_steps, max_tokens and max_minutes are all 0. Set one of them"
            )
        n_parts = self.advanced.accumulate_gradient
        if self.batch_size % n_parts:
            raise ValueError(
                f"batch_size ({self.batch_size}) must be a multiple of accumulate_gradient "
                f"({n_parts})"
            )
        return self


class PretrainingConfig(BaseModel):
    """Settings of a pretraining run."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    lang: str
    seed: int
    bilm: BiLMConfig
    pretraining: InitSettings = InitSettings()
    corpus: CorpusSettings
    vocabulary: VocabularySettings
    training: TrainingSettings


_KINDS: dict[str, type[_Section]] = {
    "pretraining": InitSettings,
    "corpus": CorpusSettings,
    "vocabulary": VocabularySettings,
    "training": TrainingSettings,
    "training.advanced": AdvancedSettings,
}
_NAMES: dict[str, Iterable[str]] = {
    "system": ("seed",),
    "nlp": ("lang",),
    "model": [size.name for size in fields(BiLMConfig)],
    **{section: kind.model_fields for section, kind in _KINDS.items()},
    "paths": ("train", "dev"),
}


def read_config(path: Path, overrides: Optional[dict[str, Any]] = None) -> PretrainingConfig:
    """Read the config of a pretraining run.

    path (Path): A file in spaCy's config format.
    overrides (Optional[dict]): Settings that replace settings of the file, by dotted name.
    RETURNS (PretrainingConfig): The settings. Missing settings have their defaults.
    RAISES (ValueError): A section or a setting is unknown, missing or invalid.
    """
    check_regular(user_path(path))
    overrides = overrides or {}
    try:
        text = read_text(user_path(path))
        found = Config().from_str(text, interpolate=False)
        # Overrides can contain a section that the file does not have.
        missing = {name.rpartition(".")[0] for name in overrides} - set(found)
        _check_sections(
            {**found, **dict.fromkeys(name.partition(".")[0] for name in missing)}, str(path)
        )
        if "advanced" in found.get("training", {}):
            missing.discard("training.advanced")
        text += "".join(f"\n[{section}]\n" for section in sorted(missing))
        config = Config().from_str(text, overrides=overrides)
    except (ConfigValidationError, configparser.Error) as error:
        said = " ".join(str(error).split()).removeprefix("Config validation error ")
        raise ValueError(f"{path}: {said}") from None
    return check_config(config, str(path))


def check_config(config: Config, source: str = "the config") -> PretrainingConfig:
    """Check the sections of a config, and make the settings.

    config (Config): The config, interpolated.
    source (str): Name of the config for error messages.
    RETURNS (PretrainingConfig): The settings. Missing settings have their defaults.
    RAISES (ValueError): A section or a setting is unknown, missing or invalid.
    """
    _check_sections(config, source)
    corpus = config.get("corpus", {})
    if corpus.get("format") == "text" and not config.get("nlp", {}).get("lang"):
        raise ValueError(
            f"{source}: [nlp] lang is not set, which running text needs. Set it, for example "
            f"`nlp.lang=en`."
        )
    for name in ("train", "dev"):
        if not corpus.get(name):
            raise ValueError(
                f"{source}: [corpus] {name} is not set. Give a file, a folder or a glob, "
                f"for example `paths.{name}=PATH`."
            )
    sizes = {key: value for key, value in config.get("model", {}).items() if key[0] != "@"}
    advanced = config.get("training", {}).get("advanced", {})
    for section, given in {**config, "model": sizes, "training.advanced": advanced}.items():
        for name in given if section in ("model", *_KINDS) else ():
            if name not in _NAMES[section]:
                similar = similar_setting(name)
                meant = f". Did you mean {similar}?" if similar else ""
                raise ValueError(f"{source}: [{section}] has no setting '{name}'{meant}")
    try:
        bilm = BiLMConfig.from_dict(sizes)
    except ValueError as error:
        raise ValueError(f"{source}: [model] {error}") from error
    values: dict[str, Any] = {
        "lang": config.get("nlp", {}).get("lang") or "xx",
        "seed": config.get("system", {}).get("seed", 0),
        "bilm": bilm,
        **{section: config.get(section, {}) for section in _KINDS if "." not in section},
    }
    try:
        return PretrainingConfig(**values)
    except ValidationError as error:
        problems = "; ".join(map(_problem, error.errors(include_url=False)))
        raise ValueError(f"{source}: {problems}") from None


def similar_setting(name: str) -> Optional[str]:
    """Return `section.name` of the setting with the most similar name; None if none is similar."""
    known = {name: f"{section}.{name}" for section, names in _NAMES.items() for name in names}
    found = difflib.get_close_matches(name.rpartition(".")[2], known, n=1)
    return known[found[0]] if found else None


def _check_sections(config: Iterable[str], source: str) -> None:
    unknown = sorted(set(config) - set(SECTIONS))
    if unknown:
        raise ValueError(
            f"{source}: unknown sections: {', '.join(unknown)}. A pretraining config has "
            f"{', '.join(SECTIONS)}."
        )


def _problem(found: Any) -> str:
    """Convert an error of pydantic to text that names the section, the setting and its value."""
    said = found["msg"].removeprefix("Value error, ").replace("Input should be", "it should be")
    names = list(map(str, found["loc"]))
    if names[:2] == ["training", "advanced"]:
        names[:2] = ["training.advanced"]
    section = f"[{names.pop(0)}] " if names[0] in _KINDS else ""
    return section + (f"{'.'.join(names)} = {found['input']!r}: {said}" if names else said)
