"""Runs that diverge: they end with advice that works, and leave no model or checkpoint that is not
finite."""

import numpy as np
import pytest
import torch

from spacy_elmo.pretraining import trainer
from spacy_elmo.pretraining.checkpoint import checkpoints
from spacy_elmo.pretraining.run import pretrain
from spacy_elmo.pretraining.stopping import find_not_finite

from helpers.runs import arrays, metrics, run_settings

pytestmark = pytest.mark.training


def test_a_rate_far_too_high_fails_the_run(folder):
    """The perplexity is no finite float, and no model is written."""
    config = run_settings(folder, learn_rate=1e3, max_steps=4)
    message = r"perplexity became inf.* lower learn_rate \(1000"
    with pytest.raises(FloatingPointError, match=message):
        pretrain(config, folder / "output")
    assert not list((folder / "output").glob("model-*"))


@pytest.fixture
def diverging(monkeypatch):
    """Make a rate of 0.01 far too high from step 5 on, but not a lower one."""
    original = trainer.learn_rate_factor

    def factor(settings, step, *args):
        is_high = step >= 5 and settings.learn_rate >= 0.01
        return original(settings, step, *args) * (1e30 if is_high else 1.0)

    monkeypatch.setattr(trainer, "learn_rate_factor", factor)


@pytest.mark.parametrize(("optimizer", "eval_frequency"), [("adam", 6), ("adam", 8), ("muon", 3)])
def test_the_advice_for_a_run_that_diverged_works(folder, diverging, optimizer, eval_frequency):
    """The advice is to lower the rate and resume. Files that were written before are finite, and
    the run finishes. With the same rate it diverges again."""
    output = folder / "output"
    settings = {"optimizer": optimizer, "max_steps": 8, "eval_frequency": eval_frequency}
    settings["checkpoint_minutes"] = 1e-9
    message = r"at step [56]: lower learn_rate \(0.01\).* Resume"
    for _ in range(2):
        with pytest.raises(FloatingPointError, match=message):
            pretrain(run_settings(folder, **settings), output, resume=True)
        kept = [torch.load(path, weights_only=True) for path in checkpoints(output / "checkpoints")]
        assert kept
        assert kept[-1]["states"]["progress"]["step"] == 5
        assert all(find_not_finite(one["states"]) is None for one in kept)
        for model in output.glob("model-*"):
            assert all(np.isfinite(values).all() for values in arrays(output, model.name).values())
    with pytest.raises(ValueError, match="learn_rate was 0.01 and is 0.02"):
        pretrain(run_settings(folder, learn_rate=0.02, **settings), output, resume=True)
    lower = run_settings(folder, learn_rate=0.001, grad_clip=1.0, **settings)
    assert pretrain(lower, output, resume=True)
    assert metrics(output)[-1]["step"] == 8
    assert metrics(output)[-1]["perplexity"]["mean"] is not None
    assert all(np.isfinite(values).all() for values in arrays(output).values())
    with pytest.raises(ValueError, match=r"learn_rate was 0.001 and is 0.01"):
        pretrain(run_settings(folder, **settings), output, resume=True)
