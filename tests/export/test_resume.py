"""What a run finds that goes on with another, and what it refuses."""

import os
import shutil
import sys
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest

import spacy_elmo.export.embedder as embedder
import spacy_elmo.export.job as job
from spacy_elmo.export.job import embed_files
from spacy_elmo.export.workplace import Workplace
from spacy_elmo.files import lock

from helpers.prepared import content, random_text
from helpers.written_vectors import SENTENCES, read


class Stop(Exception):
    pass


@pytest.fixture
def embed(folder, tiny_weights, monkeypatch):
    """Embeds `text.txt` to `out.npz`, a chunk a sentence."""
    monkeypatch.setattr(embedder, "CHUNK_BATCHES", 1)

    def run(inputs="text.txt", **settings):
        settings = {"batch_tokens": 1, **settings}
        return embed_files(str(tiny_weights), inputs, folder / "out.npz", **settings)

    return run


@pytest.fixture
def interrupted(embed, monkeypatch):
    """A run that ended after three chunks."""
    write = Workplace.write_chunk

    def stop(workplace, number, digest, entries):
        if number == 3:
            raise Stop
        write(workplace, number, digest, entries)

    with monkeypatch.context() as patched:
        patched.setattr(Workplace, "write_chunk", stop)
        with pytest.raises(Stop):
            embed()
    assert not Path("out.npz").exists()
    assert len(list(Path("out.npz.part/chunks").glob("0*"))) == 3


def test_finished_chunks_are_not_computed_again(embed, interrupted, monkeypatch):
    numbers, write = [], Workplace.write_chunk
    monkeypatch.setattr(
        Workplace, "write_chunk", lambda self, *rest: (numbers.append(rest[0]), write(self, *rest))
    )
    assert embed(resume=True).entries == len(SENTENCES)
    assert numbers == [3, 4, 5]
    assert not Path("out.npz.part").exists()


def test_resuming_what_is_whole_does_nothing(embed, monkeypatch):
    counts = embed()
    before = Path("out.npz").stat().st_mtime_ns
    Path("out.npz.part").mkdir()
    assert embed(resume=True) == counts
    assert Path("out.npz").stat().st_mtime_ns == before
    assert Path("out.npz.part").exists()  # somebody else made it


def test_without_resume(embed, interrupted):
    with pytest.raises(ValueError, match="holds an interrupted run: `resume=True` goes on"):
        embed()
    assert len(list(Path("out.npz.part/chunks").glob("0*"))) == 3
    embed(force=True, layers="average")
    assert len(read("npz", Path("out.npz"))) == len(SENTENCES)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layers": "all"}, "layers is 'all', and was 'top'"),
        ({"dtype": "float16"}, "dtype is 'float16', and was 'float32'"),
        ({"batch_tokens": 2}, "batch_tokens is 2, and was 1"),
        ({"initial_state": "zeros"}, "initial_state is 'zeros', and was 'warm'"),
        ({"format": "spacy"}, "format is 'spacy', and was 'npz'"),
        ({"inputs": "other.txt"}, "inputs is"),
    ],
)
def test_other_settings(embed, interrupted, settings, message):
    Path("other.txt").write_text("other\n")
    with pytest.raises(ValueError, match=message):
        embed(resume=True, **settings)
    assert embed(resume=True).entries == len(SENTENCES)


def test_another_model(embed, interrupted, folder, tiny_weights):
    from spacy_elmo.weights import safetensors_file

    from helpers.models import tiny_bilm

    safetensors_file.write(tiny_bilm(), folder / "x.safetensors")
    with pytest.raises(ValueError, match="model is"):
        embed_files("x.safetensors", "text.txt", folder / "out.npz", batch_tokens=1, resume=True)


def test_input_that_has_changed(embed, interrupted):
    Path("text.txt").write_text("changed\n")
    with pytest.raises(ValueError, match="was begun with other settings: inputs is"):
        embed(resume=True)


def test_input_that_is_read_differently(embed, interrupted, monkeypatch):
    """Another version of a tokenizer, say."""
    monkeypatch.setattr(job, "_digest", lambda *_: "another")
    with pytest.raises(ValueError, match="00000000 holds other tokens than are read now"):
        embed(resume=True)


def test_input_that_changes_meanwhile(embed, monkeypatch):
    write = Workplace.write_chunk

    def change(workplace, *rest):
        write(workplace, *rest)
        os.utime("text.txt", (1, 1))

    monkeypatch.setattr(Workplace, "write_chunk", change)
    with pytest.raises(ValueError, match="changed while it was read"):
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
    with pytest.raises(ValueError, match="holds something else than Docs with vectors"):
        embed_files(str(tiny_weights), "text.txt", folder / "mine", force=True)
    with pytest.raises(ValueError, match="is a folder: give another name"):
        embed_files(str(tiny_weights), "text.txt", folder / "mine", format="npz", force=True)


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
    embed_files(str(tiny_weights), "text.txt", folder / "noted")
    (folder / "noted" / more).write_text("mine")
    make_nlp().to_disk(folder / "pipeline")
    for name in ("noted", "pipeline"):
        before = content(folder / name)
        with pytest.raises(ValueError, match="holds something else than Docs with vectors"):
            embed_files(str(tiny_weights), "text.txt", folder / name, format="spacy", force=True)
        assert content(folder / name) == before


