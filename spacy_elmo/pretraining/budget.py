"""Rules of thumb that choose the settings of a pretraining run from its budget and its text.

A model that is too large for the time reads too little text. A model that is too large for the text
memorizes it. So we choose the largest sizes in `LADDER` that fit both the budget and the text. Work
is counted in core-minutes, so that one ladder works for CPUs and GPUs. The other settings follow
from the sizes, the number of streams and the expected number of steps (`choose`).

Speeds are estimates. `init-pretraining` replaces them with a measurement if the budget is for this
machine. Invariant: more time or more text never leads to smaller sizes.
"""

import re
from typing import Any, NamedTuple, Optional

from ..model.config import BiLMConfig, Filters
from .config import AdvancedSettings, InitSettings, TrainingSettings, VocabularySettings

EXAMPLES = '"2 cores, 60 minutes", "1 GPU, 1 day", "the paper"'
_BUDGET = re.compile(
    r"(?P<number>\d+)\s*(?P<machine>cores?|cpus?|gpus?)\s*[,;]?\s*"
    r"(?P<time>\d+(\.\d+)?)\s*(?P<unit>minutes?|mins?|m|hours?|h|days?|d)"
)
_MINUTES = {"m": 1.0, "h": 60.0, "d": 24 * 60.0}

# Estimated tokens per second: one core with the small sizes in bf16, and one GPU with the original
# sizes. Small sizes are not faster than the limit, because the LSTM steps on a GPU are sequential.
CORE_SPEED = 3_000.0
GPU_SPEED = 250_000.0
GPU_SPEED_LIMIT = 500_000.0
# The original sizes have 32 times the LSTM weights of the small ones.
GPU_IN_CORES = 32 * GPU_SPEED / CORE_SPEED
MAX_CORES = 8  # A batch of 512 streams has too little work for more cores.
FEW_TOKENS = 1_000_000
MAX_EPOCHS = 20
EVALUATIONS = 10
# Between two evaluations, a run reads at least this multiple of `eval_tokens`. Otherwise much of a
# short run would be evaluation.
TOKENS_PER_EVAL_TOKEN = 4
MIN_EVAL_TOKENS = 5_000
MIN_WARMUP_STEPS = 50  # Adam estimates the size of gradients during these steps.
UNROLL_STEPS = 20


class Budget(NamedTuple):
    """Budget of a run: processors and time.

    n_cores (int): Number of CPU cores; 0 if there are GPUs.
    n_gpus (int): Number of GPUs.
    minutes (float): Time in minutes; 0 for the budget "the paper".
    """

    n_cores: int = 0
    n_gpus: int = 0
    minutes: float = 0.0

    @property
    def work(self) -> float:
        """Budget in core-minutes. At most 8 cores count. A GPU is `GPU_IN_CORES` cores."""
        return (min(self.n_cores, MAX_CORES) + self.n_gpus * GPU_IN_CORES) * self.minutes

    def speed(self, sizes: "Sizes") -> float:
        """Estimate how many tokens per second a model with these sizes reads in training."""
        per_core = CORE_SPEED * SMALL.lstm_weights / sizes.lstm_weights
        per_gpu = min(GPU_SPEED_LIMIT, GPU_IN_CORES * per_core)
        return min(self.n_cores, MAX_CORES) * per_core + self.n_gpus * per_gpu


class Sizes(NamedTuple):
    """Sizes of a model, the time and text that it needs, and the settings that fit these sizes.

    model (BiLMConfig): Sizes of the model.
    work (float): Minimum budget in core-minutes.
    n_tokens (int): Minimum number of tokens of text. With fewer, the model memorizes the text.
    n_negatives (int): Number of words that the sampled softmax draws in a step.
    learn_rate (float): Adam's learning rate; lower for wider layers.
    max_size (int): Maximum number of words in the vocabulary.
    """

    model: BiLMConfig
    work: float
    n_tokens: int
    n_negatives: int
    learn_rate: float
    max_size: int

    @property
    def lstm_weights(self) -> int:
        """Number of LSTM weights (two layers, two directions). They decide the time of a step."""
        return 36 * self.model.lstm_dim * self.model.projection_dim


