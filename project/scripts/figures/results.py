"""Summaries of the runs' scores, and the names that tables and pictures show."""

import statistics
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Optional

from ..experiments.runs import Run, read_runs
from ..experiments.trials import GAINS, MODELS

# Names of the scores to show. The first one that a run has is its main score.
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
    "europeana_bnf": "newspapers (BnF)",
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
    "fr_historical": "ELMo, `fr_historical`",
    "en_small": "ELMo, `en_small`",
    "en_medium": "ELMo, `en_medium`",
    "newspapers": "`de_historical` continued on the newspapers",
    "transformer": "frozen MiniLM at the input",
    "transformer_int8": "frozen MiniLM in int8 at the input",
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
COMPARED = ("tok2vec", "input")  # Variants without and with ELMo.


class Summary(NamedTuple):
    """Mean, sample standard deviation (None for a single run) and number of runs."""

    mean: float
    deviation: Optional[float]
    n: int


def load(folder: Path) -> list[Run]:
    """Read all runs of a folder, sorted by corpus and variant in the order of `NAMES`.

    RAISES (ValueError): A line is not a run, or two files with the same suffix contain a run.
    """
    order = {name: place for place, name in enumerate(NAMES)}
    return sorted(
        read_runs(folder),
        key=lambda run: [order.get(name, len(order)) for name in (run.data, run.variant)],
    )


def group(runs: Iterable[Run], *names: str) -> dict[tuple, list[Run]]:
    """Group runs by the values of these fields, in the order of the first run of each group."""
    groups: dict[tuple, list[Run]] = {}
    for run in runs:
        groups.setdefault(tuple(getattr(run, name) for name in names), []).append(run)
    return groups


def distinct(runs: Iterable[Run]) -> list[Run]:
    """Return the runs. If several experiments share a run, return only the first of its copies."""
    found: dict[str, Run] = {}
    for run in runs:
        found.setdefault(run.settings or run.name, run)
    return list(found.values())


class Compared(NamedTuple):
    """Runs of an experiment on a corpus, without and with ELMo.

    experiment (str): The experiment.
    data (str): The corpus.
    pair (Tuple[List[Run], List[Run]]): The runs without ELMo, and the runs with ELMo.
    """

    experiment: str
    data: str
    pair: tuple[list[Run], list[Run]]

    @property
    def name(self) -> str:
        """Title: the corpus, and the component if two components are compared on the corpus."""
        own = f", {spoken(self.experiment)}" if self.experiment in MODELS else ""
        return spoken(self.data) + own


def compared(runs: Iterable[Run]) -> Iterator[Compared]:
    """Yield each experiment of `GAINS` and corpus that has runs both without and with ELMo."""
    tried = [run for run in runs if run.experiment in GAINS]
    for (experiment, data), found in group(tried, "experiment", "data").items():
        variants = dict(group(found, "variant"))
        without, elmo = (variants.get((name,), []) for name in COMPARED)
        if without and elmo:
            yield Compared(experiment, data, (without, elmo))


class Updates(NamedTuple):
    """Number of steps with which ELMo passes the best dev score without ELMo.

    best (float): The best dev score without ELMo.
    reached (float): Steps without ELMo to this score.
    passed (Optional[float]): Steps with ELMo to a higher score; None if a seed never reaches one.
    """

    best: float
    reached: float
    passed: Optional[float]


def updates(without: list[Run], elmo: list[Run]) -> Optional[Updates]:
    """Compute the means over the seeds that both lists have; None if no run has a history."""
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
    """Summarize a score over the runs that have it; return None if no run has it."""
    return summary([run.scores[score] for run in runs if score in run.scores])


def summary(values: list[float]) -> Optional[Summary]:
    """Summarize values; return None if there are none."""
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
    """Return the names of the runs' scores that are in `SCORES`, the main score first."""
    runs = list(runs)
    return [score for score in SCORES if any(score in run.scores for run in runs)]


def spoken(name: str) -> str:
    """Return the name to show for a corpus, variant or experiment."""
    return NAMES.get(name, name)


def in_percent(found: Optional[Summary]) -> str:
    """Format mean and standard deviation of a score in percent; "-" for None."""
    if found is None:
        return "-"
    spread = "" if found.deviation is None else f" ± {100 * found.deviation:.1f}"
    return f"{100 * found.mean:.1f}{spread}"