def test_output_that_appears_meanwhile_stays(embed, folder, monkeypatch):
    write = Workplace.write_chunk

    def appear(workplace, *rest):
        write(workplace, *rest)
        (folder / "out.npz").write_text("mine")

    with monkeypatch.context() as patched:
        patched.setattr(Workplace, "write_chunk", appear)
        with pytest.raises(ValueError, match="exists already"):
            embed()
    assert (folder / "out.npz").read_text() == "mine"
    (folder / "out.npz").unlink()
    assert embed(resume=True).entries == len(SENTENCES)


@pytest.mark.skipif(sys.platform == "win32", reason="has other devices")
def test_output_that_is_a_link_or_a_device(folder, tiny_weights):
    (folder / "far").mkdir()
    (folder / "near.npz").symlink_to(folder / "far" / "x.npz")
    embed_files(str(tiny_weights), "text.txt", folder / "near.npz")
    assert (folder / "near.npz").is_symlink()
    assert len(read("npz", folder / "far" / "x.npz")) == len(SENTENCES)
    assert os.listdir(folder / "far") == ["x.npz"]
    os.mkfifo(folder / "fifo.npz")
    with pytest.raises(ValueError, match=r"fifo\.npz is no file"):
        embed_files(str(tiny_weights), "text.txt", folder / "fifo.npz", force=True)
    assert (folder / "fifo.npz").is_fifo()


def test_a_folder_is_back_when_the_new_one_does_not_come(folder, tiny_weights, monkeypatch):
    embed_files(str(tiny_weights), "text.txt", folder / "out")
    before, rename = content(folder / "out"), Path.rename

    def fail(path, target):
        if path.name == "whole":
            raise OSError("no")
        return rename(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", fail)
        with pytest.raises(OSError, match="no"):
            embed_files(str(tiny_weights), "text.txt", folder / "out", layers="all", force=True)
    assert content(folder / "out") == before


def test_an_old_folder_stays_until_the_new_one_is_whole(folder, tiny_weights, monkeypatch):
    embed_files(str(tiny_weights), "text.txt", folder / "out")
    before = content(folder / "out")
    with monkeypatch.context() as patched:
        patched.setattr(Workplace, "publish", lambda self: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            embed_files(str(tiny_weights), "text.txt", folder / "out", layers="average", force=True)
    assert content(folder / "out") == before
    embed_files(str(tiny_weights), "text.txt", folder / "out", layers="average", resume=True)
    assert content(folder / "out") != before
    assert sorted(path.name for path in folder.iterdir()) == ["out", "text.txt"]


def test_no_room_for_both(embed, monkeypatch):
    """Known before the output is begun: the chunks take as much."""
    usage = namedtuple("usage", "free")
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "disk_usage", lambda _: usage(free=100))
        with pytest.raises(OSError, match="cannot be written: No space left on device. Make room"):
            embed()
    assert not Path("out.npz.part/whole").exists()
    assert embed(resume=True).entries == len(SENTENCES)


def test_one_process_at_a_time(embed, interrupted):
    held, message = lock(Path("out.npz.part/chunks/lock")), r"is writing to .*out\.npz\.part"
    with held, pytest.raises(BlockingIOError, match=message):
        embed(resume=True)
    for path in Path("out.npz.part/chunks").glob("0*"):
        path.unlink()  # as if the other had just begun
    held = lock(Path("out.npz.part/chunks/lock"))
    with held, pytest.raises(BlockingIOError, match=message):
        embed(resume=True)
    assert Path("out.npz.part/manifest.json").exists()
    assert embed(resume=True).entries == len(SENTENCES)


def test_chunks_do_not_depend_on_what_was_kept(folder, embed, monkeypatch):
    """The token vectors that one process has kept, and another one has not."""
    (folder / "text.txt").write_text(random_text(300), "utf8")
    embed(batch_tokens=50, layers="all")
    expected = (folder / "out.npz").read_bytes()
    (folder / "out.npz").unlink()
    write, numbers = Workplace.write_chunk, iter(np.random.default_rng(0).integers(1, 9, 99))

    def stop(workplace, number, digest, entries):
        stop.left -= 1
        if stop.left < 0:
            raise Stop
        write(workplace, number, digest, entries)

    monkeypatch.setattr(Workplace, "write_chunk", stop)
    n_stopped = 0
    while True:
        stop.left = next(numbers)
        try:
            embed(batch_tokens=50, layers="all", resume=True)
        except Stop:
            n_stopped += 1
        else:
            break
    assert n_stopped > 3
    assert (folder / "out.npz").read_bytes() == expected
