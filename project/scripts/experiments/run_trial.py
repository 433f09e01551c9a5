"""This script runs one trial of an experiment: it trains, evaluates on dev and test data, and
writes the figures down as a run."""

import hashlib
import io
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Optional

import spacy
import typer
from spacy.language import Language
from spacy.training.initialize import init_nlp
from spacy.training.loop import train
from thinc.api import Config, require_gpu, use_ops
from tqdm import tqdm
from wasabi import msg

from spacy_elmo.analysis.robustness import measure_robustness
from spacy_elmo.cli.errors import no_traceback
from spacy_elmo.cli.evaluate import read_gold_examples
from spacy_elmo.pipeline.elmo import Elmo
from spacy_elmo.pipeline.mixes import learned_mixes
from spacy_elmo.weights import read_weights
from spacy_elmo.weights.named import BUNDLED, NAMED

from .evaluate import evaluate
from .heads import MAX_MINUTES
from .runs import Run, read_runs, write_runs
from .transformer import PACKAGE, READER, find_folder, read_transformer
from .trial_config import PLACES, STATIC, Inputs, LanguageModel, build_config
from .trials import (
    LANGUAGE_MODELS,
    NAMED_MODELS,
    ROBUSTNESS,
    SCORES,
    TRANSFORMER,
    Trial,
    check_trial,
)

LOGGER = "spacy-elmo-project.progress.v1"
SPLITS = ("train", "dev", "test")
RATES = (0.0, 0.05, 0.1, 0.2, 0.3)  # Shares of the words that are damaged.
VECTORS = Path("vocab") / "vectors"  # of a pipeline's folder


class TimeIsUp(Exception):
    """The run has had its minutes."""


class Progress:
    """A logger that shows a bar, keeps the number of epochs and the history of dev scores, and
    ends the training in time."""

    def __init__(self, name: str, max_steps: int, max_minutes: float):
        self.bar = tqdm(total=max_steps or None, desc=name, unit="step")
        self.epochs = 0
        self.history: list[tuple[int, float]] = []
        self.max_minutes = max_minutes
        self.start = time.perf_counter()
        self.start_of_work = time.process_time()

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
            self.history = [(step, round(score, 5)) for score, step in info["checkpoints"]]
            best = max(score for score, _ in info["checkpoints"])
            self.bar.set_postfix(dev=f"{info['score']:.3f}", best=f"{best:.3f}")
        if self.max_minutes and time.process_time() - self.start_of_work > 60 * self.max_minutes:
            raise TimeIsUp


@lru_cache(maxsize=1)
def describe_model(path: str) -> LanguageModel:
    """Read what a config must know of a language model.

    RAISES (ValueError): There is none, or it cannot be read.
    """
    is_transformer = path == TRANSFORMER
    bilm = read_transformer() if is_transformer else read_weights(path)
    return LanguageModel(
        weights={"@weights_readers": READER} if is_transformer else path,
        sizes={"@architectures": "spacy-elmo.BiLM.v1", **bilm.config.to_dict()},
        n_layers=bilm.config.n_layers + 1,
        width=bilm.config.width,
        checksum=bilm.checksum(),
        perplexity=bilm.provenance.get("perplexity", {}).get("mean"),
    )


@dataclass
class Job:
    """A trial with all that its result depends on.

    max_minutes (float): Most time of the processor for the training; 0 is no limit.
    corpus (Dict[str, Path]): The data by "train", "dev" and "test".
    folder (Path): Of the results.
    settings (str): A checksum of config, data and language model, wherever they lie: what has
        the same one need not be done again, whatever experiment it is for.
    """

    trial: Trial
    max_minutes: float
    inputs: Inputs
    config: Config
    corpus: dict[str, Path]
    folder: Path
    settings: str

    def find_result(self) -> Optional[dict[str, Any]]:
        """RETURNS (Optional[dict]): The run, if this or an equal trial has been done."""
        needs_curves = self.trial.experiment in ROBUSTNESS
        equal = [
            run
            for run in read_runs(self.folder)
            if run.settings == self.settings and (run.robustness or not needs_curves)
        ]
        equal.sort(key=lambda run: run.name != self.trial.name)  # its own first
        return equal[0].model_dump(exclude_unset=True) if equal else None

    def write(self, result: dict[str, Any]) -> None:
        """Write a line of the experiment's file."""
        model = self.inputs.model
        shown = {n: getattr(model, n) for n in ("checksum", "perplexity")} if model else {}
        own = {**asdict(self.trial), "model": shown, "settings": self.settings}
        write_runs([Run.model_validate({**result, **own})], self.folder)


