"""`spacy elmo embed`: options, shards, and how an interrupted run is resumed."""

from functools import partial
from pathlib import Path
from unittest.mock import Mock

import h5py
import pytest

import spacy_elmo.export.joining as joining
import spacy_elmo.export.sharding as sharding

from helpers.commands import shown_by

pytestmark = pytest.mark.commands


@pytest.fixture
def run(here, tiny_weights):
    (here / "text.txt").write_text("The cat sat .\nIt slept .\n")
    return partial(shown_by, "embed", tiny_weights)


def test_several_inputs_are_written_to_one_file(run):
    """Each input is written once."""
    Path("more.txt").write_text("More .\n")
    assert "3 entries, 9 tokens" in run("text.txt", "*.txt", "out.hdf5", "--layers", "all")
    with h5py.File("out.hdf5") as file:
        assert file["0"].shape == (3, 4, 12)
        assert file["0"].dtype == "float32"
    Path("more.txt").unlink()
    options = ["--force", "--dtype", "float16", "--layers", "top", "--texts", "none"]
    run("text.txt", "out.hdf5", *options, "--precision", "auto")
    with h5py.File("out.hdf5") as file:
        assert sorted(file) == ["0", "1"]
        assert (file["1"].shape, file["1"].dtype) == ((3, 12), "float16")


@pytest.mark.parametrize(
    ("output", "options", "module", "where"),
    [
        ("out.hdf5", [], joining, "_join"),
        ("out.hdf5", ["--force"], joining, "_join"),
        ("out", ["--shards", "2"], sharding, "find_damaged"),
    ],
)
def test_an_interrupted_run_is_resumed(run, monkeypatch, output, options, module, where):
    with monkeypatch.context() as patch:
        patch.setattr(module, where, Mock(side_effect=KeyboardInterrupt))
        shown = run("text.txt", output, *options, status=130)
    assert "run the same command with --resume" in shown
    assert f"Wrote {output}" in run("text.txt", output, *options, "--resume")


def test_shards_are_made_by_workers(run):
    assert "2 entries, 7 tokens" in run("text.txt", "out", "--shards", "2")
    finished = run("text.txt", "out", "--shards", "2", "--worker", "2/2")
    assert "Already finished: out" in finished and "Wrote" not in finished
    shards = ["part-00000-of-00002.parquet", "part-00001-of-00002.parquet"]
    names = ["_manifest.json", *(f"_{shard}.json" for shard in shards), *shards]
    assert sorted(path.name for path in Path("out").iterdir()) == names
    run("text.txt", "new", "--shards", "2", "--worker", "1/2")
    Path("text.txt").write_text("The cat sat .\nIt slept ?\n")
    message = run("text.txt", "new", "--shards", "2", status=1)
    said = "1 of 2 shards could not be made or are damaged. The others are complete. part-00001"
    assert said in message
    assert "text.txt has changed since" in message
    more = ("--shards", "2", "--workers", "x")
    assert "--workers must be 1 or more, or 'ray'" in run("a", "b", *more, status=1)
    assert sorted(path.name for path in Path().iterdir()) == ["new", "out", "text.txt"]


def test_pooled_vectors_of_int8_are_smaller(run):
    run("text.txt", "out.hdf5", "--pool", "sentence", "--dtype", "int8")
    with h5py.File("out.hdf5") as file:
        assert (file["0"].shape, file["0"].dtype) == ((1, 12), "int8")
        names = ["ends", "file", "labels", "line", "scales", "starts"]
        assert sorted(file["0"].attrs) == names
    assert "the text has no entities" in run("text.txt", "b.hdf5", "--only", "ents", status=1)
