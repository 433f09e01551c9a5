"""Resumed runs of `embed`: finished shards are used, and other settings or changed files are
refused."""

import bz2
import lzma
import os
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

import spacy_elmo.export.joining as joining
import spacy_elmo.export.plan as planning
import spacy_elmo.export.sharding as sharding
from spacy_elmo.export import ExportSettings
from spacy_elmo.export.pieces import InputPiece
from spacy_elmo.files import lock, make_ours
from spacy_elmo.weights import safetensors_file

from helpers.calls import note_calls
from helpers.embedded import embed_corpus
from helpers.full_disk import room_for
from helpers.gzipped import gzipped
from helpers.models import tiny_bilm
from helpers.prepared import content, random_text
from helpers.written_vectors import FORMATS, SENTENCES, read

pytestmark = pytest.mark.corpora


def shards(output="out.npz"):
    return sorted(path.name for path in Path(f"{output}.part/shards").glob("part-*"))


@pytest.fixture
def interrupted(embed, written):
    """Interrupt a run after three shards."""
    written.stop_at = 3
    with pytest.raises(InterruptedError):
        embed()
    written.stop_at = None
    written.found.clear()
    assert not Path("out.npz").exists()
    assert len(shards()) == 3


RESUMED = [{}, {"resume": True}, {"resume": True, "force": True}]


@pytest.mark.parametrize("settings", [*RESUMED, {"force": True, "layers": "average"}])
def test_finished_shards_are_not_computed_again(embed, interrupted, written, settings):
    """With only `force`, the run begins again."""
    n_kept = 0 if "layers" in settings else 3
    assert embed(**settings).entries == len(read("npz", Path("out.npz"))) == len(SENTENCES)
    assert [entry.words for shard in written.found for entry in shard] == SENTENCES[n_kept:]
    assert not Path("out.npz.part").exists()


def test_resuming_a_finished_run_does_nothing(folder, tiny_weights):
    """The call returns the same counts."""
    settings = {"pool": "sentence", "resume": True}
    counts = embed_corpus(str(tiny_weights), "text.txt", "out.hdf5", **settings)
    assert asdict(counts) == {"entries": 6, "tokens": 16, "vectors": 5}
    before = Path("out.hdf5").stat().st_mtime_ns
    Path("out.hdf5.part").mkdir()
    assert embed_corpus(str(tiny_weights), "text.txt", "out.hdf5", **settings) == counts
    assert Path("out.hdf5").stat().st_mtime_ns == before
    assert Path("out.hdf5.part").exists()  # somebody else made it


def test_other_settings_are_refused(embed, interrupted, folder):
    safetensors_file.write(tiny_bilm(), folder / "x.safetensors")
    Path("other.txt").write_text("other\n")
    for settings, message in (
        ({"dtype": "float16"}, "dtype is 'float16', but was 'float32'"),
        ({"output_format": "spacy"}, "output_format is 'spacy', but was 'npz'"),
        ({"model": "x.safetensors"}, "model is"),
        ({"inputs": "other.txt"}, "inputs is"),
    ):
        for resume in (True, False):
            with pytest.raises(ValueError, match=f"other settings: .*{message}") as error:
                embed(resume=resume, **settings)
            assert "out.npz.part" in str(error.value) and "`force=True`" in str(error.value)
    assert len(shards()) == 3
    before = Path("text.txt").read_text("utf8")
    Path("text.txt").write_text("changed\n")
    with pytest.raises(ValueError, match="was started with other settings: inputs is"):
        embed(resume=True)
    Path("text.txt").write_text(before, "utf8")
    assert embed(resume=True).entries == len(SENTENCES)


def test_an_input_that_changes_meanwhile_is_refused(embed, written, monkeypatch):
    """The change comes between its checksum and the plan, or before a part of it is read."""
    text = Path("text.txt").read_text("utf8")

    def change(*_, **__):
        Path("text.txt").write_text(text.replace("end", "END"), "utf8")

    with monkeypatch.context() as patched:
        note_calls(patched, joining, "make_plan", change)
        with pytest.raises(ValueError, match=r"text\.txt has changed while it was read"):
            embed()
    Path("text.txt").write_text(text, "utf8")
    written.stop_at = 3
    with pytest.raises(InterruptedError):
        embed()
    written.stop_at = None
    note_calls(monkeypatch, sharding, "check_settings", change)
    with pytest.raises(ValueError, match=r"text\.txt has changed since the shards were planned"):
        embed()
    assert not Path("out.npz").exists()


