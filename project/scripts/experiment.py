"""One run of an experiment: train, evaluate on dev and test, write one JSON file."""

import hashlib
import io
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional

import spacy
import srsly
import typer
from spacy.language import Language
from spacy.training.initialize import init_nlp
from spacy.training.loop import train
from thinc.api import Config
from tqdm import tqdm
from wasabi import msg

from spacy_elmo.cli.errors import no_traceback
from spacy_elmo.cli.mix import learned_mixes
from spacy_elmo.output import write_whole
from spacy_elmo.weights import read_weights

from evaluate import evaluate
from experiment_config import LIMITS, PLACES, LanguageModel, Limits, build_config
from experiment_runs import SCORES, Run, check_run

LOGGER = "spacy-elmo-project.progress.v1"


class TimeIsUp(Exception):
    """The run has had its minutes."""


class Progress:
    """A logger that shows a bar, keeps the number of epochs, and ends the training in time."""

    def __init__(self, name: str, max_steps: int, max_minutes: float):
        self.bar = tqdm(total=max_steps or None, desc=name, unit="step")
        self.epochs = 0
        self.max_minutes = max_minutes
        self.start = time.perf_counter()

    @property
    def seconds(self) -> float:
        """RETURNS (float): Since the start, initialisation included."""
        return time.perf_counter() - self.start

    def make_logger(self) -> Callable:
        """RETURNS (Callable): What spaCy's training loop calls."""
        return lambda nlp, stdout, stderr: (self.log_step, self.bar.close)

    def log_step(self, info: Optional[dict[str, Any]]) -> None:
        """Note a step; `info` is there after an evaluation."""
        self.bar.update()
        if info is not None:
            self.epochs = info["epoch"]
            best = max(score for score, _ in info["checkpoints"])
            self.bar.set_postfix(dev=f"{info['score']:.3f}", best=f"{best:.3f}")
        if self.max_minutes and self.seconds > 60 * self.max_minutes:
            raise TimeIsUp


def describe_model(path: str) -> LanguageModel:
    """Read what a run must know of a language model."""
    bilm = read_weights(path)
    digest = hashlib.sha256()
    for name, values in sorted(bilm.state_dict().items()):
        digest.update(name.encode())
        digest.update(values.contiguous().numpy().tobytes())
    return LanguageModel(
        weights=path,
        sizes={"@architectures": "spacy-elmo.BiLM.v1", **bilm.config.to_dict()},
        n_layers=bilm.config.n_layers + 1,
        width=bilm.config.width,
        checksum=digest.hexdigest(),
        perplexity=bilm.provenance.get("perplexity", {}).get("mean"),
    )


def settings_of(
    config: Config, run: Run, corpus: Path, model: Optional[LanguageModel], limits: Limits
) -> str:
    """RETURNS (str): A checksum of all that the result depends on: a run with the same one need
    not be repeated, wherever corpora and language model lie."""
    copied = config.copy()
    copied["corpora"]["train"]["path"] = copied["paths"]["dev"] = None
    if model is not None:
        copied["components"]["elmo"]["weights"] = model.checksum
    digest = hashlib.sha256(copied.to_str(interpolate=False).encode())
    digest.update(f"{limits.max_minutes:g}".encode())
    for split in ("train", "dev", "test"):
        digest.update((corpus / f"{run.data}-{split}.spacy").read_bytes())
    return digest.hexdigest()


def train_and_evaluate(config: Config, run: Run, corpus: Path, limits: Limits) -> dict[str, Any]:
    """RETURNS (dict): Scores, time and mixes of the best model on the dev set."""
    progress = Progress(run.name, limits.max_steps, limits.max_minutes)
    spacy.registry.loggers(LOGGER, func=progress.make_logger)
    config["training"]["logger"] = {"@loggers": LOGGER}
    nlp = init_nlp(config)
    with tempfile.TemporaryDirectory() as folder:
        try:
            train(nlp, Path(folder), stdout=io.StringIO())
        except TimeIsUp:
            pass
        seconds = progress.seconds
        # The language model was frozen: it, and what is known of the dev set, stay.
        nlp.from_disk(Path(folder) / "model-best", exclude=["elmo"])
    return {
        "scores": scores_of(nlp, corpus / f"{run.data}-test.spacy"),
        "dev_scores": scores_of(nlp, corpus / f"{run.data}-dev.spacy"),
        "seconds": seconds,
        "epochs": progress.epochs,
        "mixes": mixes_of(nlp),
    }


