"""Runner of one trial: train, evaluate on dev and test data, and store the scores as a run.

A trial is not repeated if its result exists. A checksum of the config, the data, the language model
and the time limit identifies the result (`Job.settings`), so experiments share equal trials.
"""

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
from .heads import LIMITS, MAX_MINUTES
from .runs import Run, read_runs, write_runs
from .transformer import READER, find_weights, read_transformer
from .trial_config import PLACES, STATIC, Inputs, LanguageModel, build_config
from .trials import (
    LANGUAGE_MODELS,
    NAMED_MODELS,
    ROBUSTNESS,
    SCORES,
    TRANSFORMERS,
    Trial,
    check_trial,
)

LOGGER = "spacy-elmo-project.progress.v1"
SPLITS = ("train", "dev", "test")
RATES = (0.0, 0.05, 0.1, 0.2, 0.3)  # Shares of the words that are damaged.
VECTORS = Path("vocab") / "vectors"  # Path in the folder of a pipeline.


class TimeIsUp(Exception):
    """Raised when the time limit of a training is reached."""


class Progress:
    """Training logger with a progress bar and a time limit.

    It keeps the number of epochs and the dev scores (`history`: step and score).

    name (str): Name to show beside the bar.
    max_steps (int): Number of steps; 0 if there is no limit.
    max_minutes (float): Maximum processor time in minutes; 0 if there is no limit.
    """

    def __init__(self, name: str, max_steps: int, max_minutes: float):
        self.bar = tqdm(total=max_steps or None, desc=name, unit="step")
        self.epochs = 0
        self.history: list[tuple[int, float]] = []
        self.max_minutes = max_minutes
        self.start = time.perf_counter()
        self.start_of_work = time.process_time()

    @property
    def seconds(self) -> float:
        """Seconds since the start, including initialization."""
        return time.perf_counter() - self.start

    def make_logger(self) -> Callable:
        """Return the logger in the form that spaCy's registry needs."""
        return lambda nlp, stdout, stderr: (self.log_step, self.bar.close)

    def log_step(self, info: Optional[dict[str, Any]]) -> None:
        """Count a step.

        info (Optional[dict]): Scores and progress after an evaluation; otherwise None.
        RAISES (TimeIsUp): The time limit is reached.
        """
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
    """Read the properties of a language model that a config needs.

    RAISES (ValueError): The weights are missing or cannot be read.
    """
    variant = {str(find_weights(name)): name for name in TRANSFORMERS}.get(path)
    bilm = read_transformer(variant) if variant else read_weights(path)
    return LanguageModel(
        weights={"@weights_readers": READER, "variant": variant} if variant else path,
        sizes={"@architectures": "spacy-elmo.BiLM.v1", **bilm.config.to_dict()},
        n_layers=bilm.config.n_layers + 1,
        width=bilm.config.width,
        checksum=bilm.checksum(),
        perplexity=bilm.provenance.get("perplexity", {}).get("mean"),
    )


@dataclass
class Job:
    """Trial with everything that its result depends on.

    trial (Trial): The trial.
    max_minutes (float): Maximum processor time of the training; 0 means no limit.
    inputs (Inputs): The language model and pretrained vectors.
    config (Config): The training config.
    corpus (Dict[str, Path]): The data, by "train", "dev" and "test".
    folder (Path): Folder of the results.
    settings (str): Checksum of config, data and language model, without their paths. Trials with
        the same checksum have the same result, also in different experiments.
    """

    trial: Trial
    max_minutes: float
    inputs: Inputs
    config: Config
    corpus: dict[str, Path]
    folder: Path
    settings: str

    def find_result(self) -> Optional[dict[str, Any]]:
        """Return the run of this trial or of an equal trial; None if there is none."""
        needs_curves = self.trial.experiment in ROBUSTNESS
        equal = [
            run
            for run in read_runs(self.folder)
            if run.settings == self.settings and (run.robustness or not needs_curves)
        ]
        equal.sort(key=lambda run: run.name != self.trial.name)  # Prefer the trial's own run.
        return equal[0].model_dump(exclude_unset=True) if equal else None

    def write(self, result: dict[str, Any]) -> None:
        """Write the result as a run of this trial to the file of its experiment."""
        model = self.inputs.model
        shown = {n: getattr(model, n) for n in ("checksum", "perplexity")} if model else {}
        own = {**asdict(self.trial), "model": shown, "settings": self.settings}
        write_runs([Run.model_validate({**result, **own})], self.folder)


