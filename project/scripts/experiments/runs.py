"""Storage of runs: trained or probed systems and their scores.

A folder contains one file per experiment, `EXPERIMENT.jsonl`, with one line per run.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, Optional

from filelock import FileLock
from pydantic import BaseModel, ConfigDict, ValidationError
from wasabi import msg

from spacy_elmo.files import atomic_write

RUNS = {"full": Path("metrics/runs"), "quick": Path("metrics/quick")}  # Folder of each plan.

Experiment = Literal[
    "ner",
    "textcat",
    "tagger",
    "srl",
    "crf",
    "bcn",
    "textpair",
    "qa",
    "coref",
    "sample_efficiency",
    "mix",
    "place",
    "tuning",
    "two_hours",
    "domain",
    "historical",
    "french",
    "robustness",
    "transformer",
    "language_models",
    "probe",
    "senses",
]


class Mix(BaseModel):
    """Layer mix that a component learned: weights of the layers (sum 1), and the factor gamma."""

    weights: list[float]
    gamma: float


class Run(BaseModel):
    """One trained or probed system and its scores.

    experiment (str): The experiment.
    data (str): The corpus, for example "wnut17".
    variant (str): The system that is compared: "tok2vec", "elmo", ...; in a probe, its input.
    seed (int): The random seed.
    task (str): The task, such as "tag", if an experiment has several tasks on one corpus.
    share (float): Share of the training data, from 0 to 1.
    scores (Dict[str, float]): Scores on the test data, from 0 to 1.
    dev_scores (Dict[str, float]): Scores on the dev data, from 0 to 1.
    seconds (Optional[float]): Duration.
    epochs (Optional[float]): Number of epochs of the training.
    counts (List[Dict[str, List[float]]]): For coreference: the counts of each test document, by
        metric; see `spacy_elmo.tasks.coref.scorer.ClusterCounts`.
    history (List[Tuple[int, float]]): Step and dev score of each evaluation in training.
    robustness (List[Dict[str, Any]]): Test scores on damaged words: "damage" (the kind), "rate"
        (share of the words, from 0 to 1) and "score".
    mixes (Dict[str, List[Mix]]): The layer mixes by component; the mix at the input comes first.
    model (dict): Checksum and perplexity of the language model.
    settings (str): Checksum of everything that the scores depend on. Equal runs of two
        experiments have the same checksum.
    """

    model_config = ConfigDict(extra="allow")

    experiment: Experiment
    data: str
    variant: str
    seed: int
    task: str = ""
    share: float = 1.0
    scores: dict[str, float]
    dev_scores: dict[str, float] = {}
    seconds: Optional[float] = None
    epochs: Optional[float] = None
    counts: list[dict[str, list[float]]] = []
    history: list[tuple[int, float]] = []
    robustness: list[dict[str, Any]] = []
    mixes: dict[str, list[Mix]] = {}
    model: dict[str, Any] = {}
    settings: str = ""

    @property
    def name(self) -> str:
        """Unique name of the run, which can be a file name."""
        parts = (self.experiment, self.data, self.task, self.variant, f"{self.share:g}", self.seed)
        return "-".join(re.sub(r"[\s/]+", "_", str(part)) for part in parts if part != "")

    @property
    def line(self) -> str:
        """JSON of the run, in one line, without fields that were never set."""
        return json.dumps(self.model_dump(mode="json", exclude_unset=True), ensure_ascii=False)


def folder_of(plan: str, runs: Optional[Path] = None) -> Path:
    """Return the folder of a plan's results; exit if there is no such plan.

    plan (str): The plan: "full" or "quick".
    runs (Optional[Path]): A folder that replaces the default.
    RETURNS (Path): The folder.
    """
    if plan not in RUNS:
        msg.fail(f"Unknown plan '{plan}'. Use one of {', '.join(RUNS)}", exits=1)
    return runs or RUNS[plan]


def read_runs(folder: Path) -> list[Run]:
    """Read all runs of a folder.

    folder (Path): The folder. It may be missing.
    RETURNS (List[Run]): The runs, sorted by file name, then by line.
    RAISES (ValueError): A line is not a run, or two files contain the same run.
    """
    runs: dict[str, Run] = {}
    found: dict[str, str] = {}
    for path in sorted(folder.glob("*.jsonl")):
        for place, run in _read_lines(path):
            if run.name in found:
                raise ValueError(f"{place} and {found[run.name]} both contain the run {run.name}")
            found[run.name] = place
            runs[run.name] = run
    return list(runs.values())


def write_runs(
    runs: Iterable[Run], folder: Path, outdated: Callable[[Run], bool] = lambda run: False
) -> None:
    """Add runs to the files of their experiments.

    A run replaces an earlier run with the same name. Processes that write at the same time wait for
    each other. After an error, a file is as before.

    runs (Iterable[Run]): The runs.
    folder (Path): The folder. It is created if necessary.
    outdated (Callable): Returns whether an earlier run of these experiments must be deleted.
    RAISES (ValueError): A line of a file is not a run.
    """
    runs = list(runs)
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".lock"):
        for experiment in dict.fromkeys(run.experiment for run in runs):
            path = folder / f"{experiment}.jsonl"
            before = [run for _, run in _read_lines(path)] if path.exists() else []
            lines = {run.name: run.line for run in before if not outdated(run)}
            lines |= {run.name: run.line for run in runs if run.experiment == experiment}
            content = "".join(f"{line}\n" for line in lines.values())
            if not path.exists() or path.read_text("utf8") != content:
                atomic_write(path, content)


def _read_lines(path: Path) -> Iterator[tuple[str, Run]]:
    """Yield the place (file and line) and each run of a .jsonl file."""
    for number, line in enumerate(path.read_text("utf8").split("\n"), 1):
        if line.strip():
            place = f"{path}:{number}"
            yield place, _parse(_load(line, place), place)


def _load(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"{place} is not JSON: {error}") from None


def _parse(record: Any, place: str) -> Run:
    try:
        return Run.model_validate(record)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place}: '{field}': {first['msg']}") from None
