"""A trainer of a tiny model on a tiny text."""

from thinc.api import Config

from spacy_elmo.pretraining.config import check_config
from spacy_elmo.pretraining.trainer import Trainer
from spacy_elmo.text.corpus import read_corpus

from helpers.models import pretraining_config

TEXT = [["the", "cat", "sat", "on", "a", "mat", "."], ["dogs", "run", "far", "!"]] * 8
CORPUS = read_corpus(TEXT)


def make(seed=0, **training):
    settings = {**pretraining_config(**training), "system": {"seed": seed}}
    return Trainer(check_config(Config(settings)), CORPUS, CORPUS)


def run(trainer, **settings):
    evaluations = []
    trainer.run(
        on_evaluation=lambda t, figures, best: evaluations.append((t.progress.step, best)),
        **settings,
    )
    return evaluations