def _model(lstm_dim: int, projection_dim: int, n: int, n_highway: int = 1) -> BiLMConfig:
    """Return the sizes of a model with the first `n` of the paper's filters."""
    return BiLMConfig(
        lstm_dim=lstm_dim, projection_dim=projection_dim, filters=_FILTERS[:n], n_highway=n_highway
    )


_FILTERS: Filters = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
# Arguments: model, work (1440 minutes are a day), n_tokens, n_negatives, learn_rate, max_size.
SMALL = Sizes(_model(512, 128, 5), 20, FEW_TOKENS, 4096, 0.003, 30_000)
ORIGINAL = Sizes(_model(4096, 512, 7, 2), 1440 * GPU_IN_CORES, 20_000_000, 8192, 0.001, 800_000)
LADDER = (
    Sizes(_model(256, 64, 4), 0, 0, 1024, 0.003, 30_000),
    SMALL,
    Sizes(_model(1024, 256, 5), 2 * 8 * 60, 2_000_000, 4096, 0.002, 50_000),
    Sizes(_model(2048, 256, 6), 60 * GPU_IN_CORES, 5_000_000, 8192, 0.001, 200_000),
    ORIGINAL,
)


class Choice(NamedTuple):
    """Chosen settings, and the reasons for them.

    model (BiLMConfig): The sizes.
    vocabulary (VocabularySettings): Section `[vocabulary]`.
    training (TrainingSettings): Section `[training]`.
    reasons (List[str]): Reasons to show to the user, one line each.
    epochs (float): Number of times that the budget is enough to read the text; 0 if not limited.
    """

    model: BiLMConfig
    vocabulary: VocabularySettings
    training: TrainingSettings
    reasons: list[str]
    epochs: float = 0.0

    def sections(self) -> dict[str, dict[str, Any]]:
        """Return all settings as sections of a config, by the name of the section."""
        return {
            "model": {"@architectures": "spacy-elmo.BiLM.v1", **self.model.to_dict()},
            "pretraining": InitSettings().model_dump(),
            "vocabulary": self.vocabulary.model_dump(),
            "training": self.training.model_dump(),
        }


def parse_budget(text: str) -> Budget:
    """Parse a budget: a number of cores or GPUs and a time, or "the paper".

    text (str): For example "2 cores, 60 minutes".
    RETURNS (Budget): The budget.
    RAISES (ValueError): The text is not a budget.
    """
    words = " ".join(text.lower().split())
    if words in ("paper", "the paper"):
        return Budget()
    found = _BUDGET.fullmatch(words)
    if found is None:
        raise ValueError(f"'{text}' is not a budget. Write it like {EXAMPLES}")
    number = int(found["number"])
    minutes = float(found["time"]) * _MINUTES[found["unit"][0]]
    if not number or not minutes:
        raise ValueError(f"the budget '{text}' contains a 0. Write it like {EXAMPLES}")
    if found["machine"].startswith("gpu"):
        return Budget(n_gpus=number, minutes=minutes)
    return Budget(n_cores=number, minutes=minutes)


