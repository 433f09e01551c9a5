"""Killed at each step and resumed: the same bytes as of a run that was left alone."""

import os
import shutil
from functools import lru_cache
from pathlib import Path

import pytest

import spacy_elmo.export.plan as planning
import spacy_elmo.export.sharding as sharding
from spacy_elmo.export.sharding import embed_corpus

from helpers.killed import (
    in_child,
    killed_at_each_step,
    left_at_each_step,
    left_in,
    stopped_at_each_step,
)
from helpers.prepared import content

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
ALONE, KILLED = Path("alone"), Path("killed")


def bytes_of(path):
    return content(path) if path.is_dir() else path.read_bytes()


@pytest.fixture
def model(folder, tiny_weights, monkeypatch):
    """The model is read here once, not by each child. A line is a shard."""
    (folder / "text.txt").write_text("The cat sat .\nOne more\n", "utf8")
    monkeypatch.setattr(planning, "SHARD_SIZE", 1)
    monkeypatch.setattr(planning, "CHUNK_SIZE", 1)
    monkeypatch.setattr(sharding, "CorpusEmbedder", lru_cache(sharding.CorpusEmbedder))
    return str(tiny_weights)


@pytest.fixture
def embed(model, folder):
    """Embeds two sentences."""

    def run(output=KILLED, batch_tokens=1, **settings):
        embed_corpus(model, "text.txt", output, batch_tokens=batch_tokens, **settings)

    run(Path("warm.npz"))
    (folder / "warm.npz").unlink()
    return run


@pytest.mark.parametrize("format", ["hdf5", "spacy"])
def test_embed(embed, folder, format):
    in_child(lambda: embed(ALONE, format=format))
    expected = bytes_of(ALONE)
    for step in left_at_each_step(lambda: embed(format=format), folder):
        assert not KILLED.exists() or bytes_of(KILLED) == expected
        embed(format=format, resume=True)
        assert bytes_of(KILLED) == expected, step
        assert len(left_in(folder)) == 3, step
    assert step > 20
    assert bytes_of(KILLED) == expected


def test_embed_killed_again_and_again(embed):
    in_child(lambda: embed(ALONE, format="npz"))
    for _ in killed_at_each_step(lambda: embed(format="npz", resume=True)):
        pass
    assert bytes_of(KILLED) == bytes_of(ALONE)


@pytest.mark.parametrize("format", ["npz", "spacy"])
def test_embed_over_an_earlier_output(embed, folder, format):
    """Which is there until the new one is; a folder is moved away for a moment."""
    in_child(lambda: embed(ALONE, format=format))
    in_child(lambda: embed(Path("earlier"), format=format, layers="average"))
    expected, earlier = bytes_of(ALONE), bytes_of(Path("earlier"))

    (shutil.copytree if format == "spacy" else shutil.copy)("earlier", KILLED)
    for step in left_at_each_step(lambda: embed(format=format, force=True), folder):
        moved = Path("killed.part/previous/killed")
        assert bytes_of(KILLED if KILLED.exists() else moved) in (earlier, expected), step
        embed(format=format, force=True, resume=True)
        assert bytes_of(KILLED) == expected, step
        assert len(left_in(folder)) == 4, step
    assert bytes_of(KILLED) == expected


@pytest.fixture
def shard(model, folder):
    """Makes two shards, and what a run that is left alone made."""

    def run(output=KILLED, **settings):
        place = f"{folder.as_uri()}/{output}" if settings.pop("url", False) else output
        embed_corpus(model, "text.txt", place, shards=2, batch_tokens=100, **settings)

    run("warm")
    shutil.rmtree("warm")
    return run


KINDS = [{"format": "parquet"}, {"format": "spacy"}, {"url": True}]


@pytest.mark.parametrize("settings", KINDS)
def test_shards(shard, folder, settings):
    in_child(lambda: shard(ALONE, **settings))
    expected = content(ALONE)
    assert len(list(ALONE.glob("part-*"))) == 2
    for step in left_at_each_step(lambda: shard(**settings), folder):
        shard(**settings)
        assert content(KILLED) == expected, step
    assert step > 15
    assert content(KILLED) == expected


def test_shards_killed_again_and_again(shard):
    in_child(lambda: shard(ALONE))
    for _ in killed_at_each_step(shard):
        pass
    assert content(KILLED) == content(ALONE)


@pytest.mark.parametrize("settings", KINDS)
def test_two_that_make_the_same_shards(shard, settings):
    """One stands still at each of its steps while the other does all the work."""
    in_child(lambda: shard(ALONE, **settings))
    for step in stopped_at_each_step(lambda: shard(**settings)):
        in_child(lambda: shard(**settings))
        assert [path.name for path in sorted(KILLED.glob("part-*"))] == [
            path.name for path in sorted(ALONE.glob("part-*"))
        ], step
    assert content(KILLED) == content(ALONE)
