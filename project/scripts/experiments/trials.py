"""This module says what is run in the experiments: one `Trial` is one training, the plans are lists
of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

TASKS = {
    "wnut17": "ner",
    "uner_ewt": "ner",
    "sst5": "textcat",
    "trec": "textcat",
    "ud_ewt": "tagger",
    "ewt_srl": "srl",
    "snli": "textpair",
    "new_wiki": "qa",
    "litbank_coref": "coref",
    "ontogum_coref": "coref",
}
SCORES = {
    "ner": ("ents_f",),
    "textcat": ("accuracy",),
    "tagger": ("tag_acc", "pos_acc"),
    "srl": ("srl_f",),
    "crf": ("ents_f",),
    "bcn": ("accuracy",),
    "textpair": ("cats_acc",),
    "qa": ("qa_f1", "qa_exact"),
    "coref": ("coref_f",),
}
# Models of their own for data that another task has, too: by experiment, or by variant.
MODELS = {"crf": "crf", "bcn": "bcn", "crf_input": "crf", "taglm": "crf"}
VARIANTS = (
    *("tok2vec", "bilstm", "elmo", "input", "output", "input_output", "crf_input", "taglm"),
    *("top", "average", "lambda_1", "lambda_0.001"),
)
SHARES = (0.01, 0.03, 0.1, 0.3, 1.0)
GAINS = ("ner", "textcat", "tagger", "srl", "crf", "bcn", "coref", "textpair", "qa")
DETAILS = ("sample_efficiency", "place", "mix")
EXPERIMENTS = GAINS + DETAILS
SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Trial:
    """One training.

    experiment (str): Which table or figure it is for.
    data (str): A key of `TASKS`.
    variant (str): What the component's `tok2vec` is; see trial_config.py.
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
        """RETURNS (str): A key of `SCORES`."""
        own = MODELS.get(self.experiment) or MODELS.get(self.variant)
        return own or TASKS[self.data]

    @property
    def name(self) -> str:
        """RETURNS (str): By which its files are called."""
        return f"{self.experiment}-{self.data}-{self.variant}-{self.share:g}-{self.seed}"


def check_trial(trial: Trial) -> None:
    """Check what a user typed.

    RAISES (ValueError): No such experiment, data or variant, or a share that is none.
    """
    for what, name, known in (
        ("experiment", trial.experiment, EXPERIMENTS),
        ("data", trial.data, tuple(TASKS)),
        ("variant", trial.variant, VARIANTS),
    ):
        if name not in known:
            raise ValueError(f"no {what} '{name}': expected one of {', '.join(known)}")
    if not 0.0 < trial.share <= 1.0:
        raise ValueError(f"share must be above 0 and at most 1, got {trial.share}")


def full_plan() -> list[Trial]:
    """RETURNS (List[Trial]): All experiments: first the tables of what ELMo gains, then the
    rest, and in both all with one seed before the next."""
    return [
        trial
        for experiments in (GAINS, DETAILS)
        for seed in SEEDS
        for experiment in experiments
        for trial in trials(experiment, seed)
    ]


def quick_plan() -> list[Trial]:
    """RETURNS (List[Trial]): Every experiment with one seed, a tenth of the training sentences
    and, where that is compared, a hundredth."""
    return [
        trial if trial.share == 0.01 else replace(trial, share=0.1)
        for experiment in EXPERIMENTS
        for trial in trials(experiment, 0)
        if trial.share in (0.01, 1.0)
    ]


PLANS = {"full": full_plan, "quick": quick_plan}


def trials(experiment: str, seed: int) -> Iterator[Trial]:
    """Yield the runs of an experiment with one seed."""
    if experiment == "ner":
        variants = ("tok2vec", "input", "bilstm", "input_output", "elmo")
        yield from _cross(experiment, ("wnut17", "uner_ewt"), variants, seed)
    elif experiment == "textcat":
        yield from _cross(experiment, ("sst5", "trec"), ("tok2vec", "input"), seed)
    elif experiment == "tagger":
        yield from _cross(experiment, ("ud_ewt",), ("tok2vec", "input", "elmo"), seed)
    elif experiment == "srl":
        yield from _cross(experiment, ("ewt_srl",), ("tok2vec", "input"), seed)
    elif experiment == "crf":
        variants = ("tok2vec", "input", "taglm")
        yield from _cross(experiment, ("wnut17", "uner_ewt"), variants, seed)
    elif experiment == "bcn":
        yield from _cross(experiment, ("sst5",), ("tok2vec", "input", "input_output"), seed)
    elif experiment == "textpair":
        variants = ("tok2vec", "input", "output", "input_output")
        yield from _cross(experiment, ("snli",), variants, seed)
    elif experiment == "qa":
        yield from _cross(experiment, ("new_wiki",), ("tok2vec", "input", "input_output"), seed)
    elif experiment == "coref":
        yield from _cross(
            experiment, ("litbank_coref", "ontogum_coref"), ("tok2vec", "input"), seed
        )
    elif experiment == "sample_efficiency":
        # The tagger needs no half: that one is for what NER is to reach with a tenth.
        for data, shares in (("uner_ewt", (*SHARES, 0.5)), ("ud_ewt", SHARES)):
            for share in sorted(shares, reverse=True):
                yield from _cross(experiment, (data,), ("tok2vec", "input"), seed, share)
    elif experiment == "mix":
        variants = ("lambda_0.001", "lambda_1", "average", "top")
        yield from _cross(experiment, ("wnut17", "sst5"), variants, seed)
    elif experiment == "place":
        variants = ("input", "output", "input_output", "crf_input", "taglm")
        yield from _cross(experiment, ("wnut17",), variants, seed)
    else:
        raise ValueError(f"no experiment '{experiment}': expected one of {', '.join(EXPERIMENTS)}")


def _cross(
    experiment: str, data: Sequence[str], variants: Sequence[str], seed: int, share: float = 1.0
) -> Iterator[Trial]:
    for name in data:
        for variant in variants:
            yield Trial(experiment, name, variant, seed, share)