@dataclass(frozen=True)
class Places:
    """Where trials find things, each looked at only by those that need it.

    corpus (Path): Folder of DATA-train.spacy and so on.
    model (str): The language model.
    models (Path): Folder of `NAME/model-best`, the language models of `trials.LANGUAGE_MODELS`.
    vectors (Path): Static vectors: a pipeline's folder.
    tok2vec (Path): What `spacy pretrain` wrote.
    runs (Path): Folder for the results.
    """

    corpus: Path = Path("corpus")
    model: str = "pretraining/model-best"
    models: Path = Path("pretraining/compared")
    vectors: Path = Path("corpus/static_vectors")
    tok2vec: Path = Path("pretraining/tok2vec/model0.bin")
    runs: Path = Path("metrics/runs")

    def own_inputs(self, trial: Trial) -> dict[str, Path]:
        """RETURNS (Dict[str, Path]): What a trial needs beside its corpus and `model`: some of
        "weights", "vectors" and "tok2vec"."""
        found = {
            "weights": (self.models / trial.variant / "model-best", LANGUAGE_MODELS),
            "vectors": (self.vectors, STATIC),
            "tok2vec": (self.tok2vec, ("pretrained",)),
        }
        own = {name: path for name, (path, of) in found.items() if trial.variant in of}
        named = (*NAMED_MODELS, TRANSFORMER)
        return {"weights": Path(trial.variant)} if trial.variant in named else own

    def missing(self, trial: Trial) -> list[Path]:
        """RETURNS (List[Path]): What of these has not been made."""
        if trial.variant == TRANSFORMER:
            return [] if find_folder() else [Path(PACKAGE)]
        found = self.own_inputs(trial).values()
        return [path for path in found if str(path) not in (BUNDLED, *NAMED) and not path.exists()]

    def inputs(self, trial: Trial) -> Inputs:
        """RETURNS (Inputs): What a trial begins with.
        RAISES (ValueError): It is missing, or cannot be read."""
        for path in self.missing(trial):
            raise ValueError(f"{path} is missing: make it first")
        own = self.own_inputs(trial)
        weights = str(own.pop("weights", self.model))
        return Inputs(model=describe_model(weights) if PLACES[trial.variant] else None, **own)


def prepare(trial: Trial, places: Places, limits: dict[str, Any]) -> Job:
    """Build a trial's config.

    trial (Trial): The trial.
    places (Places): Where everything is.
    limits (dict): Limits other than the trial's own: as of `build_config`, and "max_minutes".
    RAISES (ValueError): The trial is impossible; corpus or language model cannot be read.
    """
    check_trial(trial)
    files = {split: places.corpus / f"{trial.data}-{split}.spacy" for split in SPLITS}
    for path in files.values():
        if not path.is_file():
            raise ValueError(f"{path} is missing: convert the corpora first")
    steps = dict(limits)
    max_minutes = steps.pop("max_minutes", MAX_MINUTES)
    inputs = places.inputs(trial)
    config = build_config(trial, files["train"], files["dev"], inputs, steps)
    settings = checksum(config, files, inputs, max_minutes)
    return Job(trial, max_minutes, inputs, config, files, places.runs, settings)


def checksum(config: Config, files: dict[str, Path], inputs: Inputs, max_minutes: float) -> str:
    """RETURNS (str): Of all that a result depends on."""
    placeless = config.copy()
    placeless["corpora"]["train"]["path"] = placeless["paths"]["dev"] = None
    placeless["paths"]["vectors"] = placeless["paths"]["init_tok2vec"] = None
    if inputs.model is not None:
        elmo = placeless["components"]["elmo"]
        elmo["weights"] = inputs.model.checksum
        if elmo.get("align") is None:  # runs from before there was this setting are equal
            elmo.pop("align", None)
    digest = hashlib.sha256(placeless.to_str(interpolate=False).encode())
    digest.update(f"{max_minutes:g}".encode())
    for split in SPLITS:
        digest.update(files[split].read_bytes())
    for path in filter(None, (inputs.vectors and inputs.vectors / VECTORS, inputs.tok2vec)):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def use_processor(gpu_id: int) -> AbstractContextManager[None]:
    """Compute on a GPU or on the processor.

    gpu_id (int): Number of the GPU; -1 is the processor.
    RAISES (ValueError): There is no such GPU.
    """
    if gpu_id >= 0:
        require_gpu(gpu_id)
        return nullcontext()
    # BLIS takes its slowest kernels on AMD's processors since Zen 3.
    return use_ops("numpy", use_blis=False)


