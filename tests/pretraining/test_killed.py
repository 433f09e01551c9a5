"""Runs that are killed at each step: resumed, they end like a run without interruption."""

import os
import shutil

import pytest

from spacy_elmo.pretraining.checkpoint import read_checkpoint, save_checkpoint
from spacy_elmo.pretraining.config import check_config
from spacy_elmo.pretraining.run import pretrain

from helpers.killed import in_child, is_unmarked, killed_at_each_step, left_at_each_step, left_in
from helpers.prepared import prepare
from helpers.runs import RANDOM, arrays, assert_same_arrays, metrics, run_config, write_texts
from helpers.trainers import make

pytestmark = [
    pytest.mark.processes,
    pytest.mark.training,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="forks"),
]


def test_a_kill_leaves_the_checkpoint_before(tmp_path):
    """The old checkpoint stays until the new one is complete. A later checkpoint leaves no other
    files."""
    trainer, later, folder = make(max_steps=9), make(max_steps=9), tmp_path / "checkpoints"
    trainer.step()
    save_checkpoint(trainer, tmp_path / "before", corpus="abc", keep=1)
    trainer.step()
    for _ in range(3):
        later.step()

    def save(trainer=trainer):
        save_checkpoint(trainer, folder, corpus="abc", keep=1)

    def read():
        return read_checkpoint(folder)["states"]["progress"]["step"]

    found = []
    shutil.copytree(tmp_path / "before", folder)
    for step in left_at_each_step(save, tmp_path):
        found.append(read())
        save(later)
        assert read() == 3, step
        assert left_in(folder) == ["checkpoint-0000000003.pt"], step
    assert found == sorted(found) and {*found} == {1, 2}
    assert read() == 2


@pytest.fixture
def run(tmp_path):
    """Return a function that trains two steps on prepared text, with a checkpoint and an evaluation
    after each."""
    write_texts(tmp_path)
    prepare(tmp_path / "train.txt", tmp_path / "prepared", min_count=1, n_process=1)
    often = {"checkpoint_minutes": 1e-9, "eval_frequency": 1, "max_steps": 2, "keep": 1}
    config = run_config(tmp_path, **{**RANDOM, **often})
    config["corpus"]["train"] = str(tmp_path / "prepared")
    checked = check_config(config)

    def run(name="out"):
        assert pretrain(checked, tmp_path / name, resume=True)

    in_child(lambda: run("alone"))
    return run


def assert_same_run(folder, step=0):
    """Check that weights are equal bit by bit, that each evaluation is there once, and that no
    files are left over."""
    out, alone = folder / "out", folder / "alone"
    for name in ("model-last", "model-best"):
        assert_same_arrays(arrays(out, name), arrays(alone, name))
    assert metrics(out) == metrics(alone), step
    files = [
        sorted(path.relative_to(run) for path in run.rglob("*") if not is_unmarked(path))
        for run in (out, alone)
    ]
    assert files[0] == files[1], step


@pytest.mark.corpora
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_run_killed_at_any_step_can_be_resumed(run, tmp_path):
    for step in killed_at_each_step(run):
        in_child(run)
        assert_same_run(tmp_path, step)
        shutil.rmtree(tmp_path / "out")
    assert step > 100
    assert_same_run(tmp_path)


@pytest.mark.corpora
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_run_killed_repeatedly_can_be_resumed(run, tmp_path):
    for _ in killed_at_each_step(run):
        pass
    assert_same_run(tmp_path)
