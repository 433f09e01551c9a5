"""What a run finds that goes on with another, and what it refuses."""

import gzip
import multiprocessing
import os
import shutil
import sys
from collections import namedtuple
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

import spacy_elmo.export.plan as planning
import spacy_elmo.export.sharding as sharding
from spacy_elmo.export.sharding import embed_corpus
from spacy_elmo.files import lock

from helpers.forked import HAS_FORKS
from helpers.prepared import content, random_text
from helpers.written_vectors import SENTENCES, read


class Stop(Exception):
    pass


def shards():
    return sorted(path.name for path in Path("out.npz.part/shards").glob("part-*"))


@pytest.fixture
def written(monkeypatch):
    """Lists the entries of each shard that is made; `stop_at` is the one that is not."""
    write, found = sharding.write_embedded, []

    def count(path, entries):
        if len(found) == count.stop_at:
            raise Stop
        found.append(list(entries))
        write(path, found[-1])

    count.stop_at, count.found = None, found
    monkeypatch.setattr(sharding, "write_embedded", count)
    return count


@pytest.fixture
def interrupted(embed, written):
    """A run that ended after three shards."""
    written.stop_at = 3
    with pytest.raises(Stop):
        embed()
    written.stop_at = None
    written.found.clear()
    assert not Path("out.npz").exists()
    assert len(shards()) == 3


@pytest.mark.parametrize("settings", [{}, {"resume": True}, {"resume": True, "force": True}])
def test_finished_shards_are_not_computed_again(embed, interrupted, written, settings):
    assert embed(**settings).entries == len(SENTENCES)
    assert [[entry.words for entry in shard] for shard in written.found] == [
        [words] for words in SENTENCES[3:]
    ]
    assert not Path("out.npz.part").exists()


def test_resuming_what_is_whole_does_nothing(embed, monkeypatch):
    counts = embed()
    before = Path("out.npz").stat().st_mtime_ns
    Path("out.npz.part").mkdir()
    assert embed(resume=True) == counts
    assert Path("out.npz").stat().st_mtime_ns == before
    assert Path("out.npz.part").exists()  # somebody else made it


def test_what_is_whole_has_the_same_numbers(folder, tiny_weights):
    options = {"pool": "sentence", "resume": True}
    numbers = [
        asdict(embed_corpus(str(tiny_weights), "text.txt", "out.hdf5", **options)) for _ in range(2)
    ]
    assert numbers[0] == numbers[1]
    assert numbers[0]["vectors"] == sum(map(bool, SENTENCES)) < numbers[0]["tokens"]


def test_force_begins_again(embed, interrupted, written):
    embed(force=True, layers="average")
    assert len(written.found) == len(SENTENCES)
    assert len(read("npz", Path("out.npz"))) == len(SENTENCES)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layers": "all"}, "layers is 'all', but was 'top'"),
        ({"dtype": "float16"}, "dtype is 'float16', but was 'float32'"),
        ({"batch_tokens": 2}, "batch_tokens is 2, but was 1"),
        ({"initial_state": "zeros"}, "initial_state is 'zeros', but was 'warm'"),
        ({"format": "spacy"}, "format is 'spacy', but was 'npz'"),
        ({"inputs": "other.txt"}, "inputs is"),
    ],
)
def test_other_settings(embed, interrupted, settings, message):
    Path("other.txt").write_text("other\n")
    for resume in (True, False):
        with pytest.raises(ValueError, match=message) as error:
            embed(resume=resume, **settings)
        assert "out.npz.part" in str(error.value) and "`force=True`" in str(error.value)
    assert len(shards()) == 3
    assert embed(resume=True).entries == len(SENTENCES)


def test_another_model(embed, interrupted, folder, tiny_weights):
    from spacy_elmo.weights import safetensors_file

    from helpers.models import tiny_bilm

    safetensors_file.write(tiny_bilm(), folder / "x.safetensors")
    with pytest.raises(ValueError, match="model is"):
        embed_corpus("x.safetensors", "text.txt", folder / "out.npz", batch_tokens=1, resume=True)


def test_input_that_has_changed(embed, interrupted):
    Path("text.txt").write_text("changed\n")
    with pytest.raises(ValueError, match="was started with other settings: inputs is"):
        embed(resume=True)