@dataclass(frozen=True)
class Places:
    """Paths of the inputs and the results. A trial needs only some of them.

    corpus (Path): Folder with DATA-train.spacy, DATA-dev.spacy and DATA-test.spacy.
    model (str): The language model.
    models (Path): Folder with `NAME/model-best` for each name in `trials.LANGUAGE_MODELS`.
    vectors (Path): Folder of a pipeline with static vectors.
    tok2vec (Path): Weights written by `spacy pretrain`.
    runs (Path): Folder of the results.
    """

    corpus: Path = Path("corpus")
    model: str = "pretraining/model-best"
    models: Path = Path("pretraining/compared")
    vectors: Path = Path("corpus/static_vectors")
    tok2vec: Path = Path("pretraining/tok2vec/model0.bin")
    runs: Path = Path("metrics/runs")

    def own_inputs(self, trial: Trial) -> dict[str, Path]:
        """Return the inputs that a trial needs in addition to its corpus.

        RETURNS (Dict[str, Path]): Some of "weights" (instead of `model`), "vectors" and "tok2vec".
        """
        found = {
            "weights": (self.models / trial.variant / "model-best", LANGUAGE_MODELS),
            "vectors": (self.vectors, STATIC),
            "tok2vec": (self.tok2vec, ("pretrained",)),
        }
        own = {name: path for name, (path, of) in found.items() if trial.variant in of}
        if trial.variant in NAMED_MODELS:
            own["weights"] = NAMED_MODELS[trial.variant]
        elif trial.variant in TRANSFORMERS:
            own["weights"] = find_weights(trial.variant)
        return own

    def missing(self, trial: Trial) -> list[Path]:
        """Return the paths of `own_inputs` that do not exist."""
        found = self.own_inputs(trial).values()
        return [path for path in found if str(path) not in (BUNDLED, *NAMED) and not path.exists()]

    def inputs(self, trial: Trial) -> Inputs:
        """Return the inputs of a trial.

        RAISES (ValueError): An input is missing, or cannot be read.
        """
        for path in self.missing(trial):
            raise ValueError(f"{path} is missing. Create it first")
        own = self.own_inputs(trial)
        weights = str(own.pop("weights", self.model))
        return Inputs(model=describe_model(weights) if PLACES[trial.variant] else None, **own)


def prepare(trial: Trial, places: Places, limits: dict[str, Any]) -> Job:
    """Read the inputs of a trial, and build its config.

    trial (Trial): The trial.
    places (Places): Paths of the inputs.
    limits (dict): Limits that replace the task's limits: those of `build_config`, "max_minutes".
    RETURNS (Job): The trial, ready to run.
    RAISES (ValueError): The trial is not valid, or its corpus or language model cannot be read.
    """
    check_trial(trial)
    files = {split: places.corpus / f"{trial.data}-{split}.spacy" for split in SPLITS}
    for path in files.values():
        if not path.is_file():
            raise ValueError(f"{path} is missing. Convert the corpora first")
    steps = {**LIMITS.get(trial.task, {}), **limits}
    max_minutes = steps.pop("max_minutes", MAX_MINUTES)
    inputs = places.inputs(trial)
    config = build_config(trial, files["train"], files["dev"], inputs, steps)
    settings = checksum(config, files, inputs, max_minutes)
    return Job(trial, max_minutes, inputs, config, files, places.runs, settings)


def checksum(config: Config, files: dict[str, Path], inputs: Inputs, max_minutes: float) -> str:
    """Compute the checksum of everything that the result of a trial depends on.

    Paths are removed from the config; the content of the files is included instead.
    """
    placeless = config.copy()
    placeless["corpora"]["train"]["path"] = placeless["paths"]["dev"] = None
    placeless["paths"]["vectors"] = placeless["paths"]["init_tok2vec"] = None
    if inputs.model is not None:
        elmo = placeless["components"]["elmo"]
        elmo["weights"] = inputs.model.checksum
        if elmo.get("align") is None:  # Runs older than this setting keep their checksum.
            elmo.pop("align", None)
    digest = hashlib.sha256(placeless.to_str(interpolate=False).encode())
    digest.update(f"{max_minutes:g}".encode())
    for split in SPLITS:
        digest.update(files[split].read_bytes())
    for path in filter(None, (inputs.vectors and inputs.vectors / VECTORS, inputs.tok2vec)):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def use_processor(gpu_id: int) -> AbstractContextManager[None]:
    """Select a GPU, or return a context manager that selects the CPU.

    gpu_id (int): Number of the GPU; -1 for the CPU.
    RAISES (ValueError): There is no such GPU.
    """
    if gpu_id >= 0:
        require_gpu(gpu_id)
        return nullcontext()
    # On AMD processors since Zen 3, BLIS selects its slowest kernels.
    return use_ops("numpy", use_blis=False)


