"""The figures of the project's runs on disk."""

import json
import subprocess
import sys

import pytest

from helpers.project_scripts import environment
from scripts.experiments.runs import Run, read_runs, write_runs

NER = {"experiment": "ner", "data": "wnut17", "variant": "elmo"}
PROBE = {"experiment": "probe", "data": "ud_ewt", "task": "tag", "seed": 1}


def ner(seed, score):
    return Run(**NER, seed=seed, scores={"ents_f": score})


def test_what_is_written_is_read(tmp_path):
    """A file an experiment, a line a run, with the keys that were set and no others."""
    mixes = {"ner": [{"weights": [0.2, 0.5, 0.3], "gamma": 1.5}]}
    one = Run(**NER, seed=0, scores={"ents_f": 0.25}, mixes=mixes, model={}, notes="kept")
    two = [Run(**PROBE, variant=name, scores={"accuracy": 1}) for name in ("layer 0", "layer 1")]
    write_runs([one, *two], tmp_path / "new")
    assert read_runs(tmp_path / "new") == [one, *two]
    names = ["ner.jsonl", "probe.jsonl"]
    assert sorted(path.name for path in (tmp_path / "new").glob("*.jsonl")) == names
    (line,) = (tmp_path / "new" / "ner.jsonl").read_text("utf8").splitlines()
    keys = {"experiment", "data", "variant", "seed", "scores", "mixes", "model", "notes"}
    assert set(json.loads(line)) == keys
    assert len((tmp_path / "new" / "probe.jsonl").read_text("utf8").splitlines()) == 2
    assert [one.name, two[1].name] == ["ner-wnut17-elmo-1-0", "probe-ud_ewt-tag-layer_1-1-1"]
    assert read_runs(tmp_path / "missing") == []


def test_a_run_takes_the_place_of_itself(tmp_path):
    write_runs([ner(0, 0.1), ner(1, 0.2)], tmp_path)
    write_runs([ner(2, 0.3), ner(0, 0.4)], tmp_path)
    assert [run.scores["ents_f"] for run in read_runs(tmp_path)] == [0.4, 0.2, 0.3]


def test_runs_that_are_outdated_go(tmp_path):
    """Those of the same experiments alone."""
    probes = [Run(**PROBE, variant=f"layer {i}", scores={"accuracy": 1}) for i in range(3)]
    write_runs([*probes, ner(1, 0.1)], tmp_path)
    write_runs(probes[:2], tmp_path, outdated=lambda run: run.seed == 1)
    assert read_runs(tmp_path) == [ner(1, 0.1), *probes[:2]]


def test_files_of_one_run_or_a_list_are_read(tmp_path):
    """As they were written once; a run of a .jsonl file takes the place of theirs."""
    probes = [{**PROBE, "variant": f"layer {i}", "scores": {"accuracy": 1.0}} for i in range(2)]
    (tmp_path / "ner-wnut17-elmo-1-0.json").write_text(ner(0, 0.1).model_dump_json(indent=2))
    (tmp_path / "ner-wnut17-elmo-1-1.json").write_text(ner(1, 0.2).model_dump_json(indent=2))
    (tmp_path / "probe-ud_ewt-tag-1.json").write_text(json.dumps(probes))
    found = read_runs(tmp_path)
    assert [run.name for run in found[:2]] == [ner(0, 0).name, ner(1, 0).name]
    assert found[2:] == [Run(**probe) for probe in probes]
    write_runs([ner(1, 0.7)], tmp_path)
    scores = {run.seed: run.scores["ents_f"] for run in read_runs(tmp_path)[:2]}
    assert scores == {0: 0.1, 1: 0.7}
    assert len(read_runs(tmp_path)) == 4


@pytest.mark.parametrize("name", ["a.json", "ner.jsonl"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        (json.dumps({**NER, "scores": {}}), "'seed': Field required"),
        (json.dumps({**NER, "seed": 0, "scores": {"x": {}}}), "'scores.x'"),
        (json.dumps({**NER, "seed": 0, "scores": {}, "experiment": "nr"}), "'experiment'"),
        ("3", "valid dictionary"),
    ],
)
def test_files_that_hold_no_run(tmp_path, name, text, message):
    """The file is named, and the line; nothing is written over it."""
    place = name
    if name.endswith(".jsonl"):
        text, place = ner(0, 0.1).line + "\n" + text, f"{name}:2"
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=rf"{place}\b.*{message}"):
        read_runs(tmp_path)
    if name == "ner.jsonl":
        with pytest.raises(ValueError, match=message):
            write_runs([ner(1, 0.1)], tmp_path)
    assert (tmp_path / name).read_text() == text


@pytest.mark.parametrize("kind", ["json", "jsonl"])
def test_the_same_run_twice(tmp_path, kind):
    for name, score in (("a", 0.1), ("b", 0.2)):
        (tmp_path / f"{name}.{kind}").write_text(ner(0, score).line)
    message = rf"b.{kind}.* and .*a.{kind}.* both contain the run ner-wnut17-elmo"
    with pytest.raises(ValueError, match=message):
        read_runs(tmp_path)


WRITER = """
import sys
from pathlib import Path
from scripts.experiments.runs import Run, write_runs
for seed in range(int(sys.argv[2]), int(sys.argv[3])):
    run = Run(experiment="ner", data="wnut17", variant="elmo", seed=seed, scores={"ents_f": 0.1})
    write_runs([run], Path(sys.argv[1]))
"""


def test_processes_that_write_at_the_same_time(tmp_path):
    """Nothing of one is lost by another's writing."""
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(first), str(first + 40)],
            env=environment(),
        )
        for first in (0, 40)
    ]
    assert [writer.wait() for writer in writers] == [0, 0]
    assert sorted(run.seed for run in read_runs(tmp_path)) == list(range(80))
