"""Runs of `embed` that are killed at each step and resumed: the bytes of an undisturbed run."""

import os
import shutil
from functools import lru_cache
from pathlib import Path

import pytest

import spacy_elmo.export.plan as planning

import helpers.embedded
from helpers.embedded import embed_corpus
from helpers.killed import (
    in_child,
    killed_at_each_step,
    left_at_each_step,
    left_in,
    stopped_at_each_step,
)
from helpers.prepared import content

pytestmark = [
    pytest.mark.processes,
    pytest.mark.corpora,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="forks"),
]
ALONE, KILLED = Path("alone"), Path("killed")


def bytes_of(path):
    return content(path) if path.is_dir() else path.read_bytes()


def parts_of(folder):
    return {name for name in content(folder) if name.startswith("part-")}


@pytest.fixture
def embed(folder, tiny_weights, monkeypatch):
    """Return a function that embeds two sentences, a line per shard. The model is read once, and
    not by each child."""
    (folder / "text.txt").write_text("The cat sat .\nOne more\n", "utf8")
    monkeypatch.setattr(planning, "SHARD_SIZE", 1)
    monkeypatch.setattr(planning, "CHUNK_SIZE", 1)
    monkeypatch.setattr(helpers.embedded, "Embedder", lru_cache(helpers.embedded.Embedder))

    def run(output=KILLED, **settings):
        settings = {"batch_tokens": 100 if "shards" in settings else 1, **settings}
        place = f"{folder.as_uri()}/{output}" if settings.pop("url", False) else output
        embed_corpus(str(tiny_weights), "text.txt", place, **settings)

    for settings in ({"output_format": "npz"}, {"shards": 2}):
        run("warm", **settings)
        shutil.rmtree("warm") if "shards" in settings else Path("warm").unlink()
    return run


SHARDS = [{"output_format": "parquet"}, {"output_format": "spacy"}, {"url": True}]
SHARDS = [{"shards": 2, **kind} for kind in SHARDS]


@pytest.mark.parametrize(
    "settings", [{"output_format": "hdf5"}, {"output_format": "spacy"}, *SHARDS]
)
def test_a_kill_at_any_step_can_be_resumed(embed, folder, settings):
    in_child(lambda: embed(ALONE, **settings))
    expected = bytes_of(ALONE)
    assert "shards" not in settings or len(list(ALONE.glob("part-*"))) == 2
    for step in left_at_each_step(lambda: embed(**settings), folder):
        assert "shards" in settings or not KILLED.exists() or bytes_of(KILLED) == expected, step
        embed(resume=True, **settings)
        assert bytes_of(KILLED) == expected, step
        assert len(left_in(folder)) == 3, step
    assert step > 15


@pytest.mark.parametrize("settings", [{"output_format": "npz", "resume": True}, {"shards": 2}])
def test_repeated_kills_can_be_resumed(embed, settings):
    in_child(lambda: embed(ALONE, **settings))
    for _ in killed_at_each_step(lambda: embed(**settings)):
        pass
    assert bytes_of(KILLED) == bytes_of(ALONE)


@pytest.mark.parametrize("format", ["npz", "spacy"])
def test_an_earlier_output_stays_until_the_new_one_is_whole(embed, folder, format):
    """A folder is moved away for a moment."""
    in_child(lambda: embed(ALONE, output_format=format))
    in_child(lambda: embed("earlier", output_format=format, layers="average"))
    expected, earlier = bytes_of(ALONE), bytes_of(Path("earlier"))
    (shutil.copytree if format == "spacy" else shutil.copy)("earlier", KILLED)
    for step in left_at_each_step(lambda: embed(output_format=format, force=True), folder):
        moved = Path("killed.part/previous/killed")
        assert bytes_of(KILLED if KILLED.exists() else moved) in (earlier, expected), step
        embed(output_format=format, force=True, resume=True)
        assert bytes_of(KILLED) == expected, step
        assert len(left_in(folder)) == 4, step
    assert bytes_of(KILLED) == expected


@pytest.mark.parametrize("settings", SHARDS)
def test_two_processes_can_make_the_same_shards(embed, settings):
    """One stops at each of its steps while the other does all the work."""
    in_child(lambda: embed(ALONE, **settings))
    for step in stopped_at_each_step(lambda: embed(**settings)):
        in_child(lambda: embed(**settings))
        assert parts_of(KILLED) == parts_of(ALONE), step
    assert content(KILLED) == content(ALONE)
