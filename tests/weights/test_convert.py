import errno
import json
import os
import shutil
import struct
from contextlib import suppress

import h5py
import numpy as np
import pytest
import spacy
import torch
from safetensors.torch import load_file

from spacy_elmo.frozen.vocabulary import Vocabulary
from spacy_elmo.language_model.frozen import read_language_model
from spacy_elmo.language_model.model import save_model
from spacy_elmo.weights import read_weights, safetensors_file
from spacy_elmo.weights.convert import convert
from spacy_elmo.weights.safetensors_file import softmax_of

from helpers.conversions import (
    PROVENANCE,
    TARGETS,
    WORDS,
    assert_same_vectors,
    make_model,
    write_source,
)
from helpers.models import tiny_bilm, tiny_module, tiny_options
from helpers.prepared import content

pytestmark = pytest.mark.pipelines


@pytest.fixture
def source(tmp_path):
    return write_source(tmp_path / "source" / "model-best")


@pytest.mark.parametrize("first", TARGETS)
@pytest.mark.parametrize("second", TARGETS)
def test_every_format_and_back(tmp_path, source, first, second):
    one, two = tmp_path / "one" / TARGETS[first], tmp_path / "two" / TARGETS[second]
    keep = "safetensors" not in (first, second)
    for start, target in ((source, one), (one, two), (two, tmp_path / "back")):
        _, lost = convert(start, target, keep_softmax=keep)
        assert not lost
        assert_same_vectors(target, source)
    assert read_weights(tmp_path / "back").provenance == {**PROVENANCE, "lang": "de"}
    nlp = spacy.load(tmp_path / "back")
    assert (nlp.lang, nlp.pipe_names, nlp.meta["performance"]) == ("de", ["elmo"], {"mean": 1.5})
    files = [path.name for path in (tmp_path / "one").iterdir()]
    if first == "allennlp":
        assert sorted(files) == ["options.json", *(["vocab.txt"] * keep), "weights.hdf5"]
    else:
        assert files == [TARGETS[first]]
    if keep:
        back, model = read_language_model(tmp_path / "back"), read_language_model(source)
        assert back.vocabulary.words == WORDS
        for name, weight in model.softmax.arrays().items():
            np.testing.assert_array_equal(back.softmax.arrays()[name], weight)


def test_softmax_in_hdf5_is_bilm_tfs(tmp_path, source):
    convert(source, tmp_path / "elmo_tiny_weights.hdf5")
    model = make_model()
    with h5py.File(tmp_path / "elmo_tiny_weights.hdf5") as file:
        for name, values in (("W", model.softmax.weight), ("b", model.softmax.bias)):
            assert file[f"softmax/{name}"].dtype == np.float32
            np.testing.assert_array_equal(file[f"softmax/{name}"], values.detach())
    vocabulary = (tmp_path / "elmo_tiny_vocab.txt").read_bytes()
    assert vocabulary == "".join(f"{word}\n" for word in WORDS).encode()
    options = json.loads((tmp_path / "elmo_tiny_options.json").read_text())
    assert options["lstm"] == tiny_options()["lstm"]
    shutil.rmtree(source)
    convert(tmp_path / "elmo_tiny_", tmp_path / "back")  # by the beginning of the names
    assert read_language_model(tmp_path / "back").vocabulary.words == WORDS


# What a type does to numbers, by other means than PyTorch's


def bfloat16(values):
    """Round to the nearest, ties to even, on the bits (IEEE 754)."""
    bits = values.astype("float32").view("uint32").astype("uint64")
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return (rounded << 16).astype("uint32").view("float32")


@pytest.mark.parametrize(
    ("dtype", "kind", "rounded"),
    [
        ("float16", "F16", lambda values: values.astype("float16").astype("float32")),
        ("bfloat16", "BF16", bfloat16),
    ],
)
@pytest.mark.parametrize("target", ["a.safetensors", "a"])
def test_half_precision(tmp_path, source, dtype, kind, rounded, target):
    target = tmp_path / target
    _, lost = convert(source, target, dtype=dtype, keep_softmax=False, allow_loss=True)
    file = target if target.is_file() else target / "elmo" / "model.safetensors"
    data = file.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    assert {entry["dtype"] for name, entry in header.items() if name != "__metadata__"} == {kind}
    got, expected = read_weights(target).arrays(), make_model().bilm.freeze().arrays()
    n_changed, largest = 0, 0.0
    for name, values in expected.items():
        assert got[name].dtype == ("float16" if dtype == "float16" else "float32")
        want = rounded(values)
        np.testing.assert_array_equal(got[name], want)
        n_changed += int((want != values).sum())
        largest = max(largest, float(np.abs(want - values).max()))
    assert lost == [f"precision ({n_changed:,} weights change in {dtype}, by up to {largest:.2g})"]
    # What is rounded already loses nothing more.
    assert convert(target, tmp_path / "again.safetensors", dtype=dtype)[1] == []
    assert convert(target, tmp_path / "weights.hdf5")[1] == []
    assert_same_vectors(tmp_path / "weights.hdf5", target)


