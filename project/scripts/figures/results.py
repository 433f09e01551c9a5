"""This module puts the figures of the project's runs together, and knows how they are called."""

import statistics
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Optional

from ..experiments.runs import Run, read_runs
from ..experiments.trials import GAINS, MODELS

# The scores that are shown, the first that there is as the one that counts.
SCORES = {
    "ents_f": "entity F",
    "ents_p": "precision",
    "ents_r": "recall",
    "accuracy": "accuracy",
    "cats_acc": "accuracy",
    "cats_macro_f": "macro F",
    "tag_acc": "tag accuracy",
    "pos_acc": "POS accuracy",
    "srl_f": "role F",
    "qa_f1": "answer F",
    "qa_exact": "exact answers",
    "coref_f": "mean F of MUC, B3, CEAF",
    "macro_f": "macro F",
    "word_accuracy": "mean of words",
}
NAMES = {
    "wnut17": "WNUT17",
    "uner_ewt": "UNER EWT",
    "europeana_lft": "newspapers (LFT)",
    "europeana_onb": "newspapers (ONB)",
    "europeana_sbb": "newspapers (SBB)",
    "sst5": "SST-5",
    "trec": "TREC",
    "ud_ewt": "UD EWT",
    "ewt_srl": "EWT roles",
    "snli": "SNLI",
    "new_wiki": "questions on Wikipedia",
    "litbank_coref": "LitBank coreference",
    "ontogum_coref": "OntoGUM coreference",
    "homograph": "homographs",
    "crf": "CRF",
    "bcn": "BCN",
    "tok2vec": "without ELMo",
    "bilstm": "BiLSTM without ELMo",
    "elmo": "ELMo alone",
    "input": "ELMo at the input",
    "output": "ELMo at the output",
    "input_output": "ELMo at input and output",
    "crf_input": "ELMo at the input, with a CRF",
    "taglm": "TagLM",
    "static": "static vectors, without ELMo",
    "static_input": "static vectors and ELMo",
    "pretrained": "`spacy pretrain`, without ELMo",
    "two_hours": "ELMo of two hours",
    "domain": "ELMo continued on the domain's text",
    "de_historical": "ELMo, `de_historical`",
    "en_small": "ELMo, `en_small`",
    "newspapers": "`de_historical` continued on the newspapers",
    "transformer": "frozen MiniLM at the input",
    "fine_tuned": "ELMo fine-tuned",
    "dropout_0.5": "ELMo with dropout 0.5",
    "both": "both directions, characters, residual connections",
    "forward": "forward alone",
    "forward_half": "forward half of both",
    "backward_half": "backward half of both",
    "words": "words in place of characters",
    "highway": "highway connections",
    "none": "no connections",
    "layer_0": "layer 0",
    "layer_1": "layer 1",
    "top": "top layer",
    "lambda_0.001": "learned, lambda 0.001",
    "lambda_1": "learned, lambda 1",
    "rate_10": "learned, rate times 10",
}
COMPARED = ("tok2vec", "input")  # without ELMo and with it


class Summary(NamedTuple):
    """mean, sample standard deviation (None of a single run), number of runs."""

    mean: float
    deviation: Optional[float]
    n: int


def load(folder: Path) -> list[Run]:
    """Read all runs of a folder, in the order of NAMES, and what is not there as in the files.

    RAISES (ValueError): A file holds no run, or two of a kind hold the same one.
    """
    order = {name: place for place, name in enumerate(NAMES)}
    return sorted(
        read_runs(folder),
        key=lambda run: [order.get(name, len(order)) for name in (run.data, run.variant)],
    )


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


class Compared(NamedTuple):
    """An experiment on a corpus: its runs without ELMo, and those with it."""

    experiment: str
    data: str
    pair: tuple[list[Run], list[Run]]

    @property
    def name(self) -> str:
        """RETURNS (str): That of the corpus, and that of the model if the corpus has two."""
        own = f", {spoken(self.experiment)}" if self.experiment in MODELS else ""
        return spoken(self.data) + own


def compared(runs: Iterable[Run]) -> Iterator[Compared]:
    """Yield each experiment and corpus that ELMo is tried on and that has runs without ELMo and
    with it."""
    tried = [run for run in runs if run.experiment in GAINS]
    for (experiment, data), found in group(tried, "experiment", "data").items():
        variants = dict(group(found, "variant"))
        without, elmo = (variants.get((name,), []) for name in COMPARED)
        if without and elmo:
            yield Compared(experiment, data, (without, elmo))


class Updates(NamedTuple):
    """The best dev score without ELMo, after how many steps it is reached, and after how many
    with ELMo it is passed (None: not by every seed)."""

    best: float
    reached: float
    passed: Optional[float]


def updates(without: list[Run], elmo: list[Run]) -> Optional[Updates]:
    """Means over the seeds that both have, None where no run has kept its history."""
    with_elmo = {run.seed: run.history for run in elmo if run.history}
    rows = []
    for run in without:
        if run.history and run.seed in with_elmo:
            best = max(score for _, score in run.history)
            reached = next(step for step, score in run.history if score == best)
            rows.append((best, reached, _first_above(best, with_elmo[run.seed])))
    if not rows:
        return None
    best, reached, passed = zip(*rows)
    steps = None if None in passed else statistics.fmean(passed)
    return Updates(statistics.fmean(best), statistics.fmean(reached), steps)


def _first_above(score: float, history: list[tuple[int, float]]) -> Optional[int]:
    return next((step for step, found in history if found > score), None)


def summarize(runs: Iterable[Run], score: str) -> Optional[Summary]:
    """Mean and spread of a score over the runs that have it, None if none has."""
    return summary([run.scores[score] for run in runs if score in run.scores])


def summary(values: list[float]) -> Optional[Summary]:
    """Mean and spread of some figures, None of none."""
    if not values:
        return None
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return Summary(statistics.fmean(values), deviation, len(values))


def damage_points(runs: Iterable[Run], kind: str) -> dict[float, Summary]:
    """Return mean and deviation of the score on damaged words, by the share of damaged words."""
    scores: dict[float, list[float]] = {}
    for run in runs:
        for point in run.robustness:
            if point["damage"] == kind:
                scores.setdefault(point["rate"], []).append(point["score"])
    found = {rate: summary(values) for rate, values in sorted(scores.items())}
    return {rate: one for rate, one in found.items() if one}


def damage_kinds(runs: Iterable[Run]) -> list[str]:
    """Return the kinds of damage that the runs have scores for."""
    return list(dict.fromkeys(point["damage"] for run in runs for point in run.robustness))


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
