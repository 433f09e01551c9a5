"""What is run in the experiments: one `Run` is one training, the plans are lists of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

TASKS = {
    "wnut17": "ner",
    "uner_ewt": "ner",
    "sst5": "textcat",
    "trec": "textcat",
    "ud_ewt": "tagger",
}
SCORES = {"ner": ("ents_f",), "textcat": ("accuracy",), "tagger": ("tag_acc", "pos_acc")}
SHARES = (0.01, 0.03, 0.1, 0.3, 1.0)
EXPERIMENTS = ("ner", "textcat", "tagger", "sample_efficiency", "mix", "place")
SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Run:
    """One training.

    experiment (str): Which table or figure it is for.
    data (str): A key of `TASKS`.
    variant (str): What the component's `tok2vec` is; see experiment_config.py.
    seed (int): Of weights, dropout, order and choice of the training sentences.
    share (float): How much of the training sentences there are.
    """

    experiment: str
    data: str
    variant: str
    seed: int = 0
    share: float = 1.0

    @property
    def task(self) -> str:
        """RETURNS (str): "ner", "textcat" or "tagger"."""
        return TASKS[self.data]

    @property
    def name(self) -> str:
        """RETURNS (str): By which its files are called."""
        return f"{self.experiment}-{self.data}-{self.variant}-{self.share:g}-{self.seed}"


def check_run(run: Run) -> None:
    """Check what a user typed.

    RAISES (ValueError): No such experiment or data, or a share that is none.
    """
    for what, name, known in (
        ("experiment", run.experiment, EXPERIMENTS),
        ("data", run.data, tuple(TASKS)),
    ):
        if name not in known:
            raise ValueError(f"no {what} '{name}': expected one of {', '.join(known)}")
    if not 0.0 < run.share <= 1.0:
        raise ValueError(f"share must be above 0 and at most 1, got {run.share}")


def full_plan() -> list[Run]:
    """RETURNS (List[Run]): All experiments, the most telling first: all tables with one seed,
    then with the next."""
    return [run for seed in SEEDS for experiment in EXPERIMENTS for run in runs(experiment, seed)]


def quick_plan() -> list[Run]:
    """RETURNS (List[Run]): Every experiment with one seed and few shares."""
    shares = (0.1, 1.0)
    return [
        run
        for experiment in EXPERIMENTS
        for run in runs(experiment, 0)
        if experiment != "sample_efficiency" or run.share in shares
    ]


PLANS = {"full": full_plan, "quick": quick_plan}


def runs(experiment: str, seed: int) -> Iterator[Run]:
    """Yield the runs of an experiment with one seed."""
    if experiment == "ner":
        variants = ("tok2vec", "input", "bilstm", "input_output", "elmo")
        yield from _cross(experiment, ("wnut17", "uner_ewt"), variants, seed)
    elif experiment == "textcat":
        yield from _cross(experiment, ("sst5", "trec"), ("tok2vec", "input"), seed)
    elif experiment == "tagger":
        yield from _cross(experiment, ("ud_ewt",), ("tok2vec", "input", "elmo"), seed)
    elif experiment == "sample_efficiency":
        # The tagger needs no half: that one is for what NER is to reach with a tenth.
        for data, shares in (("uner_ewt", (*SHARES, 0.5)), ("ud_ewt", SHARES)):
            for share in sorted(shares, reverse=True):
                yield from _cross(experiment, (data,), ("tok2vec", "input"), seed, share)
    elif experiment == "mix":
        variants = ("lambda_0.001", "lambda_1", "average", "top")
        yield from _cross(experiment, ("wnut17", "sst5"), variants, seed)
    elif experiment == "place":
        yield from _cross(experiment, ("wnut17",), ("input", "output", "input_output"), seed)
    else:
        raise ValueError(f"no experiment '{experiment}': expected one of {', '.join(EXPERIMENTS)}")


def _cross(
    experiment: str, data: Sequence[str], variants: Sequence[str], seed: int, share: float = 1.0
) -> Iterator[Run]:
    for name in data:
        for variant in variants:
            yield Run(experiment, name, variant, seed, share)
