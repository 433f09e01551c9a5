"""The figures of the project's runs: `metrics/runs/`, where a JSON file holds a run, or a list of
runs that were made together."""

import json
import re
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple, Optional

from pydantic import BaseModel, ConfigDict, ValidationError

from spacy_elmo.output import write_whole

Experiment = Literal[
    "ner", "textcat", "tagger", "sample_efficiency", "mix", "place", "probe", "senses"
]

# The scores that are shown, the first that there is as the one that counts.
SCORES = {
    "ents_f": "entity F",
    "ents_p": "precision",
    "ents_r": "recall",
    "accuracy": "accuracy",
    "cats_macro_f": "macro F",
    "tag_acc": "tag accuracy",
    "pos_acc": "POS accuracy",
    "macro_f": "macro F",
    "word_accuracy": "mean of words",
}
NAMES = {
    "wnut17": "WNUT17",
    "uner_ewt": "UNER EWT",
    "sst5": "SST-5",
    "trec": "TREC",
    "ud_ewt": "UD EWT",
    "homograph": "homographs",
    "tok2vec": "without ELMo",
    "bilstm": "BiLSTM without ELMo",
    "elmo": "ELMo alone",
    "input": "ELMo at the input",
    "output": "ELMo at the output",
    "input_output": "ELMo at input and output",
    "top": "top layer",
    "lambda_0.001": "learned, lambda 0.001",
    "lambda_1": "learned, lambda 1",
}


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
    mixes: dict[str, list[Mix]] = {}
    model: dict[str, Any] = {}
    settings: str = ""

    @property
    def name(self) -> str:
        """What tells a run from all others, fit for a file."""
        parts = (self.experiment, self.data, self.task, self.variant, f"{self.share:g}", self.seed)
        return "-".join(re.sub(r"[\s/]+", "_", str(part)) for part in parts if part != "")


class Summary(NamedTuple):
    """mean, sample standard deviation (None of a single run), number of runs."""

    mean: float
    deviation: Optional[float]
    n: int


def load(folder: Path) -> list[Run]:
    """Read all runs of a folder, in the order of NAMES, and what is not there as in the files.

    RAISES (ValueError): A file holds no run, or two files hold the same one.
    """
    found: dict[str, Path] = {}
    runs = []
    for path in sorted(folder.glob("*.json")):
        for run in _read(path):
            if run.name in found:
                raise ValueError(f"{path} and {found[run.name]} both hold the run {run.name}")
            found[run.name] = path
            runs.append(run)
    order = {name: place for place, name in enumerate(NAMES)}
    return sorted(runs, key=lambda run: [order.get(n, len(order)) for n in (run.data, run.variant)])


def save(runs: Iterable[Run], path: Path) -> None:
    """Write runs to a file, as a list if there are several."""
    records = [run.model_dump(mode="json", exclude_defaults=True) for run in runs]
    content = records[0] if len(records) == 1 else records
    write_whole(path, json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


def group(runs: Iterable[Run], *names: str) -> dict[tuple, list[Run]]:
    """The runs by these fields, in order of their first run."""
    groups: dict[tuple, list[Run]] = {}
    for run in runs:
        groups.setdefault(tuple(getattr(run, name) for name in names), []).append(run)
    return groups


def distinct(runs: Iterable[Run]) -> list[Run]:
    """The runs without those that repeat an earlier one's figures for a further experiment."""
    found: dict[str, Run] = {}
    for run in runs:
        found.setdefault(run.settings or run.name, run)
    return list(found.values())


def summarize(runs: Iterable[Run], score: str) -> Optional[Summary]:
    """Mean and spread of a score over the runs that have it, None if none has."""
    return summary([run.scores[score] for run in runs if score in run.scores])


def summary(values: list[float]) -> Optional[Summary]:
    """Mean and spread of some figures, None of none."""
    if not values:
        return None
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return Summary(statistics.fmean(values), deviation, len(values))


def shown_scores(runs: Iterable[Run]) -> list[str]:
    """The scores that are shown, of those that the runs have."""
    runs = list(runs)
    return [score for score in SCORES if any(score in run.scores for run in runs)]


def spoken(name: str) -> str:
    """A name for readers."""
    return NAMES.get(name, name)


def in_percent(found: Optional[Summary]) -> str:
    """Mean and standard deviation of a score, times 100; "-" of none."""
    if found is None:
        return "-"
    spread = "" if found.deviation is None else f" ± {100 * found.deviation:.1f}"
    return f"{100 * found.mean:.1f}{spread}"


def _read(path: Path) -> list[Run]:
    try:
        content = json.loads(path.read_text("utf8"))
        records = content if isinstance(content, list) else [content]
        return [Run.model_validate(record) for record in records]
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{path}: '{place}': {first['msg']}") from None
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