def test_no_file_is_overwritten(embed, folder, monkeypatch):
    """The file was there before, or appears meanwhile."""
    output = folder / "out.npz"
    with monkeypatch.context() as patched:
        note_calls(patched, sharding, "write_embedded", lambda *_: output.write_text("mine"))
        for settings in ({}, {}, {"resume": True}):
            with pytest.raises(ValueError, match="exists already"):
                embed(**settings)
            assert output.read_text() == "mine"
    output.unlink()
    assert embed(resume=True).entries == len(SENTENCES)
    output.write_text("mine")
    embed(force=True)
    assert len(read("npz", output)) == len(SENTENCES)


OLD_FILES = ["manifest.json", "chunks/00000000"]


@pytest.mark.parametrize("is_link", [False, True])
@pytest.mark.parametrize("names", [[], ["x"], OLD_FILES, [".spacy-elmo", *OLD_FILES]])
def test_a_user_s_folder_in_the_place_of_the_unfinished_one_stays(embed, folder, names, is_link):
    """A folder without the mark is a user's. One with the mark can still contain a user's files."""
    part = folder / "out.npz.part"
    place = folder / "victim" if is_link else part
    (place / "chunks").mkdir(parents=True)
    for name in names:
        (place / name).write_text("mine")
    if is_link:
        part.symlink_to(place)
    is_ours = ".spacy-elmo" in names and not is_link
    message = (
        "contains other files .*such as .*`force=True`" if is_ours else "is in the way: .* Move it"
    )
    for settings in ({}, {"resume": True}, {"resume": is_ours, "force": True}):
        with pytest.raises(ValueError, match=rf"out\.npz\.part {message}"):
            embed(**settings)
    assert content(place) == dict.fromkeys(names, b"mine")
    assert not (folder / "out.npz").exists()
    if is_ours:
        assert embed(force=True).entries == len(SENTENCES)
        assert not part.exists()


@pytest.mark.parametrize("place", ["shards", "joining"])
def test_a_user_s_file_in_an_unfinished_output_stays(embed, interrupted, place):
    """`force` deletes it, as the error says."""
    mine = Path("out.npz.part", place, "mine.txt")
    mine.write_text("mine")
    for settings in ({}, {"resume": True}):
        with pytest.raises(ValueError, match=rf"such as {place}/mine\.txt.*`force=True`"):
            embed(**settings)
    Path("out.npz.part/shards/_manifest.json").unlink()
    with pytest.raises(ValueError, match=rf"such as {place}/mine\.txt"):
        embed()
    assert mine.read_text() == "mine"
    assert embed(force=True).entries == len(SENTENCES)


@pytest.mark.parametrize("shards", [None, 1])
@pytest.mark.parametrize("output", [".", "/", ""])
def test_an_output_without_a_name_is_refused(folder, tiny_weights, output, shards):
    with pytest.raises(ValueError, match="has no name. Give the name of a new file or folder"):
        embed_corpus(str(tiny_weights), "text.txt", output, output_format="spacy", shards=shards)


def test_long_settings_of_npz_are_stored(folder, embed, monkeypatch):
    """The comment of a zip archive has at most 65,535 bytes."""
    monkeypatch.setattr("zipfile.ZIP_MAX_COMMENT", 100)
    embed()
    before = Path("out.npz").read_bytes()
    assert embed(resume=True).entries == len(SENTENCES)
    assert Path("out.npz").read_bytes() == before
    with pytest.raises(ValueError, match="exists already"):
        embed(resume=True, layers="average")
    monkeypatch.setattr("spacy_elmo.export.npz_output.MAX_SETTINGS", 100)
    with pytest.raises(ValueError, match="exists already"):
        embed(resume=True)


@pytest.mark.parametrize(
    ("name", "pack"), [("gz", gzipped), ("xz", lzma.compress), ("bz2", bz2.compress)]
)
def test_the_number_of_parts_of_a_compressed_file_is_limited(folder, monkeypatch, name, pack):
    """Each part unpacks the file from its start. The file has two streams."""
    monkeypatch.setattr(planning, "SHARD_SIZE", 1000)
    monkeypatch.setattr(planning, "CHUNK_SIZE", 1000)
    monkeypatch.setattr(planning, "MAX_SHARDS", 5)
    data = random_text(2000).encode()
    path = Path(f"x.txt.{name}")
    path.write_bytes(pack(data[:2500]) + pack(data[2500:]))
    plan = planning.make_plan([InputPiece(str(path))], None, ExportSettings())
    pieces = [piece for shard in plan for piece in shard]
    assert 1 < len(pieces) <= 6
    for piece in pieces:
        with piece.open() as part:
            assert part.read() == data[piece.start : piece.stop]
    assert [piece.start for piece in pieces] == [0, *(piece.stop for piece in pieces[:-1])]
    assert pieces[-1].stop == len(data)