def test_input_that_changes_meanwhile(embed, written, monkeypatch):
    """Before a part of it is read; or between its checksum and the plan."""
    text = Path("text.txt").read_text("utf8")
    plan = planning.make_plan

    def change(*arguments, **settings):
        Path("text.txt").write_text(text.replace("end", "END"), "utf8")
        return plan(*arguments, **settings)

    with monkeypatch.context() as patched:
        patched.setattr(sharding, "make_plan", change)
        with pytest.raises(ValueError, match=r"text\.txt has changed while it was read"):
            embed()
    Path("text.txt").write_text(text, "utf8")
    written.stop_at = 3
    with pytest.raises(Stop):
        embed()
    describe = sharding.check_settings

    def change_later(*arguments):
        Path("text.txt").write_text(text.replace("end", "END"), "utf8")
        describe(*arguments)

    written.stop_at = None
    monkeypatch.setattr(sharding, "check_settings", change_later)
    with pytest.raises(ValueError, match=r"text\.txt has changed since the shards were planned"):
        embed()
    assert not Path("out.npz").exists()


def test_nothing_is_overwritten(embed, folder):
    (folder / "out.npz").write_text("mine")
    for settings in ({}, {"resume": True}):
        with pytest.raises(ValueError, match="exists already"):
            embed(**settings)
    assert (folder / "out.npz").read_text() == "mine"
    embed(force=True)
    assert len(read("npz", folder / "out.npz")) == len(SENTENCES)


def test_another_folder_is_no_output(folder, tiny_weights):
    (folder / "mine").mkdir()
    (folder / "mine" / "x").write_text("")
    with pytest.raises(ValueError, match="contains files that are not Docs"):
        embed_corpus(str(tiny_weights), "text.txt", folder / "mine", force=True)
    with pytest.raises(ValueError, match="is a folder. Give another name"):
        embed_corpus(str(tiny_weights), "text.txt", folder / "mine", format="npz", force=True)


@pytest.mark.parametrize("content", [{}, {"x": "mine"}, {"manifest.json": "{}", "chunks": None}])
def test_a_folder_in_the_place_of_the_unfinished_one(embed, folder, content):
    """It is a user's, or of an earlier version, whose folders had no mark."""
    part = folder / "out.npz.part"
    part.mkdir()
    for name, text in content.items():
        (part / name).mkdir() if text is None else (part / name).write_text(text)
    for settings in ({}, {"force": True}, {"resume": True}):
        with pytest.raises(ValueError, match=r"out\.npz\.part is in the way: .* Move it away"):
            embed(**settings)
    assert {path.name for path in part.iterdir()} == set(content)
    assert not (folder / "out.npz").exists()


def test_half_finished_by_an_earlier_version(embed, folder):
    part = folder / "out.npz.part"
    (part / "chunks").mkdir(parents=True)
    for name in (".spacy-elmo", "manifest.json", "chunks/00000000"):
        (part / name).write_text("")
    for settings in ({}, {"resume": True}, {"resume": True, "force": True}):
        with pytest.raises(
            ValueError, match=r"out\.npz\.part was started by another .*`force=True`"
        ):
            embed(**settings)
    assert (part / "chunks" / "00000000").exists()
    assert embed(force=True).entries == len(SENTENCES)
    assert not part.exists()


def test_the_unfinished_folder_is_no_link(embed, folder):
    (folder / "victim").mkdir()
    (folder / "victim" / "manifest.json").write_text("mine")
    (folder / "out.npz.part").symlink_to(folder / "victim")
    for settings in ({}, {"force": True}, {"resume": True}):
        with pytest.raises(ValueError, match=r"out\.npz\.part is in the way"):
            embed(**settings)
    assert os.listdir(folder / "victim") == ["manifest.json"]


@pytest.mark.parametrize("more", ["README.md", "00000001.spacy.bak"])
def test_only_folders_that_embed_writes_are_replaced(folder, tiny_weights, make_nlp, more):
    embed_corpus(str(tiny_weights), "text.txt", folder / "noted")
    (folder / "noted" / more).write_text("mine")
    make_nlp().to_disk(folder / "pipeline")
    for name in ("noted", "pipeline"):
        before = content(folder / name)
        with pytest.raises(ValueError, match="contains files that are not Docs"):
            embed_corpus(str(tiny_weights), "text.txt", folder / name, format="spacy", force=True)
        assert content(folder / name) == before


