"""Settings of a trial that differ from the config of its task.

The settings of a config were chosen for `tok2vec` without ELMo, on one corpus of the task. Other
variants and corpora need other values.
"""

from typing import Any

from .trials import DETAILS, Trial

MAX_MINUTES = 25.0  # Maximum processor time of a training, in minutes.
Settings = dict[str, Any]
# Questions rarely stop by patience, and a number of steps is the same limit on every machine.
LIMITS: dict[str, Settings] = {"qa": {"max_steps": 6000, "max_minutes": 120.0}}
BILSTM_DEPTH = 1
# Chosen on dev sets (docs/results.md). UNER's training text is larger than WNUT17's and more like
# its test text, so less dropout is better.
BY_DATA: dict[tuple[str, str], Settings] = {
    ("ner", "uner_ewt"): {"training.dropout": 0.3},
    ("crf", "uner_ewt"): {"training.dropout": 0.3},
    **{("ner", data): {"nlp.lang": "de"} for data in DETAILS["historical"][0]},
    **{("ner", data): {"nlp.lang": "fr"} for data in DETAILS["french"][0]},
}
BILSTM: dict[str, Settings] = {"ner": {"training.optimizer.learn_rate": 0.005}}
ELMO: dict[str, Settings] = {
    "ner": {"training.dropout": 0.6},
    "tagger": {"training.dropout": 0.4},
}
WITHOUT_ELMO = ("tok2vec", "static", "pretrained")


def own_settings(trial: Trial) -> Settings:
    """Return the settings for the trial's variant and corpus, by dotted name in the config."""
    if trial.variant == "bilstm":
        by_variant = BILSTM
    else:
        by_variant = {} if trial.variant in WITHOUT_ELMO else ELMO
    return {**by_variant.get(trial.task, {}), **BY_DATA.get((trial.task, trial.data), {})}
