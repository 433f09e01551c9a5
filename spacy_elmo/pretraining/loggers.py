"""Adapter that lets a pretraining run use spaCy's loggers."""

import math
import sys
from collections.abc import Callable, Sequence
from typing import IO, TYPE_CHECKING, Any, Optional

import catalogue
from spacy import registry
from spacy.language import Language

from ..text.reading import blank_pipeline

if TYPE_CHECKING:
    from .config import PretrainingConfig

Info = dict[str, Any]
LogStep = Callable[[Optional[Info]], None]
Finalize = Callable[[], None]
SetUp = Callable[[Language, IO, IO], tuple[LogStep, Finalize]]

EXAMPLE = '@loggers = "spacy.ConsoleLogger.v3"'


def make_logger(
    settings: Optional[dict[str, Any]],
    config: "PretrainingConfig",
    stdout: IO = sys.stdout,
    stderr: IO = sys.stderr,
) -> tuple[LogStep, Finalize]:
    """Make a logger from spaCy's registry `loggers`.

    settings (Optional[dict]): The block `[training.logger]`, unresolved; None for no logger.
    config (PretrainingConfig): The settings of the run, for `logged_pipeline`.
    stdout (IO): Stream for its text.
    stderr (IO): Stream for its progress bars.
    RETURNS (Tuple[Callable[[Optional[dict]], None], Callable[[], None]]): Two functions. Call the
        first after every step: after an evaluation with the result of `step_info`, otherwise
        with None. Call the second at the end of the run.
    RAISES (ValueError): The logger does not exist, or its settings are wrong.
    RAISES (ImportError): The logger needs a package that is not installed.
    """
    if settings is None:
        return lambda info: None, lambda: None
    name = settings.get("@loggers")
    if not isinstance(name, str):
        raise ValueError(
            f"[training.logger] names no logger, got {settings}. Add a line like {EXAMPLE}."
        )
    try:
        set_up: SetUp = registry.resolve({"logger": settings})["logger"]
        return set_up(logged_pipeline(config), stdout, stderr)
    except (ValueError, catalogue.RegistryError) as error:
        raise ValueError(f"[training.logger] {name}: {error}") from error


def logged_pipeline(config: "PretrainingConfig") -> Language:
    """Make the pipeline that loggers of spaCy expect, with a pipe `elmo` without weights.

    `nlp.config["training"]` contains the section `[training]` and the seed. `nlp.config["elmo"]`
    contains the other sections. The only score column is `speed`, because the console logger
    multiplies all other scores by 100.

    config (PretrainingConfig): The settings of the run.
    RETURNS (Language): The pipeline.
    """
    nlp = blank_pipeline(config.lang)
    sizes = {"@architectures": "spacy-elmo.BiLM.v1", **config.bilm.to_dict()}
    nlp.add_pipe("elmo", config={"model": sizes, "weights": None, "frozen": False})
    shown, sections = nlp.config, config.model_dump(exclude={"bilm"})
    weights = {"speed": 0.0}
    shown["training"] = {**sections["training"], "seed": config.seed, "score_weights": weights}
    shown["elmo"] = {name: sections[name] for name in ("pretraining", "corpus", "vocabulary")}
    nlp.config = shown
    return nlp


def step_info(
    report: Info, checkpoints: Sequence[tuple[float, int]] = (), output_path: Optional[str] = None
) -> Info:
    """Make the dict that loggers get after an evaluation, in the format of `spacy.training.loop`.

    `score` is the negative mean perplexity, because in spaCy a higher score is better.
    `losses["elmo"]` is the sampled loss in nats, the mean over predictions since the last
    evaluation. It is not the logarithm of a perplexity.

    report (dict): The result of `Trainer.report`.
    checkpoints (Sequence[Tuple[float, int]]): Score and step of each earlier evaluation.
    output_path (Optional[str]): Folder of the last model, for loggers that store models.
    RETURNS (dict): The dict. Pass its value of "checkpoints" to the next call.
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
        },
        "losses": {"elmo": report["sampled_loss"]},
        "checkpoints": [*checkpoints, (score, step)],
        "seconds": int(report["seconds"]),
        "words": n_tokens,
    }
    return info if output_path is None else {**info, "output_path": output_path}