def do(job: Job) -> dict[str, Any]:
    """Train and evaluate a trial.

    RETURNS (dict): Fields of `Run` for the best model on the dev set: scores, time, mixes.
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
    result = {"counts": test["coref_counts"]} if "coref_counts" in test else {}
    if job.trial.experiment in ROBUSTNESS:
        result["robustness"] = measure_curves(nlp, job)
    return {
        **result,
        "scores": numbers_of(test),
        "dev_scores": numbers_of(dev),
        "seconds": seconds,
        "epochs": progress.epochs,
        "history": progress.history,
        "mixes": mixes_of(nlp),
    }


def measure_curves(nlp: Language, job: Job) -> list[dict[str, Any]]:
    """Measure the main score on the test data, for each kind and share of damaged words."""
    kinds = ("keyboard", "ocr", *(["misspellings"] if nlp.lang == "en" else []))
    examples = read_gold_examples(nlp, job.corpus["test"])
    score = SCORES[job.trial.task][0]
    return [
        {**{name: found[name] for name in ("damage", "rate")}, "score": found["scores"][score]}
        for found in measure_robustness(nlp, examples, kinds, RATES, job.trial.seed)
    ]


def frozen_pipes(nlp: Language) -> list[str]:
    """Return the names of the frozen `elmo` pipes.

    Training does not change them, so they need not be loaded again. Their cache of the dev set
    then stays, too.
    """
    return [name for name, pipe in nlp.pipeline if isinstance(pipe, Elmo) and pipe.frozen]


def numbers_of(scores: dict[str, Any]) -> dict[str, float]:
    """Return the scores that are numbers."""
    return {name: score for name, score in scores.items() if isinstance(score, (int, float))}


def mixes_of(nlp: Language) -> dict[str, list[dict[str, Any]]]:
    """Return the learned mixes, by component; the mix at the input comes first."""
    mixes = defaultdict(list)
    for row in reversed(learned_mixes(nlp)):  # Reverse: its first mix is at the output.
        mixes[row["component"]].append({"weights": row["weights"], "gamma": row["gamma"]})
    return dict(mixes)


def main(
    experiment: str = typer.Argument(..., help="Experiment, such as ner or mix"),
    data: str = typer.Argument(..., help="Corpus, such as wnut17; see trials.py"),
    variant: str = typer.Argument(..., help="Variant of the encoder, such as tok2vec or input"),
    seed: int = typer.Option(0, help="Random seed of the training"),
    share: float = typer.Option(1.0, min=0.0, max=1.0, help="Share of the training sentences"),
    corpus: Path = typer.Option(Places.corpus, help="Folder with DATA-train.spacy ..."),
    model: str = typer.Option(Places.model, help="Language model"),
    models: Path = typer.Option(Places.models, help="Folder with language models to compare"),
    vectors: Path = typer.Option(Places.vectors, help="Pipeline with static vectors"),
    tok2vec: Path = typer.Option(Places.tok2vec, help="Output of spacy pretrain (model0.bin)"),
    runs: Path = typer.Option(Places.runs, help="Output folder of the results"),
    max_steps: Optional[int] = typer.Option(None, min=0, help="Maximum steps; 0: no limit"),
    max_minutes: Optional[float] = typer.Option(
        None, min=0.0, help="Processor minutes; 0: no limit"
    ),
    patience: Optional[int] = typer.Option(
        None, min=0, help="Stop after these steps without a better dev score"
    ),
    eval_frequency: Optional[int] = typer.Option(None, min=1, help="Steps between evaluations"),
    force: bool = typer.Option(False, "--force", help="Repeat the trial if it has a result"),
    gpu_id: int = typer.Option(-1, help="GPU to use; -1 for the CPU"),
) -> None:
    """Run a trial, and write its scores to RUNS/EXPERIMENT.jsonl.

    If there is a result with the same settings, data and language model, it is used.
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
    """Return a line with the main scores on test and dev data."""
    names = SCORES[trial.task]
    return ", ".join(
        f"{name} {100 * result['scores'][name]:.2f} (dev {100 * result['dev_scores'][name]:.2f})"
        for name in names
    )


if __name__ == "__main__":
    typer.run(main)
