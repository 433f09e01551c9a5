"""Unfinished outputs that were damaged or edited: never a wrong vector, and one line of advice."""

import json
import os
import shutil
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest

import spacy_elmo.export.plan as planning
from spacy_elmo.export.partial_output import PartialOutput

from helpers.embedded import embed_corpus
from helpers.prepared import content
from helpers.written_vectors import SENTENCES

pytestmark = pytest.mark.corpora

SHARD = "part-00002-of-00007.parquet"


@pytest.fixture
def unfinished(embed, monkeypatch):
    """Return the shards of a run that was stopped before it joined them, and the expected
    output."""
    embed()
    written = Path("out.npz").read_bytes()
    Path("out.npz").unlink()
    with monkeypatch.context() as patched:
        patched.setattr(PartialOutput, "clear_whole", Mock(side_effect=InterruptedError))
        with pytest.raises(InterruptedError):
            embed()
    return sorted(Path("out.npz.part/shards").glob("part-*")), written


def flip(path, place):
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def cut(path, size):
    path.write_bytes(path.read_bytes()[:size])


def copy_shard(source, target, with_record=True):
    shutil.copy(source, target)
    if with_record:
        shutil.copy(*(path.with_name(f"_{path.name}.json") for path in (source, target)))


def copy_next(path, with_record):
    """Copy the entries of another shard."""
    copy_shard(path.with_name(path.name.replace("00002", "00003")), path, with_record)


DAMAGES = [
    *((partial(flip, place=place), "the checksum is wrong") for place in (0, 20, -30, -1)),
    *((partial(cut, size=size), "") for size in (0, 10, 100)),
    *((partial(copy_next, with_record=with_record), "") for with_record in (False, True)),
]


@pytest.mark.parametrize(("damage", "reason"), DAMAGES)
def test_a_damaged_shard_of_a_run_is_made_again(embed, unfinished, damage, reason):
    """The damage is a flipped bit, a cut, or the entries of another shard, with its record or
    without."""
    shards, expected = unfinished
    damage(shards[2])
    with pytest.warns(UserWarning, match=f"part-00002.* is made again: .*{reason}"):
        assert embed(resume=True).entries == len(SENTENCES)
    assert Path("out.npz").read_bytes() == expected


def test_edited_settings_of_an_output_are_not_used(embed):
    """The edited values have another type."""
    embed()
    data = Path("out.npz").read_bytes()
    assert data.count(b'"tokens": 16') == 1
    assert embed(resume=True).tokens == 16
    for value in (b'""', b"[]"):
        Path("out.npz").write_bytes(data.replace(b'"tokens": 16', b'"tokens": ' + value))
        with pytest.raises(ValueError, match="exists already"):
            embed(resume=True)


# How a plan is edited, and what the error says.
CHANGES = [
    (lambda plan: plan["shards"].pop(2), "the checksum is wrong"),
    (lambda plan: plan["shards"][1][0].update(entries=7), "the checksum is wrong"),
    (lambda plan: plan.update(format_version="1"), '"format_version" should be a valid integer'),
    (lambda plan: plan.pop("checksum"), '"checksum" is missing'),
    (lambda plan: plan.pop("format_version"), 'format_version" is missing'),
    (lambda plan: plan.update(format_version=2), "has version 2, but this package reads version 1"),
]
TEXTS = {"": "not JSON", "\ufeff{}": '"format_version" is missing'}
TEXTS |= dict.fromkeys(("null", "[]"), "dictionary, got")
TEXTS |= dict.fromkeys(('{"a": ' * 100_000, "[" * 100_000), "nested too deeply")


def test_an_edited_plan_is_refused(shard):
    shard(worker="1/7")
    path = Path("out/_manifest.json")
    good = path.read_text("utf8")
    broken = list(TEXTS.items())
    for change, message in CHANGES:
        plan = json.loads(good)
        change(plan)
        broken.append((json.dumps(plan), message))
    for text, message in broken:
        path.write_text(text, "utf8")
        before = content(Path("out"))
        with pytest.raises(ValueError, match=f"{message}.*Choose another output") as error:
            shard()
        assert str(error.value).count("_manifest.json cannot be used: ") == 1
        assert "\n" not in str(error.value) and len(str(error.value)) < 300
        assert content(Path("out")) == before


def test_a_number_of_entries_that_differs_from_the_plan_is_refused(shard, monkeypatch):
    """The call that planned may have had another version of a reader."""
    lines_of = planning.lines_of
    monkeypatch.setattr(planning, "lines_of", lambda c: list(lines_of(c))[c.first_line == 1 :])
    with pytest.raises(ValueError, match=r"part-00000.*text\.txt: the part from byte 0 on has"):
        shard()


@pytest.mark.parametrize("format", ["parquet", "hdf5", "npz", "spacy"])
def test_a_damaged_shard_is_named_and_stays(shard, format):
    """The same call makes it again after it is deleted."""
    shard(output_format=format)
    expected = content(Path("out"))
    (path,) = Path("out").glob("part-00002-*")
    flip(path / "00000000.spacy" if format == "spacy" else path, 300)
    damaged = content(Path("out"))
    with pytest.raises(ValueError, match=r"1 of 7 .*\npart-00002.*checksum is wrong.*Delete this"):
        shard(output_format=format)
    assert content(Path("out")) == damaged
    shard(output_format=format, worker="2/7")  # another's share
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    shard(output_format=format)
    assert content(Path("out")) == expected


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFOs")
@pytest.mark.parametrize(
    ("name", "problem"),
    [(SHARD, "it cannot be read"), (f"_{SHARD}.json", f"_{SHARD}.json cannot be used")],
)
def test_a_file_of_a_shard_that_cannot_be_read_is_named(shard, name, problem):
    """A FIFO cannot be read, like a file without permission, which the administrator can read."""
    shard()
    Path("out", name).unlink()
    os.mkfifo(Path("out", name))
    with pytest.raises(ValueError, match=rf"\n{SHARD}: {problem} \(.*/{name}: .*Delete this"):
        shard()


def test_a_shard_of_another_number_or_folder_is_refused(shard):
    shard()
    shard(output="other", layers="average")
    zero, one, two, three, *_ = sorted(path.name for path in Path("out").glob("part-*"))
    for source, target in ((f"out/{zero}", f"out/{one}"), (f"other/{two}", f"out/{two}")):
        copy_shard(Path(source), Path(target))
    Path(f"out/_{three}.json").unlink()
    reasons = f"\n{one}.*another shard.*\n{two}.*another shard.*\n{three}.*No such file"
    with pytest.raises(ValueError, match=f"3 of 7 shards .*{reasons}"):
        shard()


def test_an_input_whose_name_is_not_utf8_is_embedded(folder, tiny_weights):
    """Its plan can be read again."""
    Path("text.txt").rename("x\udcff.txt")
    for n_entries in (len(SENTENCES), 0):
        counts = embed_corpus(str(tiny_weights), "x\udcff.txt", folder / "out", shards=2)
        assert counts.entries == n_entries
