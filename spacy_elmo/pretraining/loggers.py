"""spaCy's loggers in a pretraining run, and one for TensorBoard."""

import math
import sys
from collections.abc import Callable, Sequence
from typing import IO, TYPE_CHECKING, Any, Optional

import catalogue
from spacy import registry
from spacy.language import Language

if TYPE_CHECKING:
    from .config import PretrainingConfig
    from .norms import Norms

Info = dict[str, Any]
LogStep = Callable[[Optional[Info]], None]
Finalize = Callable[[], None]
SetUp = Callable[[Language, IO, IO], tuple[LogStep, Finalize]]

EXAMPLE = '@loggers = "spacy.ConsoleLogger.v3"'


def make_logger(
    settings: Optional[dict[str, Any]],
    nlp: Language,
    stdout: IO = sys.stdout,
    stderr: IO = sys.stderr,
) -> tuple[LogStep, Finalize]:
    """Make a logger of spaCy's registry `loggers`.

    settings (Optional[dict]): The block `[training.logger]`, unresolved; none for none.
    nlp (Language): What `logged_pipeline` returned.
    stdout (IO): Where it may print.
    stderr (IO): Where it may draw progress bars.
    RETURNS (Tuple[Callable[[Optional[dict]], None], Callable[[], None]]): What to
        call after every step, with None or, where there was an evaluation, with
        `step_info`; and what to call at the end of the run, however it ends.
    RAISES (ValueError): There is no such logger, or its settings are wrong.
    RAISES (ImportError): The logger needs a package that is not installed.
    """
    if settings is None:
        return lambda info: None, lambda: None
    name = settings.get("@loggers")
    if not isinstance(name, str):
        raise ValueError(
            f"[training.logger] names no logger: it needs a line like {EXAMPLE}, got {settings}"
        )
    try:
        set_up: SetUp = registry.resolve({"logger": settings})["logger"]
        return set_up(nlp, stdout, stderr)
    except (ValueError, catalogue.RegistryError) as error:
        raise ValueError(f"[training.logger] {name}: {error}") from error


def logged_pipeline(config: "PretrainingConfig") -> Language:
    """Make the pipeline that loggers are shown: the pipe `elmo`, without weights, and
    in `nlp.config["training"]` all settings of the run. Its one score column is
    `speed`: the console multiplies all others by 100, as if they were shares.

    config (PretrainingConfig): The settings of the run.
    RETURNS (Language): The pipeline.
    """
    import spacy

    nlp = spacy.blank(config.lang)
    sizes = {"@architectures": "spacy-elmo.BiLM.v1", **config.bilm.to_dict()}
    nlp.add_pipe("elmo", config={"model": sizes, "weights": None, "frozen": False})
    sections = {
        name: getattr(config, name).model_dump() for name in ("pretraining", "corpus", "vocabulary")
    }
    training = config.training.model_dump()
    shown = nlp.config
    shown["training"] = {**training, "seed": config.seed, "score_weights": {"speed": 0.0}}
    shown["elmo"] = sections
    nlp.config = shown
    return nlp


def step_info(
    report: dict[str, Any],
    checkpoints: Sequence[tuple[float, int]] = (),
    output_path: Optional[str] = None,
    norms: "Optional[Norms]" = None,
) -> Info:
    """Say what spaCy's loggers are told after an evaluation (`spacy.training.loop`).

    `score` is minus the mean perplexity, for spaCy's is the better the higher. The
    loss, `losses["elmo"]`, is the mean sampled loss of a prediction since the last
    evaluation, in nats; it is no logarithm of a perplexity.

    report (dict): What `Trainer.report` returned.
    checkpoints (Sequence[Tuple[float, int]]): Score and step of the evaluations before.
    output_path (Optional[str]): The last model, for loggers that store models.
    norms (Optional[Dict[str, Dict[str, float]]]): Of the last step, by weight.
    RETURNS (dict): The information; its `checkpoints` are those of the next call.
    """
    perplexity = report["perplexity"]
    mean = perplexity["mean"]
    score = -math.inf if mean is None else -float(mean)
    step, n_tokens = int(report["step"]), int(report["tokens"])
    info = {
        "epoch": int(report["epoch"]),
        "step": step,
        "score": score,
        "other_scores": {
            "speed": report["tokens_per_second"],
            "tokens_per_second": report["tokens_per_second"],
            "perplexity": perplexity["mean"],
            "perplexity_forward": perplexity["forward"],
            "perplexity_backward": perplexity["backward"],
            "unknown": perplexity["unknown"],
            "learn_rate": report["learn_rate"],
            "gradient_norm": report.get("gradient_norm"),
            **(norms or {}),
        },
        "losses": {"elmo": report["sampled_loss"]},
        "checkpoints": [*checkpoints, (score, step)],
        "seconds": int(report["seconds"]),
        "words": n_tokens,
    }
    return info if output_path is None else {**info, "output_path": output_path}


@registry.loggers("spacy-elmo.TensorBoard.v1")
def make_tensorboard_logger(log_dir: str) -> SetUp:
    """Log to TensorBoard: for `spacy elmo pretrain`, and for `spacy train`, too.

    log_dir (str): Folder for the event files; `tensorboard --logdir` reads it.
    RETURNS (Callable): A logger as spaCy's are.
    RAISES (ImportError): TensorBoard is not installed.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ImportError(
            f"spacy-elmo.TensorBoard.v1 needs TensorBoard: "
            f"pip install 'spacy-elmo[tensorboard]' ({error})"
        ) from error

    def set_up(
        nlp: Language, stdout: IO = sys.stdout, stderr: IO = sys.stderr
    ) -> tuple[LogStep, Finalize]:
        writer = SummaryWriter(log_dir)
        writer.add_text("config", f"```\n{nlp.config.to_str()}\n```")

        def log_step(info: Optional[Info]) -> None:
            if info is None:
                return
            for name, value in _scalars(info).items():
                writer.add_scalar(name, value, info["step"])
            writer.flush()

        return log_step, writer.close

    return set_up


def _scalars(info: Info) -> dict[str, float]:
    """The numbers by tag; of scores that are tables there are norms by weight, others (per
    label) are left out, and so are missing ones."""
    values = {"score": info["score"], "words": info["words"], "epoch": info["epoch"]}
    for kind in ("gradient_norms", "update_norms"):
        norms = (info["other_scores"] or {}).get(kind, {})
        values.update({f"{kind}/{name}": value for name, value in norms.items()})
    for group, given in (("loss", info["losses"]), ("scores", info["other_scores"])):
        values.update({f"{group}/{name}": value for name, value in (given or {}).items()})
    return {name: float(value) for name, value in values.items() if isinstance(value, (int, float))}