def test_weights_too_large_for_float16(tmp_path):
    bilm = tiny_module()
    bilm.stacks[0][0].bias[0] = 7e4
    safetensors_file.write(bilm.freeze(), tmp_path / "a.safetensors")
    for allow in (True, False):
        with pytest.raises(ValueError, match=r"stacks.0.0.bias|precision .*inf"):
            convert(
                tmp_path / "a.safetensors",
                tmp_path / "b.safetensors",
                dtype="float16",
                allow_loss=allow,
            )
    assert not (tmp_path / "b.safetensors").exists()


# What is there already


@pytest.mark.parametrize("format", TARGETS)
def test_nothing_is_overwritten_unasked(tmp_path, source, format):
    target = tmp_path / "out" / TARGETS[format]
    safetensors_file.write(tiny_bilm(9), tmp_path / "other.safetensors")
    convert(tmp_path / "other.safetensors", target, lang="en")
    before = content(tmp_path / "out")
    with pytest.raises(ValueError, match="exists already.*`force=True`"):
        convert(source, target, keep_softmax=False)
    assert content(tmp_path / "out") == before
    convert(source, target, keep_softmax=False, force=True)
    assert_same_vectors(target, source)


@pytest.mark.parametrize("name", ["options.json", "vocab.txt"])
def test_files_beside_hdf5_are_not_overwritten_either(tmp_path, source, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(ValueError, match=f"{name} exists already"):
        convert(source, tmp_path / "weights.hdf5")
    assert (tmp_path / name).read_text() == "mine"
    assert not (tmp_path / "weights.hdf5").exists()
    convert(source, tmp_path / "elmo_x_weights.hdf5")
    assert (tmp_path / name).read_text() == "mine"


def test_a_folder_that_is_no_pipeline_is_never_replaced(tmp_path, source):
    (tmp_path / "home").mkdir()
    convert(source, tmp_path / "home")  # empty
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "love.txt").touch()
    with pytest.raises(ValueError, match="other files than a pipeline"):
        convert(source, tmp_path / "letters", force=True)
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="is a file"):
        convert(source, tmp_path / "file", force=True)
    (tmp_path / "a.safetensors").mkdir()
    with pytest.raises(ValueError, match="is a folder"):
        convert(source, tmp_path / "a.safetensors", force=True)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFOs")
@pytest.mark.parametrize("format", ["pipeline", "manylangs"])
def test_a_folder_does_not_replace_a_fifo(tmp_path, source, format):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for force in (False, True):
        with pytest.raises(ValueError, match="fifo is a file. Give another name"):
            convert(source, fifo, format=format, keep_softmax=False, force=force)
        assert fifo.is_fifo()


def test_only_pipelines_that_convert_writes_are_replaced(tmp_path, source):
    """A trained pipeline has other components, a folder may hold other files."""
    convert(source, tmp_path / "m")
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.to_disk(tmp_path / "trained")
    convert(source, tmp_path / "noted")
    (tmp_path / "noted" / "README.md").write_text("mine")
    for name in ("trained", "noted"):
        before = content(tmp_path / name)
        with pytest.raises(ValueError, match=f"{name} contains other files than a pipeline"):
            convert(source, tmp_path / name, force=True)
        assert content(tmp_path / name) == before
    convert(source, tmp_path / "m", force=True)


