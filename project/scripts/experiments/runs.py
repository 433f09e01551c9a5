"""This module reads and writes runs and their figures: a folder has a file an experiment,
`EXPERIMENT.jsonl`, with a line a run. Files of one run or a list of runs, `*.json`, as they were
written once, are still read."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, Optional

from filelock import FileLock
from pydantic import BaseModel, ConfigDict, ValidationError
from wasabi import msg

from spacy_elmo.files import atomic_write

RUNS = {"full": Path("metrics/runs"), "quick": Path("metrics/quick")}  # by plan

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
    "robustness",
    "transformer",
    "language_models",
    "probe",
    "senses",
]


class Mix(BaseModel):
    """What a component learned: the layers' weights, which sum to 1, and gamma."""

    weights: list[float]
    gamma: float


class Run(BaseModel):
    """One run and its figures.

    experiment (str): What it was made for.
    data (str): The corpus, as "wnut17".
    variant (str): What is compared: "tok2vec", "elmo", ...; of a probe, what it read.
    seed (int): The seed.
    task (str): What was asked, where an experiment asks several things of one corpus: "tag".
    share (float): The part of the training data, from 0 to 1.
    scores (Dict[str, float]): On the test data, from 0 to 1.
    dev_scores (Dict[str, float]): On the development data.
    seconds (Optional[float]): How long it took.
    epochs (Optional[float]): How long it trained.
    counts (List[Dict[str, List[float]]]): Of coreference, for each test document what its
        scores are made of, by metric; see `spacy_elmo.tasks.coref.scorer.ClusterCounts`.
    history (List[Tuple[int, float]]): Step and dev score of each evaluation in training.
    robustness (List[Dict[str, Any]]): Test scores on damaged words: "damage" (the kind), "rate"
        (share of the words, from 0 to 1) and "score".
    mixes (Dict[str, List[Mix]]): The layer mixes by component, that at the input first.
    model (dict): The language model: checksum, perplexity.
    settings (str): A checksum of all that the figures depend on; equal runs of two experiments
        have the same.
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
        """What tells a run from all others, fit for a file."""
        parts = (self.experiment, self.data, self.task, self.variant, f"{self.share:g}", self.seed)
        return "-".join(re.sub(r"[\s/]+", "_", str(part)) for part in parts if part != "")

    @property
    def line(self) -> str:
        """The run as a line of JSON, without what was never set."""
        return json.dumps(self.model_dump(mode="json", exclude_unset=True), ensure_ascii=False)


def folder_of(plan: str, runs: Optional[Path] = None) -> Path:
    """Find the folder of a plan's results, or end the script: there is no such plan.

    plan (str): The plan.
    runs (Optional[Path]): A folder in place of its own.
    RETURNS (Path): The folder.
    """
    if plan not in RUNS:
        msg.fail(f"No plan '{plan}': expected one of {', '.join(RUNS)}", exits=1)
    return runs or RUNS[plan]


def read_runs(folder: Path) -> list[Run]:
    """Read all runs of a folder. A line of a .jsonl file takes the place of a .json file's run.

    folder (Path): The folder, which need not be there.
    RETURNS (List[Run]): The runs in the order of the files' names, and of the lines.
    RAISES (ValueError): A file holds something else, or two of a kind hold the same run.
    """
    runs = _without_repeats(_read_lines, folder.glob("*.jsonl"))
    older = _without_repeats(_read_whole, folder.glob("*.json"))
    return list({**older, **runs}.values())


def write_runs(
    runs: Iterable[Run], folder: Path, outdated: Callable[[Run], bool] = lambda run: False
) -> None:
    """Add runs to their experiments' files, each in the place of the line that the same run has.
    Processes that write at the same time wait for each other; a file is whole, or as it was.

    runs (Iterable[Run]): The runs.
    folder (Path): The folder, made if need be.
    outdated (Callable): Which of the earlier runs of these experiments are to go.
    RAISES (ValueError): A file holds something else than runs.
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


def _without_repeats(
    read: Callable[[Path], Iterator[tuple[str, Run]]], paths: Iterable[Path]
) -> dict[str, Run]:
    """The runs of all these files by their names."""
    runs: dict[str, Run] = {}
    found: dict[str, str] = {}
    for path in sorted(paths):
        for place, run in read(path):
            if run.name in found:
                raise ValueError(f"{place} and {found[run.name]} both hold the run {run.name}")
            found[run.name] = place
            runs[run.name] = run
    return runs


def _read_lines(path: Path) -> Iterator[tuple[str, Run]]:
    """Each run of a .jsonl file and its place."""
    for number, line in enumerate(path.read_text("utf8").split("\n"), 1):
        if line.strip():
            place = f"{path}:{number}"
            yield place, _parse(_load(line, place), place)


def _read_whole(path: Path) -> Iterator[tuple[str, Run]]:
    """Each run of a .json file and its place."""
    content = _load(path.read_text("utf8"), str(path))
    for record in content if isinstance(content, list) else [content]:
        yield str(path), _parse(record, str(path))


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
