"""A trainer of a tiny model on a tiny text, and runs that are killed."""

import numpy as np
import pytest
from thinc.api import Config

from spacy_elmo.pretraining import reporting
from spacy_elmo.pretraining.config import check_config
from spacy_elmo.pretraining.run import pretrain
from spacy_elmo.pretraining.trainer import Trainer
from spacy_elmo.text.corpus import read_corpus

from helpers.models import pretraining_config
from helpers.runs import arrays, metrics

TEXT = [["the", "cat", "sat", "on", "a", "mat", "."], ["dogs", "run", "far", "!"]] * 8
CORPUS = read_corpus(TEXT)


def make(seed=0, is_pipelined=None, **training):
    settings = {**pretraining_config(**training), "system": {"seed": seed}}
    config = check_config(Config(settings))
    return Trainer(config, CORPUS, CORPUS, is_pipelined=is_pipelined)


def run(trainer, **settings):
    evaluations = []

    def note(trainer, figures, best):
        evaluations.append((trainer.progress.step, best))

    trainer.run(on_evaluation=note, **settings)
    return evaluations


class Killed(BaseException):
    """No `except Exception` sees it, as none sees a SIGKILL."""


def kill_at(monkeypatch, *steps, after="step"):
    """Kill the runs to come at these steps, each one time."""
    waiting = list(steps)
    original = getattr(reporting.Reporter, f"on_{after}")

    def call(self, trainer, *args):
        original(self, trainer, *args)
        if waiting and trainer.progress.step == waiting[0]:
            waiting.pop(0)
            raise Killed

    monkeypatch.setattr(reporting.Reporter, f"on_{after}", call)


def run_to_the_end(config, output):
    """Again and again, as a user would; how often it was killed."""
    for stops in range(50):
        try:
            assert pretrain(config, output, resume=True)
        except Killed:
            continue
        return stops
    raise AssertionError("no end")


def assert_like_one(output, one, figures=("perplexity",)):
    """A run of several processes gives what one gives, up to rounding."""
    found = arrays(output)
    for name, values in arrays(one).items():
        np.testing.assert_allclose(found[name], values, rtol=0, atol=2e-3)
    rows, expected = metrics(output), metrics(one)
    assert [row["step"] for row in rows] == [row["step"] for row in expected]
    for row, wanted in zip(rows, expected):
        assert row["tokens"] == wanted["tokens"]
        for name in figures:
            assert row[name] == pytest.approx(wanted[name], rel=1e-3)
