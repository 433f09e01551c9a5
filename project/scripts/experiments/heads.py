"""This module says what a trial has otherwise than the config of its task: that is the head of
spaCy's own `tok2vec`, on the corpus that the head was chosen on."""

from typing import Any

from .trials import DETAILS, Trial

MAX_MINUTES = 25.0  # of the processor's time, for a training
BILSTM_DEPTH = 1
Settings = dict[str, Any]
# By dev sets, in the tries that docs/results.md tells. UNER's training text is larger than WNUT17's
# and of the same kind as its test text.
BY_DATA: dict[tuple[str, str], Settings] = {
    ("ner", "uner_ewt"): {"training.dropout": 0.3},
    ("crf", "uner_ewt"): {"training.dropout": 0.3},
    **{("ner", data): {"nlp.lang": "de"} for data in DETAILS["historical"][0]},
}
BILSTM: dict[str, Settings] = {"ner": {"training.optimizer.learn_rate": 0.005}}
ELMO: dict[str, Settings] = {
    "ner": {"training.dropout": 0.6},
    "tagger": {"training.dropout": 0.4},
}
WITHOUT_ELMO = ("tok2vec", "static", "pretrained")


def own_settings(trial: Trial) -> Settings:
    """RETURNS (dict): What was chosen for a variant and a corpus, by its place in the config."""
    if trial.variant == "bilstm":
        by_variant = BILSTM
    else:
        by_variant = {} if trial.variant in WITHOUT_ELMO else ELMO
    return {**by_variant.get(trial.task, {}), **BY_DATA.get((trial.task, trial.data), {})}