def scores_of(nlp: Language, path: Path) -> dict[str, float]:
    """RETURNS (dict): All scores that are numbers."""
    scores = evaluate(nlp, path)
    return {name: score for name, score in scores.items() if isinstance(score, (int, float))}


def mixes_of(nlp: Language) -> dict[str, list[dict[str, Any]]]:
    """RETURNS (dict): The mixes that each component learned."""
    mixes = defaultdict(list)
    for row in learned_mixes(nlp):
        mixes[row["component"]].append({"weights": row["weights"], "gamma": row["gamma"]})
    return dict(mixes)


def find_done(folder: Path, settings: str) -> Optional[dict[str, Any]]:
    """RETURNS (Optional[dict]): The result of a run with these settings, for any experiment."""
    for path in sorted(folder.glob("*.json")):
        result = srsly.read_json(path)
        if result.get("settings") == settings:
            return result
    return None


def run_once(
    run: Run, corpus: Path, weights: str, folder: Path, limits: Limits, *, force: bool
) -> dict[str, Any]:
    """Do a run, unless it has been done, and write its file.

    RETURNS (dict): The result.
    RAISES (ValueError): Corpus or language model cannot be read.
    """
    for split in ("train", "dev", "test"):
        path = corpus / f"{run.data}-{split}.spacy"
        if not path.is_file():
            raise ValueError(f"{path} is missing: convert the corpora first")
    model = describe_model(weights) if PLACES[run.variant] else None
    config = build_config(run, corpus, model, limits)
    settings = settings_of(config, run, corpus, model, limits)
    result = None if force else find_done(folder, settings)
    if result is None:
        result = train_and_evaluate(config, run, corpus, limits)
    result = {
        **result,
        "experiment": run.experiment,
        "data": run.data,
        "variant": run.variant,
        "seed": run.seed,
        "share": run.share,
        "model": model and {"checksum": model.checksum, "perplexity": model.perplexity},
        "settings": settings,
    }
    write_whole(folder / f"{run.name}.json", srsly.json_dumps(result, indent=2) + "\n")
    return result


def main(
    experiment: str = typer.Argument(..., help="Which table or figure it is for"),
    data: str = typer.Argument(..., help="wnut17, uner_ewt, sst5, trec or ud_ewt"),
    variant: str = typer.Argument(..., help="The component's tok2vec, such as tok2vec or input"),
    seed: int = typer.Option(0, help="Of weights, order and choice of training sentences"),
    share: float = typer.Option(1.0, min=0.0, max=1.0, help="Of the training sentences"),
    corpus: Path = typer.Option(Path("corpus"), help="Folder of DATA-train.spacy and so on"),
    model: str = typer.Option("pretraining/model-best", help="Language model"),
    runs: Path = typer.Option(Path("metrics/runs"), help="Folder for the results"),
    max_steps: Optional[int] = typer.Option(None, min=0, help="0 is no limit"),
    max_minutes: Optional[float] = typer.Option(None, min=0.0, help="0 is no limit"),
    patience: Optional[int] = typer.Option(None, min=0, help="Steps without a better dev score"),
    eval_frequency: Optional[int] = typer.Option(None, min=1, help="Steps between evaluations"),
    force: bool = typer.Option(False, "--force", help="Repeat a run that has been done"),
) -> None:
    """Train once and write RUNS/EXPERIMENT-DATA-VARIANT-SHARE-SEED.json.

    A run whose file is there, with the same settings, data and language model, is not repeated.
    """
    given = {
        "max_steps": max_steps,
        "max_minutes": max_minutes,
        "patience": patience,
        "eval_frequency": eval_frequency,
    }
    with no_traceback():
        run = Run(experiment, data, variant, seed, share)
        check_run(run)
        changed = {name: value for name, value in given.items() if value is not None}
        limits = replace(LIMITS[run.task], **changed)
        result = run_once(run, corpus, model, runs, limits, force=force)
    msg.good(f"{runs / run.name}.json: {headline(run, result)}")


def headline(run: Run, result: dict[str, Any]) -> str:
    """RETURNS (str): The scores that matter, on test and dev."""
    names = SCORES[run.task]
    return ", ".join(
        f"{name} {100 * result['scores'][name]:.2f} (dev {100 * result['dev_scores'][name]:.2f})"
        for name in names
    )


if __name__ == "__main__":
    typer.run(main)