def do(job: Job) -> dict[str, Any]:
    """Train and evaluate.

    RETURNS (dict): Scores, time and mixes of what was best on the dev set.
    """
    training = job.config["training"]
    progress = Progress(job.trial.name, training["max_steps"], job.max_minutes)
    spacy.registry.loggers(LOGGER, func=progress.make_logger)
    training["logger"] = {"@loggers": LOGGER}
    nlp = init_nlp(job.config)
    with tempfile.TemporaryDirectory() as folder:
        with suppress(TimeIsUp):
            train(nlp, Path(folder), stdout=io.StringIO())
        seconds = progress.seconds
        nlp.from_disk(Path(folder) / "model-best", exclude=frozen_pipes(nlp))
    test, dev = (evaluate(nlp, job.corpus[split]) for split in ("test", "dev"))
    counts = {"counts": test["coref_counts"]} if "coref_counts" in test else {}
    if job.trial.experiment in ROBUSTNESS:
        counts["robustness"] = measure_curves(nlp, job)
    return {
        **counts,
        "scores": numbers_of(test),
        "dev_scores": numbers_of(dev),
        "seconds": seconds,
        "epochs": progress.epochs,
        "history": progress.history,
        "mixes": mixes_of(nlp),
    }


def measure_curves(nlp: Language, job: Job) -> list[dict[str, Any]]:
    """Measure the score that counts on the test data, by kind and share of damaged words."""
    kinds = ("keyboard", "ocr", *(["misspellings"] if nlp.lang == "en" else []))
    examples = read_gold_examples(nlp, job.corpus["test"])
    score = SCORES[job.trial.task][0]
    return [
        {**{name: found[name] for name in ("damage", "rate")}, "score": found["scores"][score]}
        for found in measure_robustness(nlp, examples, kinds, RATES, job.trial.seed)
    ]


def frozen_pipes(nlp: Language) -> list[str]:
    """RETURNS (List[str]): The language model's, where training has not changed it: it stays,
    with what it has computed of the dev set."""
    return [name for name, pipe in nlp.pipeline if isinstance(pipe, Elmo) and pipe.frozen]


def numbers_of(scores: dict[str, Any]) -> dict[str, float]:
    """RETURNS (dict): All scores that are numbers."""
    return {name: score for name, score in scores.items() if isinstance(score, (int, float))}


def mixes_of(nlp: Language) -> dict[str, list[dict[str, Any]]]:
    """RETURNS (dict): The mixes that each component learned, that at the input first."""
    mixes = defaultdict(list)
    for row in reversed(learned_mixes(nlp)):  # which has that at the output first
        mixes[row["component"]].append({"weights": row["weights"], "gamma": row["gamma"]})
    return dict(mixes)


def main(
    experiment: str = typer.Argument(..., help="Which table or figure it is for"),
    data: str = typer.Argument(..., help="A corpus, such as wnut17; trials.py lists them"),
    variant: str = typer.Argument(..., help="The component's tok2vec, such as tok2vec or input"),
    seed: int = typer.Option(0, help="Of weights, order and choice of training sentences"),
    share: float = typer.Option(1.0, min=0.0, max=1.0, help="Of the training sentences"),
    corpus: Path = typer.Option(Places.corpus, help="Folder of DATA-train.spacy and so on"),
    model: str = typer.Option(Places.model, help="Language model"),
    models: Path = typer.Option(Places.models, help="Folder of language models to compare"),
    vectors: Path = typer.Option(Places.vectors, help="Pipeline with static vectors"),
    tok2vec: Path = typer.Option(Places.tok2vec, help="What spacy pretrain wrote"),
    runs: Path = typer.Option(Places.runs, help="Folder for the results"),
    max_steps: Optional[int] = typer.Option(None, min=0, help="0 is no limit"),
    max_minutes: Optional[float] = typer.Option(None, min=0.0, help="Processor time; 0: no limit"),
    patience: Optional[int] = typer.Option(None, min=0, help="Steps without a better dev score"),
    eval_frequency: Optional[int] = typer.Option(None, min=1, help="Steps between evaluations"),
    force: bool = typer.Option(False, "--force", help="Repeat a run that has been done"),
    gpu_id: int = typer.Option(-1, help="Number of the GPU; -1 is the processor"),
) -> None:
    """Train once and write a line of RUNS/EXPERIMENT.jsonl.

    What is there already, with the same settings, data and language model, is not repeated.
    """
    given = {
        "max_steps": max_steps,
        "max_minutes": max_minutes,
        "patience": patience,
        "eval_frequency": eval_frequency,
    }
    with no_traceback():
        trial = Trial(experiment, data, variant, seed, share)
        limits = {name: value for name, value in given.items() if value is not None}
        job = prepare(trial, Places(corpus, model, models, vectors, tok2vec, runs), limits)
        result = None if force else job.find_result()
        if result is None:
            with use_processor(gpu_id):
                result = do(job)
        job.write(result)
    msg.good(f"{trial.name}: {headline(trial, result)}")


def headline(trial: Trial, result: dict[str, Any]) -> str:
    """RETURNS (str): The scores that matter, on test and dev."""
    names = SCORES[trial.task]
    return ", ".join(
        f"{name} {100 * result['scores'][name]:.2f} (dev {100 * result['dev_scores'][name]:.2f})"
        for name in names
    )


if __name__ == "__main__":
    typer.run(main)
