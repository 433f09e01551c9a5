"""Rules of thumb that choose a run's settings for a budget and a text."""

import re
from dataclasses import dataclass
from typing import Any, Optional

from ..frozen.config import BiLMConfig, Filters
from .config import InitSettings, TrainingSettings, VocabularySettings

EXAMPLES = '"2 cores, 60 minutes", "1 GPU, 1 day", "the paper"'
_BUDGET = re.compile(
    r"(?P<number>\d+)\s*(?P<machine>cores?|cpus?|gpus?)\s*[,;]?\s*"
    r"(?P<time>\d+(\.\d+)?)\s*(?P<unit>minutes?|mins?|m|hours?|h|days?|d)"
)
_MINUTES = {"m": 1.0, "h": 60.0, "d": 24 * 60.0}
_PAPER = re.compile(r"(the )?paper")

# Estimated tokens a second: of a core with the small sizes in bf16, of a GPU with the original
# sizes. The limit is there because a GPU's LSTM steps wait for each other, however small they are.
CORE_SPEED = 3_000.0
GPU_SPEED = 250_000.0
GPU_SPEED_LIMIT = 500_000.0
# The original sizes have 32 times the LSTM weights of the small ones.
GPU_IN_CORES = 32 * GPU_SPEED / CORE_SPEED
MAX_CORES = 8  # a batch of 512 streams has too little work for more
FEW_TOKENS = 1_000_000
MAX_EPOCHS = 20
EVALUATIONS = 10
UNROLL_STEPS = 20


@dataclass(frozen=True)
class Budget:
    """Cost of a run.

    n_cores (int): CPU cores; 0 if there are GPUs.
    n_gpus (int): GPUs.
    minutes (float): Time; 0 for the paper's epochs.
    """

    n_cores: int = 0
    n_gpus: int = 0
    minutes: float = 0.0

    @property
    def work(self) -> float:
        """Work in core-minutes. A GPU counts as `GPU_IN_CORES` cores."""
        return (min(self.n_cores, MAX_CORES) + self.n_gpus * GPU_IN_CORES) * self.minutes

    def speed(self, sizes: "Sizes") -> float:
        """Estimate the tokens per second with these sizes."""
        per_core = CORE_SPEED * SMALL.lstm_weights / sizes.lstm_weights
        per_gpu = min(GPU_SPEED_LIMIT, GPU_IN_CORES * per_core)
        return min(self.n_cores, MAX_CORES) * per_core + self.n_gpus * per_gpu


@dataclass(frozen=True)
class Sizes:
    """Size of a model, and the settings that go with it.

    lstm_dim (int): As in `BiLMConfig`; so are the next three.
    work (float): Least core-minutes for it.
    n_tokens (int): Least tokens of text for it. With fewer it would memorize the text.
    n_negatives (int): As in `TrainingSettings`.
    learn_rate (float): Adam's learning rate, lower for wider layers.
    max_size (int): Most words of the vocabulary.
    """

    lstm_dim: int
    projection_dim: int
    filters: Filters
    n_highway: int
    work: float
    n_tokens: int
    n_negatives: int
    learn_rate: float
    max_size: int

    @property
    def lstm_weights(self) -> int:
        """Number of weights in two layers of both LSTMs, which take most of the time."""
        return 36 * self.lstm_dim * self.projection_dim


_FILTERS: Filters = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
# lstm_dim, projection_dim, filters, n_highway; work, n_tokens; n_negatives, learn_rate, max_size
SMALL = Sizes(512, 128, _FILTERS[:5], 1, 20, FEW_TOKENS, 4096, 0.003, 30_000)
ORIGINAL = Sizes(4096, 512, _FILTERS, 2, 24 * 60 * GPU_IN_CORES, 20_000_000, 8192, 0.001, 800_000)
LADDER = (
    Sizes(256, 64, _FILTERS[:4], 1, 0, 0, 1024, 0.003, 30_000),
    SMALL,
    Sizes(1024, 256, _FILTERS[:5], 1, 2 * 8 * 60, 2_000_000, 4096, 0.002, 50_000),
    Sizes(2048, 256, _FILTERS[:6], 1, 60 * GPU_IN_CORES, 5_000_000, 8192, 0.001, 200_000),
    ORIGINAL,
)


@dataclass(frozen=True)
class Choice:
    """Settings, and the reasons for them.

    model (BiLMConfig): The sizes.
    vocabulary (VocabularySettings): Section `[vocabulary]`.
    training (TrainingSettings): Section `[training]`.
    reasons (List[str]): Reasons to show to the user, a line each.
    """

    model: BiLMConfig
    vocabulary: VocabularySettings
    training: TrainingSettings
    reasons: list[str]

    def sections(self) -> dict[str, dict[str, Any]]:
        """Return the sections of a config, with every setting."""
        return {
            "model": {"@architectures": "spacy-elmo.BiLM.v1", **self.model.to_dict()},
            "pretraining": InitSettings().model_dump(),
            "vocabulary": self.vocabulary.model_dump(),
            "training": self.training.model_dump(),
        }


def parse_budget(text: str) -> Budget:
    """Read a budget: a number of cores or GPUs and a time, or "the paper".

    text (str): For example "2 cores, 60 minutes".
    RETURNS (Budget): The budget.
    RAISES (ValueError): The text is not a budget.
    """
    words = " ".join(text.lower().split())
    if _PAPER.fullmatch(words):
        return Budget()
    found = _BUDGET.fullmatch(words)
    if found is None:
        raise ValueError(f"cannot read the budget '{text}'. Budgets are like {EXAMPLES}")
    number = int(found["number"])
    minutes = float(found["time"]) * _MINUTES[found["unit"][0]]
    if not number or not minutes:
        raise ValueError(f"the budget '{text}' has a 0. Budgets are like {EXAMPLES}")
    if found["machine"].startswith("gpu"):
        return Budget(n_gpus=number, minutes=minutes)
    return Budget(n_cores=number, minutes=minutes)