def choose(budget: Budget, n_tokens: int, speed: Optional[float] = None) -> Choice:
    """Choose the settings of a run.

    * Sizes: the largest in `LADDER` for which both the budget and the text are enough. 20 million
      tokens are enough for the original sizes: ELMoForManyLangs (Che et al. 2018) used that many.
    * Streams: 64 per core and 512 per GPU; at least 64 and at most 512 in total. With more streams,
      matrix products are faster, but each stream reads less consecutive text.
    * Optimizer: Adam. The learning rate falls as a cosine to 0 at the end of the budget. Adam's
      first steps are too large, so a tenth of the steps are warm-up: at least 50 and at most 500
      steps, and at most half of a run.
    * Limits: the time of the budget. `max_epochs` is 20 if this time is enough for more epochs, or
      if the text has less than a million tokens.
    * Dropout: 0.1. If no sentence is read twice, 0: the model cannot memorize anything.
    * Vocabulary: words that occur at least twice. If the text has less than a million tokens: all
      words. If it has 100 million tokens or more: words that occur at least three times. `max_size`
      is 1/100 of the number of tokens, because the weights of rarer words would learn nothing. It
      is at least 30,000, and at most the `max_size` in `LADDER`.
    * Evaluations: about ten, estimated from the speed. Between two evaluations, a run reads at
      least four times `eval_tokens`, which are at least 5,000 and at most 50,000.

    The budget "the paper" selects the settings of Peters et al. (2018) and bilm-tf.

    budget (Budget): Processors and time of the run.
    n_tokens (int): Estimated number of tokens of the text.
    speed (Optional[float]): Tokens per second with the chosen sizes, if measured.
    RETURNS (Choice): The settings and the reasons.
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
    step_tokens = batch_size * UNROLL_STEPS
    min_frequency = -(-TOKENS_PER_EVAL_TOKEN * MIN_EVAL_TOKENS // step_tokens)
    eval_frequency = max(min_frequency, _rounded(n_steps / EVALUATIONS))
    eval_tokens = eval_frequency * step_tokens // TOKENS_PER_EVAL_TOKEN
    training = TrainingSettings(
        batch_size=batch_size,
        unroll_steps=UNROLL_STEPS,
        advanced=AdvancedSettings(n_negatives=sizes.n_negatives),
        dropout=0.0 if epochs < 1 else 0.1,
        learn_rate=sizes.learn_rate,
        warmup_steps=max(1, min(500, max(n_steps // 10, MIN_WARMUP_STEPS), n_steps // 2)),
        max_epochs=MAX_EPOCHS if is_limited else 0,
        max_minutes=budget.minutes,
        eval_frequency=eval_frequency,
        eval_tokens=min(TrainingSettings().eval_tokens, eval_tokens),
    )
    reasons = [
        f"lstm_dim {sizes.model.lstm_dim}, projection_dim {sizes.model.projection_dim}: the "
        f"largest sizes for this time and this text.",
        f"eval_frequency: about {EVALUATIONS} evaluations, at {'an estimated ' * (speed is None)}"
        f"{_rounded(per_second):,} tokens/s{' (measured in ten steps)' * (speed is not None)}.",
        f"In this time, the run can read {_times(epochs)}"
        + (f". max_epochs stops it after {MAX_EPOCHS} times." if is_limited else "."),
    ]
    vocabulary = VocabularySettings(
        min_count=1 if n_tokens < FEW_TOKENS else 2 if n_tokens < 100_000_000 else 3,
        max_size=max(SMALL.max_size, min(sizes.max_size, n_tokens // 100)),
    )
    return Choice(sizes.model, vocabulary, training, reasons, epochs)


def choose_sizes(budget: Budget, n_tokens: int) -> Sizes:
    """Return the largest sizes in `LADDER` for which both the budget and the text are enough."""
    # Without the factor, rounding could make 24 hours less than a day.
    work = budget.work * (1 + 1e-9)
    return [sizes for sizes in LADDER if work >= sizes.work and n_tokens >= sizes.n_tokens][-1]


def _paper() -> Choice:
    training = TrainingSettings(
        batch_size=3 * 128,
        unroll_steps=UNROLL_STEPS,
        directions="different",
        advanced=AdvancedSettings(state_reset=0.0, n_negatives=8192),
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
        "for large machines. batch_size is the sum over all processes: the paper used 3 times 128.",
    ]
    vocabulary = VocabularySettings(min_count=3, max_size=ORIGINAL.max_size)
    return Choice(ORIGINAL.model, vocabulary, training, reasons)


def _times(epochs: float) -> str:
    """Describe how much of a text a run can read."""
    return f"{epochs:.2%} of the text" if epochs < 1 else f"the text {epochs:,.1f} times"


def _rounded(value: float) -> int:
    """Round down to one significant digit, at least 1."""
    whole = max(1, int(value))
    unit: int = 10 ** (len(str(whole)) - 1)
    return whole // unit * unit
