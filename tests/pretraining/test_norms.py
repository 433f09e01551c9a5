"""Norms of gradients and updates, against the weights themselves."""

import math

import numpy as np
import pytest
import torch

from helpers.trainers import make

LOGGER = {"@loggers": "spacy.ConsoleLogger.v3"}


def copies(trainer):
    return {name: w.detach().clone() for name, w in trainer.model.bilm.named_parameters()}


@pytest.fixture
def gradients(monkeypatch):
    """All gradients of every step, as they come to be clipped."""
    from spacy_elmo.pretraining.optimizers import Optimizers

    seen, clip = [], Optimizers.clip

    def note(self, rows):
        seen.append([gradient.clone() for gradient in self.gradients(rows)])
        return clip(self, rows)

    monkeypatch.setattr(Optimizers, "clip", note)
    return seen


def norm(tensors):
    """In float64, number by number."""
    return math.sqrt(sum(float(x) ** 2 for tensor in tensors for x in tensor.flatten().tolist()))


@pytest.mark.parametrize("grad_clip", [10.0, 0.01])
def test_of_the_step_before_an_evaluation(gradients, grad_clip):
    trainer = make(eval_frequency=3, max_steps=6, logger=LOGGER, grad_clip=grad_clip)
    names = [name for name, _ in trainer.model.bilm.named_parameters()]
    for _ in range(3):
        before = copies(trainer)
        assert trainer.norms == {}
        trainer.step()
    after = copies(trainer)
    found = trainer.norms
    assert list(found["gradient_norms"]) == list(found["update_norms"]) == names
    for i, name in enumerate(names):
        assert found["gradient_norms"][name] == pytest.approx(norm([gradients[-1][i]]), rel=1e-4)
        update = norm([after[name] - before[name]])
        assert found["update_norms"][name] == pytest.approx(update, rel=1e-4)
        assert update > 0
    trainer.step()
    assert trainer.norms is found  # until the next evaluation


def test_nothing_is_copied_without_a_logger(monkeypatch):
    from spacy_elmo.pretraining import trainer as module

    monkeypatch.setattr(module, "StepNorms", None)
    trainer = make(eval_frequency=1, max_steps=2)
    trainer.step()
    assert trainer.norms == {}


def test_mean_of_all_gradients_together(gradients):
    """In every line of metrics.jsonl."""
    trainer = make(eval_frequency=2, max_steps=4)
    reports = []
    trainer.run(on_evaluation=lambda t, figures, _: reports.append(t.report(figures)))
    wanted = [norm(each) for each in gradients]
    found = [report["gradient_norm"] for report in reports]
    assert found == pytest.approx([np.mean(wanted[:2]), np.mean(wanted[2:])], rel=1e-4)


def test_goes_on_from_a_checkpoint():
    """Of this version, or of one that did not know of it."""
    trainer, same, early = (make(eval_frequency=4, max_steps=4) for _ in range(3))
    trainer.step()
    states = trainer.state_dict()
    same.load_state_dict(states)
    assert torch.equal(same.norm_sum, trainer.norm_sum)
    del states["norm_sum"], states["progress"]["gradient_norm"]
    early.load_state_dict(states)
    early.step()
    figures, _ = early.evaluate()
    assert early.report(figures)["gradient_norm"] is None
    early.step()
    figures, _ = early.evaluate()
    assert early.report(figures)["gradient_norm"] > 0