def test_output_that_appears_meanwhile_stays(embed, folder, monkeypatch):
    write = sharding.write_embedded

    def appear(*rest):
        write(*rest)
        (folder / "out.npz").write_text("mine")

    with monkeypatch.context() as patched:
        patched.setattr(sharding, "write_embedded", appear)
        with pytest.raises(ValueError, match="exists already"):
            embed()
    assert (folder / "out.npz").read_text() == "mine"
    (folder / "out.npz").unlink()
    assert embed(resume=True).entries == len(SENTENCES)


@pytest.mark.skipif(sys.platform == "win32", reason="has other devices")
def test_output_that_is_a_link_or_a_device(folder, tiny_weights):
    (folder / "far").mkdir()
    (folder / "near.npz").symlink_to(folder / "far" / "x.npz")
    embed_corpus(str(tiny_weights), "text.txt", folder / "near.npz")
    assert (folder / "near.npz").is_symlink()
    assert len(read("npz", folder / "far" / "x.npz")) == len(SENTENCES)
    assert os.listdir(folder / "far") == ["x.npz"]
    os.mkfifo(folder / "fifo.npz")
    with pytest.raises(ValueError, match=r"fifo\.npz is not a regular file"):
        embed_corpus(str(tiny_weights), "text.txt", folder / "fifo.npz", force=True)
    assert (folder / "fifo.npz").is_fifo()


def test_a_folder_is_back_when_the_new_one_does_not_come(folder, tiny_weights, monkeypatch):
    embed_corpus(str(tiny_weights), "text.txt", folder / "out")
    before, rename = content(folder / "out"), Path.rename

    def fail(path, target):
        if path.name == "whole":
            raise OSError("no")
        return rename(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", fail)
        with pytest.raises(OSError, match="no"):
            embed_corpus(str(tiny_weights), "text.txt", folder / "out", layers="all", force=True)
    assert content(folder / "out") == before


def test_no_room_for_both(embed, monkeypatch):
    """Known before the output is begun: the shards take as much."""
    usage = namedtuple("usage", "free")
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "disk_usage", lambda _: usage(free=100))
        with pytest.raises(OSError, match="cannot be written: No space left on device. Make room"):
            embed()
    assert not Path("out.npz.part/joining/whole").exists()
    assert embed(resume=True).entries == len(SENTENCES)


def test_one_process_at_a_time(embed, interrupted):
    held, message = lock(Path("out.npz.part/joining/lock")), r"is writing to .*out\.npz\.part"
    for settings in ({"resume": True}, {"force": True}):
        with held, pytest.raises(BlockingIOError, match=message):
            embed(**settings)
        held = lock(Path("out.npz.part/joining/lock"))
    assert len(shards()) == 3
    assert embed(resume=True).entries == len(SENTENCES)


@pytest.mark.processes
def test_workers(folder, embed, monkeypatch):
    """The same bytes as of one process."""
    (folder / "text.txt").write_text(random_text(40), "utf8")
    monkeypatch.setattr(planning, "SHARD_SIZE", 200)
    embed(batch_tokens=50)
    expected = (folder / "out.npz").read_bytes()
    if HAS_FORKS:  # test_sharding.py has workers that import PyTorch again
        fork = multiprocessing.get_context("fork")
        monkeypatch.setattr(multiprocessing, "get_context", lambda method: fork)
    embed(batch_tokens=50, workers=2, force=True)
    assert (folder / "out.npz").read_bytes() == expected


@pytest.mark.parametrize("name", ["text.txt", "x.jsonl"])
def test_packed_input_is_cut(folder, embed, written, name):
    """So an interruption does not lose all of it; the vectors are those of the plain file."""
    Path("other.txt").write_text("other\n")
    mark = b"\xef\xbb\xbf" if name == "text.txt" else b""
    lines = Path("text.txt").read_bytes()
    if name == "x.jsonl":
        lines = b"".join(b'{"tokens": ["%d", "x"]}\n' % i for i in range(6))
    Path(name).write_bytes(mark + lines)
    Path(f"{name}.gz").write_bytes(gzip.compress(mark + lines))
    embed(name)
    expected = read("npz", Path("out.npz"))
    written.found.clear()
    assert embed([f"{name}.gz", "other.txt"], force=True).entries == len(expected) + 1
    assert len(written.found) == len(expected) + 1
    for ours, theirs in zip(read("npz", Path("out.npz")), expected):
        np.testing.assert_array_equal(ours, theirs)
