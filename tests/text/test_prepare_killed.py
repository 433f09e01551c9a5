"""Preparations that are killed at each step and called again: the corpus of an undisturbed call."""

import os

import pytest

from spacy_elmo.text.prepare import is_prepared

from helpers.killed import in_child, killed_at_each_step, left_at_each_step, stopped_at_each_step
from helpers.prepared import content, prepare, random_text

pytestmark = [
    pytest.mark.processes,
    pytest.mark.corpora,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="forks"),
]


@pytest.fixture
def run(tmp_path):
    """Return a function that prepares a few lines, in several parts."""
    (tmp_path / "a.txt").write_text(random_text(20), "utf8")

    def run(name="out", **settings):
        prepare(tmp_path / "a.txt", tmp_path / name, n_process=1, chunk_size=150, **settings)

    return run


@pytest.fixture
def whole(run, tmp_path):
    in_child(lambda: run("whole"))
    return content(tmp_path / "whole")


def test_a_kill_at_any_step_leaves_no_wrong_corpus(run, whole, tmp_path):
    out = tmp_path / "out"
    for step in left_at_each_step(run, tmp_path):
        assert not is_prepared(out) or whole.items() <= content(out).items()
        run()
        assert content(out) == whole, step
    assert step > 30 and content(out) == whole


def test_repeated_kills_leave_no_wrong_corpus(run, whole, tmp_path):
    for _ in killed_at_each_step(run):
        pass
    assert content(tmp_path / "out") == whole


def test_a_killed_share_is_completed_by_the_others(run, whole, tmp_path):
    """The last call reads the rest."""
    for step in left_at_each_step(lambda: run(worker="1/2"), tmp_path):
        run(worker="2/2")
        run()
        assert content(tmp_path / "out") == whole, step
    assert step > 5


def test_shares_at_the_same_time_give_the_same_corpus(run, whole, tmp_path):
    """One stops at each of its steps while the other does its work."""
    for _ in stopped_at_each_step(lambda: run(worker="1/2")):
        in_child(lambda: run(worker="2/2"))
    run()
    assert content(tmp_path / "out") == whole
