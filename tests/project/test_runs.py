"""Runs on disk: a run replaces itself, wrong lines are named, and concurrent writes stay."""

import json
import subprocess
import sys

import pytest

from helpers.models import check_refused
from helpers.project_scripts import environment
from helpers.scored_runs import make_run
from scripts.experiments.runs import read_runs, write_runs

NER = {"experiment": "ner", "data": "wnut17", "variant": "elmo"}


def ner(seed, score, **more):
    return make_run("ner wnut17 elmo", seed, {"ents_f": score}, **more)


def probe(layer):
    return make_run(f"probe ud_ewt layer {layer}", 1, {"accuracy": 1.0}, task="tag")


def test_written_runs_are_read(tmp_path):
    """Each experiment has a file, and each run a line with the keys that were set and no others."""
    mixes = {"ner": [{"weights": [0.2, 0.5, 0.3], "gamma": 1.5}]}
    one = ner(0, 0.25, mixes=mixes, model={}, notes="kept")
    two = [probe(0), probe(1)]
    write_runs([one, *two], tmp_path / "new")
    assert read_runs(tmp_path / "new") == [one, *two]
    names = ["ner.jsonl", "probe.jsonl"]
    assert sorted(path.name for path in (tmp_path / "new").glob("*.jsonl")) == names
    (line,) = (tmp_path / "new" / "ner.jsonl").read_text("utf8").splitlines()
    keys = "experiment data variant seed scores mixes model notes"
    assert set(json.loads(line)) == set(keys.split())
    assert len((tmp_path / "new" / "probe.jsonl").read_text("utf8").splitlines()) == 2
    assert [one.name, two[1].name] == ["ner-wnut17-elmo-1-0", "probe-ud_ewt-tag-layer_1-1-1"]
    assert read_runs(tmp_path / "missing") == []


def test_a_run_replaces_itself(tmp_path):
    """Outdated runs of the same experiments are deleted."""
    write_runs([ner(0, 0.1), ner(1, 0.2)], tmp_path)
    write_runs([ner(2, 0.3), ner(0, 0.4)], tmp_path)
    runs = [ner(0, 0.4), ner(1, 0.2), ner(2, 0.3)]
    assert read_runs(tmp_path) == runs
    write_runs([probe(0), probe(1), probe(2)], tmp_path)
    write_runs([probe(0), probe(1)], tmp_path, outdated=lambda run: run.seed == 1)
    assert read_runs(tmp_path) == [*runs, probe(0), probe(1)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        (json.dumps({**NER, "scores": {}}), "'seed': Field required"),
        (json.dumps({**NER, "seed": 0, "scores": {}, "experiment": "nr"}), "'experiment'"),
        ("3", "valid dictionary"),
    ],
)
def test_a_line_that_is_no_run_is_named_and_stays(tmp_path, text, message):
    text = ner(0, 0.1).line + "\n" + text
    (tmp_path / "ner.jsonl").write_text(text)
    check_refused(lambda: read_runs(tmp_path), "ner.jsonl:2", message)
    check_refused(lambda: write_runs([ner(1, 0.1)], tmp_path), message)
    assert (tmp_path / "ner.jsonl").read_text() == text


def test_a_run_in_two_files_is_refused(tmp_path):
    for name, score in (("a", 0.1), ("b", 0.2)):
        (tmp_path / f"{name}.jsonl").write_text(ner(0, score).line)
    named = ("b.jsonl", "a.jsonl", "both contain the run ner-wnut17-elmo")
    check_refused(lambda: read_runs(tmp_path), *named)


WRITER = """
import sys
from pathlib import Path
from scripts.experiments.runs import Run, write_runs
for seed in range(int(sys.argv[2]), int(sys.argv[3])):
    run = Run(experiment="ner", data="wnut17", variant="elmo", seed=seed, scores={"ents_f": 0.1})
    write_runs([run], Path(sys.argv[1]))
"""


@pytest.mark.processes
def test_concurrent_writers_lose_nothing(tmp_path):
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, tmp_path, *part], env=environment())
        for part in (("0", "40"), ("40", "80"))
    ]
    assert [writer.wait() for writer in writers] == [0, 0]
    assert sorted(run.seed for run in read_runs(tmp_path)) == list(range(80))
