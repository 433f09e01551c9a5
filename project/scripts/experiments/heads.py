"""This module holds the heads: each is a task's model on top of its vectors, and how it is
trained."""

from dataclasses import dataclass, replace
from typing import Any

from .trials import Trial


@dataclass(frozen=True)
class Head:
    """A task's model and how it is trained: chosen on the dev set, in the tries that README.md
    tells."""

    encoder: str = "cnn"
    width: int = 96
    depth: int = 4
    hidden_width: int = 64
    dropout: float = 0.1
    elmo_dropout: float = 0.0
    learn_rate: float = 0.001
    batch_words: int = 500


@dataclass(frozen=True)
class Limits:
    """When a training ends: at the first of these, 0 being none. `patience` is in steps, the
    minutes are the processor's."""

    max_steps: int
    max_minutes: float
    patience: int
    eval_frequency: int


HEADS = {
    "ner": Head(width=128, depth=2, hidden_width=128, dropout=0.5),
    "textcat": Head(learn_rate=0.002),
    "tagger": Head(dropout=0.2, batch_words=1000),
    "srl": Head(width=128, depth=2, learn_rate=0.003, batch_words=250),
    "crf": Head(encoder="birnn", width=128, depth=1, dropout=0.6),
    "bcn": Head(width=128),
    "textpair": Head(width=128, learn_rate=0.001, batch_words=750),
    "qa": Head(width=128, learn_rate=0.002, batch_words=2000),
    "coref": Head(width=128),
}
BILSTM_HEADS = {
    "ner": Head(width=128, depth=1, hidden_width=128, dropout=0.5, learn_rate=0.005),
}
ELMO_HEADS = {**HEADS, "ner": replace(HEADS["ner"], dropout=0.6)}
# What a corpus wants otherwise than the one that its task's head was chosen on, by its dev set:
# UNER's training text is larger than WNUT17's and of the same kind as its test text.
BY_DATA: dict[tuple[str, str], dict[str, Any]] = {
    ("ner", "uner_ewt"): {"dropout": 0.3},
    ("crf", "uner_ewt"): {"dropout": 0.3},
}
WITHOUT_ELMO = ("tok2vec", "static", "pretrained")
LIMITS = {
    "ner": Limits(max_steps=20000, max_minutes=25, patience=1000, eval_frequency=100),
    "textcat": Limits(max_steps=20000, max_minutes=25, patience=2000, eval_frequency=200),
    "tagger": Limits(max_steps=20000, max_minutes=25, patience=2000, eval_frequency=200),
    "srl": Limits(max_steps=10000, max_minutes=25, patience=2000, eval_frequency=500),
    "crf": Limits(max_steps=20000, max_minutes=25, patience=1000, eval_frequency=100),
    "bcn": Limits(max_steps=4000, max_minutes=25, patience=1500, eval_frequency=200),
    "textpair": Limits(max_steps=10000, max_minutes=25, patience=2000, eval_frequency=250),
    "qa": Limits(max_steps=10000, max_minutes=25, patience=2000, eval_frequency=250),
    "coref": Limits(max_steps=4000, max_minutes=25, patience=800, eval_frequency=160),
}


def head_of(trial: Trial) -> Head:
    """RETURNS (Head): What was chosen for a task, a variant and a corpus."""
    if trial.variant == "bilstm":
        heads = BILSTM_HEADS
    else:
        heads = HEADS if trial.variant in WITHOUT_ELMO else ELMO_HEADS
    return replace(heads[trial.task], **BY_DATA.get((trial.task, trial.data), {}))