def choose(budget: Budget, n_tokens: int, speed: Optional[float] = None) -> Choice:
    """Choose the settings of a run.

    * Sizes: the largest of `LADDER` that both the budget and the text have enough
      for. 256/64 under 20 core-minutes (10 minutes of 2 cores) or a million tokens;
      512/128, the project's small model; 1024/256 from 16 core-hours and 2 million
      tokens; 2048/256 from a GPU-hour and 5 million; 4096/512, the original, from a
      GPU-day and 20 million, on which ELMoForManyLangs (Che et al. 2018) trained it.
      A model that is too large for its time reads too little text. A model that is too
      large for its text memorizes it.
    * Streams: 64 a core and 512 a GPU, 64 to 512 in all. More streams make matrix products
      faster, but each stream reads less of the text in a row.
    * Optimizer: Adam with a cosine to zero at the end of the budget. 500 steps of warm-up,
      fewer in short runs, because Adam's first steps are too large.
    * Limits: the time; and 20 epochs if the text would be read more often, or has less than
      a million tokens.
    * Dropout: 0.1, or none if no sentence is read twice and nothing can be memorized.
    * Vocabulary: words seen twice; all words of a small text; words seen three times in more
      than 100 million tokens. At least a hundred tokens for each word, or its row learns
      nothing.
    * Evaluations: about ten, given the speed.

    The budget "the paper" selects the settings of Peters et al. (2018) and bilm-tf.

    budget (Budget): Cost of the run.
    n_tokens (int): Estimated tokens of the text.
    speed (Optional[float]): Tokens a second with the chosen sizes, if it was measured.
    RETURNS (Choice): The settings.
    """
    if not budget.minutes:
        return _paper()
    sizes = choose_sizes(budget, n_tokens)
    batch_size = max(64, min(512, 64 * budget.n_cores + 512 * budget.n_gpus))
    per_second = budget.speed(sizes) if speed is None else speed
    readable = per_second * budget.minutes * 60
    epochs = readable / max(1, n_tokens)
    is_limited = n_tokens < FEW_TOKENS or epochs > MAX_EPOCHS
    if is_limited:
        readable = min(readable, float(MAX_EPOCHS * n_tokens))
    n_steps = max(1, int(readable / (batch_size * UNROLL_STEPS)))
    training = TrainingSettings(
        batch_size=batch_size,
        unroll_steps=UNROLL_STEPS,
        n_negatives=sizes.n_negatives,
        dropout=0.0 if epochs < 1 else 0.1,
        learn_rate=sizes.learn_rate,
        warmup_steps=max(1, min(500, n_steps // 10)),
        max_epochs=MAX_EPOCHS if is_limited else 0,
        max_minutes=budget.minutes,
        eval_frequency=_rounded(n_steps / EVALUATIONS),
    )
    reasons = [
        f"lstm_dim {sizes.lstm_dim}, projection_dim {sizes.projection_dim}: the largest sizes "
        f"that time and text are enough for.",
        f"eval_frequency: about {EVALUATIONS} evaluations, at {'an estimated ' * (speed is None)}"
        f"{_rounded(per_second):,} tokens/s{' that ten steps took' * (speed is not None)}.",
        f"The text would be read {epochs:,.1f} times in the time"
        + (f"; max_epochs ends it after {MAX_EPOCHS}." if is_limited else "."),
    ]
    return Choice(_model(sizes), _vocabulary(sizes, n_tokens), training, reasons)


def choose_sizes(budget: Budget, n_tokens: int) -> Sizes:
    """Return the largest sizes for which budget and text suffice."""
    work = budget.work * (1 + 1e-9)  # so that a GPU-day in hours is not less than one in days
    return [sizes for sizes in LADDER if work >= sizes.work and n_tokens >= sizes.n_tokens][-1]


def _model(sizes: Sizes) -> BiLMConfig:
    return BiLMConfig(
        lstm_dim=sizes.lstm_dim,
        projection_dim=sizes.projection_dim,
        filters=sizes.filters,
        n_highway=sizes.n_highway,
    )


def _vocabulary(sizes: Sizes, n_tokens: int) -> VocabularySettings:
    min_count = 1 if n_tokens < FEW_TOKENS else 2 if n_tokens < 100_000_000 else 3
    max_size = max(SMALL.max_size, min(sizes.max_size, n_tokens // 100))
    return VocabularySettings(min_count=min_count, max_size=max_size)


def _paper() -> Choice:
    training = TrainingSettings(
        batch_size=3 * 128,
        unroll_steps=UNROLL_STEPS,
        directions="different",
        state_reset=0.0,
        n_negatives=8192,
        dropout=0.1,
        precision="float32",
        optimizer="adagrad",
        learn_rate=0.2,
        warmup_steps=0,
        decay="none",
        max_epochs=10,
        eval_frequency=10_000,
    )
    reasons = [
        "The sizes and settings of Peters et al. (2018) and bilm-tf: 93.6 million weights,",
        "for big machines. batch_size is that of all processes: 3 of 128 streams there.",
    ]
    vocabulary = VocabularySettings(min_count=3, max_size=ORIGINAL.max_size)
    return Choice(_model(ORIGINAL), vocabulary, training, reasons)


def _rounded(value: float) -> int:
    """Round to one digit, and to at least 1."""
    whole = max(1, int(value))
    unit: int = 10 ** (len(str(whole)) - 1)
    return whole // unit * unit