def test_neighbors_stay(tmp_path, source):
    for name in ("m.old", "m.part", "x.safetensors.part", "x.hdf5.part"):
        (tmp_path / name).mkdir()
    before = {path.name for path in tmp_path.iterdir()}
    for name in ("m", "x.safetensors", "x.hdf5"):
        convert(source, tmp_path / name, allow_loss=True)
        convert(source, tmp_path / name, allow_loss=True, force=True)
    assert before < {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize("name", ["x.safetensors", "x.hdf5"])
def test_links_are_followed(tmp_path, source, name):
    (tmp_path / "far").mkdir()
    (tmp_path / name).symlink_to(tmp_path / "far" / name)
    convert(source, tmp_path / name, keep_softmax=False)
    assert (tmp_path / name).is_symlink()
    assert_same_vectors(tmp_path / name, source)
    with pytest.raises(ValueError, match="exists already"):
        convert(source, tmp_path / name, keep_softmax=False)


def test_in_place(tmp_path, source):
    before = read_weights(source).arrays()
    convert(source, source, dtype="bfloat16", allow_loss=True, force=True)
    file = source / "elmo" / "model.safetensors"
    assert {weight.dtype for weight in load_file(file).values()} == {torch.bfloat16}
    after = read_weights(source).arrays()
    for name, weight in before.items():
        np.testing.assert_array_equal(after[name], bfloat16(weight))
    assert read_language_model(source).vocabulary.words == WORDS


@pytest.mark.parametrize("format", TARGETS)
def test_what_fails_leaves_nothing(tmp_path, source, format, monkeypatch):
    """Neither a half of the new, nor a change of the old."""
    target = tmp_path / "out" / TARGETS[format]
    safetensors_file.write(tiny_bilm(9), tmp_path / "other.safetensors")
    convert(tmp_path / "other.safetensors", target, lang="en")
    before = content(tmp_path / "out")

    def fail(*_, **__):
        raise OSError(errno.ENOSPC, "disk full")

    place = {
        "safetensors": (os, "fsync"),
        "allennlp": (os, "replace"),
        "pipeline": (Vocabulary, "to_disk"),
    }[format]
    monkeypatch.setattr(*place, fail)
    with pytest.raises(OSError, match="disk full"):
        convert(source, target, keep_softmax=format != "safetensors", force=True)
    assert content(tmp_path / "out") == before
    assert len(list((tmp_path / "out").iterdir())) == (2 if format == "allennlp" else 1)


# Names that say no format


@pytest.mark.parametrize(
    ("target", "settings", "message"),
    [
        ("a.bin", {}, "no file format has the suffix '.bin'"),
        ("a.bin", {"format": "safetensors"}, "must end in .safetensors"),
        ("a.safetensors", {"format": "allennlp"}, "must end in .hdf5 or .h5"),
        ("a", {"format": "manylangs"}, "cannot store a model that reads UTF-8 bytes"),
        ("a.bin", {}, "`format=pipeline` or `format=manylangs`"),
        ("a", {"format": "pickle"}, "must be one of pipeline, safetensors, manylangs, allennlp"),
        ("weights.hdf5", {"dtype": "float16", "allow_loss": True}, "only read float32"),
        ("a", {"dtype": "int8"}, "must be one of float32, float16, bfloat16"),
    ],
)
def test_what_cannot_be(tmp_path, source, target, settings, message):
    with pytest.raises(ValueError, match=message):
        convert(source, tmp_path / target, **settings)
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_folders_with_dots(tmp_path, source):
    convert(source, tmp_path / "en_small-1.0.2")
    convert(source, tmp_path / "my.model", format="pipeline")
    for name in ("en_small-1.0.2", "my.model"):
        assert_same_vectors(tmp_path / name, source)


@pytest.mark.parametrize("call", ["replace", "fsync", "unlink"])
@pytest.mark.parametrize("at", range(4))
def test_no_model_stands_beside_the_softmax_of_another(tmp_path, monkeypatch, call, at):
    """Wherever writing over a model ends: what a kill leaves can be read as one of the two."""
    sources = [tmp_path / name / "model-best" for name in ("old", "new")]
    for seed, folder in enumerate(sources):
        folder.parent.mkdir()
        save_model(make_model(seed), folder, lang="de", provenance=PROVENANCE)
    target = tmp_path / "a.safetensors"
    convert(sources[0], target)
    original, calls = getattr(os, call), []

    def end(*args):
        calls.append(args)
        if len(calls) > at:
            raise KeyboardInterrupt
        original(*args)

    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(os, call, end)
        convert(sources[1], target, force=True)
    models = [read_language_model(source) for source in sources]
    name, weight = next(iter(read_weights(target).arrays().items()))
    found = [np.array_equal(model.bilm.arrays()[name], weight) for model in models]
    assert sorted(found) == [False, True]
    kept = softmax_of(target)
    if kept.is_file():
        wanted = models[found.index(True)].softmax.arrays()
        for name, weight in read_language_model(target).softmax.arrays().items():
            np.testing.assert_array_equal(weight, wanted[name])
    if len(calls) <= at:  # nothing ended
        assert found == [False, True]
        assert kept.is_file()