@pytest.mark.pipelines
def test_the_model_is_not_overwritten(folder, tiny_weights, make_nlp):
    """Neither its weights, given as file, link or folder, nor its other files or a pipeline."""
    shutil.copytree(tiny_weights.parent, "model")
    weights = Path("model", tiny_weights.name)
    Path("link.hdf5").symlink_to(weights)
    make_nlp().to_disk("pipeline")
    before = content(folder)
    others = [path for path in Path("model").iterdir() if path != weights]
    assert others
    for model, output in (
        *((weights, output) for output in (weights, *others, "link.hdf5")),
        *((model, weights) for model in ("link.hdf5", "model")),
        ("pipeline", "pipeline/vectors.hdf5"),
    ):
        with pytest.raises(ValueError, match="belongs to the model .* Choose another output"):
            embed_corpus(str(model), "text.txt", output, force=True, output_format="hdf5")
    assert content(folder) == before
    embed_corpus("model", "text.txt", "model/vectors.npz")  # A new file in its folder.


@pytest.mark.pipelines
def test_only_folders_that_embed_writes_are_replaced(folder, tiny_weights, make_nlp):
    make_nlp().to_disk(folder / "pipeline")
    for name, more in (("noted", "README.md"), ("kept", "00000001.spacy.bak"), ("pipeline", "x")):
        if name != "pipeline":
            embed_corpus(str(tiny_weights), "text.txt", folder / name)
        (folder / name / more).write_text("mine")
        before, message = content(folder / name), "contains files that are not Docs"
        with pytest.raises(ValueError, match=message):
            embed_corpus(
                str(tiny_weights), "text.txt", folder / name, output_format="spacy", force=True
            )
        assert content(folder / name) == before
    with pytest.raises(ValueError, match="is a folder. Give another name"):
        embed_corpus(str(tiny_weights), "text.txt", folder / name, output_format="npz", force=True)


@pytest.mark.skipif(sys.platform == "win32", reason="has other devices")
def test_links_are_followed_and_devices_refused(folder, tiny_weights):
    near, far, fifo = folder / "near.npz", folder / "far" / "x.npz", folder / "fifo.npz"
    far.parent.mkdir()
    near.symlink_to(far)
    embed_corpus(str(tiny_weights), "text.txt", near)
    assert near.is_symlink() and os.listdir("far") == ["x.npz"]
    assert len(read("npz", far)) == len(SENTENCES)
    os.mkfifo(fifo)
    with pytest.raises(ValueError, match=r"fifo\.npz is not a regular file"):
        embed_corpus(str(tiny_weights), "text.txt", fifo, force=True)
    assert fifo.is_fifo()


def test_an_old_folder_is_restored_if_the_new_one_fails(folder, tiny_weights, monkeypatch):
    embed_corpus(str(tiny_weights), "text.txt", folder / "out")
    before, rename = content(folder / "out"), Path.rename

    def fail(path, target):
        if path.name == "whole":
            raise OSError("no")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(OSError, match="no"):
        embed_corpus(str(tiny_weights), "text.txt", folder / "out", layers="all", force=True)
    assert content(folder / "out") == before


@pytest.mark.parametrize("format", FORMATS)
def test_a_run_on_a_full_disk_can_be_resumed(embed, folder, monkeypatch, format):
    """The disk is full before the first shard, or while shards are joined."""
    monkeypatch.setattr(planning, "SHARD_SIZE", 600)
    monkeypatch.setattr(planning, "CHUNK_SIZE", 200)
    (folder / "text.txt").write_text(random_text(300), "utf8")
    settings = {"output_format": format, "layers": "all", "batch_tokens": 400, "resume": True}
    output = folder / "out.npz"
    message = f"^{output} cannot be written: File too large. Make room and .* `resume=True`"
    for room, has_shards in ((9_000, False), (100_000, True)):
        with room_for(room), pytest.raises(OSError, match=message):
            embed(**settings)
        assert not output.exists()
        assert bool(shards()) == has_shards
    embed(**settings)
    assert len(read(format, output)) == 300


def test_too_little_room_for_shards_and_output_is_noticed(embed, monkeypatch):
    """The error comes before the output is begun. The shards take as much room as the output."""
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "disk_usage", lambda _: Mock(free=100))
        with pytest.raises(OSError, match="cannot be written: No space left on device. Make room"):
            embed()
    assert not Path("out.npz.part/joining/whole").exists()
    assert embed(resume=True).entries == len(SENTENCES)


def test_a_second_process_is_refused(embed, interrupted):
    refused = pytest.raises(BlockingIOError, match=r"is writing to .*out\.npz\.part")
    for settings in ({"resume": True}, {"force": True}):
        with lock(Path("out.npz.part/joining/lock")), refused:
            embed(**settings)
    assert len(shards()) == 3
    assert embed(resume=True).entries == len(SENTENCES)


@pytest.mark.parametrize("name", ["text.txt", "x.jsonl"])
def test_compressed_input_is_cut_into_shards(folder, embed, written, name):
    """An interruption then loses only a part. The vectors equal those of the plain file."""
    Path("other.txt").write_text("other\n")
    lines = b"\xef\xbb\xbf" + Path("text.txt").read_bytes()
    if name == "x.jsonl":
        lines = b"".join(b'{"tokens": ["%d", "x"]}\n' % i for i in range(6))
    Path(name).write_bytes(lines)
    Path(f"{name}.gz").write_bytes(gzipped(lines))
    embed(name)
    expected = read("npz", Path("out.npz"))
    written.found.clear()
    assert embed([f"{name}.gz", "other.txt"], force=True).entries == len(expected) + 1
    assert len(written.found) == len(expected) + 1
    found = read("npz", Path("out.npz"))[: len(expected)]
    np.testing.assert_array_equal(np.concatenate(found), np.concatenate(expected))


@pytest.mark.parametrize("name", ["", "shards", "joining"])
def test_a_link_in_the_place_of_the_unfinished_output_is_not_followed(
    embed, folder, monkeypatch, name
):
    """The link appears between two steps. Nothing in its target is deleted or written."""
    part, victim = folder / "out.npz.part" / name, folder / "victim"

    def swap(*_):
        part.rename(victim)
        part.symlink_to(victim)
        swap.content = content(victim)

    note_calls(monkeypatch, joining, "_join", swap)
    with pytest.raises(ValueError, match="is in the way|is a link now"):
        embed()
    assert content(victim) == swap.content
    assert not (folder / "out.npz").exists()


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("name", ["shards", "joining", "joining/whole", "joining/lock"])
def test_a_link_in_an_earlier_unfinished_output_is_not_followed(embed, folder, name, force):
    """Other programs can put a link there between two runs."""
    make_ours(folder / "out.npz.part")
    link, victim = folder / "out.npz.part" / name, folder / "victim"
    link.parent.mkdir(exist_ok=True)
    if "/" in name:
        victim.write_text("mine")
    else:
        victim.mkdir()
    link.symlink_to(victim)
    with pytest.raises(ValueError, match=f"{name} is a link now, and is not followed"):
        embed(force=force)
    assert victim.read_text() == "mine" if "/" in name else not content(victim)


@pytest.mark.parametrize("n_bytes", [240, 251, 255])
def test_names_up_to_the_limit_are_written(folder, tiny_weights, n_bytes):
    """File systems allow 255 bytes, also for the folder of the unfinished output."""
    output = folder / ("ä" * 100 + "x" * n_bytes)[: n_bytes - 104]
    output = output.with_name(f"{output.name}.npz")
    assert len(os.fsencode(output.name)) == n_bytes
    embed_corpus(str(tiny_weights), "text.txt", output)
    assert sorted(os.listdir(folder)) == sorted(["text.txt", output.name])


def test_files_of_file_managers_do_not_block_force(folder, tiny_weights):
    for name, settings in (("docs", {}), ("shards", {"shards": 2})):
        for run in ("first", "second"):
            embed_corpus(str(tiny_weights), "text.txt", folder / name, force=True, **settings)
            (folder / name / ".DS_Store").write_text(run)
        (folder / name / "notes").write_text("mine")
        with pytest.raises(ValueError, match="notes"):
            embed_corpus(str(tiny_weights), "text.txt", folder / name, force=True, **settings)
