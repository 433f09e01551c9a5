import errno
import json
import os
import shutil
from contextlib import suppress
from itertools import product

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

from helpers import reference
from helpers.conversions import (
    PROVENANCE,
    TARGETS,
    WORDS,
    assert_same_vectors,
    make_model,
    write_source,
)
from helpers.models import tiny_bilm, tiny_module, tiny_options
from helpers.mutations import split_safetensors
from helpers.prepared import content
from helpers.runs import assert_same_arrays

pytestmark = pytest.mark.pipelines


@pytest.fixture
def source(tmp_path):
    return write_source(tmp_path / "source" / "model-best")


def test_every_format_to_every_format(tmp_path, source):
    """The way has each pair of two formats once, from a pipeline to a pipeline."""
    way = """pipeline safetensors safetensors pipeline allennlp allennlp safetensors allennlp
        pipeline"""
    previous = source
    for number, format in enumerate(way.split()):
        target = tmp_path / str(number) / TARGETS[format]
        _, lost = convert(previous, target)
        assert not lost
        assert_same_vectors(target, source)
        files = {
            "allennlp": ["options.json", "vocab.txt"],
            "safetensors": ["a.softmax.safetensors"],
            "pipeline": [],
        }[format]
        assert sorted(path.name for path in target.parent.iterdir()) == sorted(
            [target.name, *files]
        )
        previous = target
    assert read_weights(previous).provenance == {**PROVENANCE, "lang": "de"}
    nlp = spacy.load(previous)
    assert (nlp.lang, nlp.pipe_names, nlp.meta["performance"]) == ("de", ["elmo"], {"mean": 1.5})
    model, again = read_language_model(source), read_language_model(previous)
    assert again.vocabulary.words == WORDS
    assert_same_arrays(again.softmax.arrays(), model.softmax.arrays())


def test_softmax_in_hdf5_is_bilm_tfs(tmp_path, source):
    convert(source, tmp_path / "elmo_tiny_weights.hdf5")
    found, softmax = reference.read_hdf5(tmp_path / "elmo_tiny_weights.hdf5"), make_model().softmax
    for name, values in (("softmax/W", softmax.weight), ("softmax/b", softmax.bias)):
        assert_same_arrays({name: found[name]}, {name: values.detach().numpy()})
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
    header, _ = split_safetensors(file)
    assert {entry["dtype"] for name, entry in header.items() if name != "__metadata__"} == {kind}
    bilm = read_weights(target)
    got, expected = bilm.arrays(), make_model().bilm.freeze().arrays()
    module = bilm.thaw()
    n_changed, largest = 0, 0.0
    for name, values in expected.items():
        assert got[name].dtype == ("float16" if dtype == "float16" else "float32")
        want = rounded(values)
        np.testing.assert_array_equal(got[name], want)
        weight = module.get_parameter(name)
        assert weight.dtype == torch.float32 and (weight.detach().numpy() == want).all()
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


@pytest.mark.parametrize(
    ("format", "place"),
    [
        ("safetensors", (os, "fsync")),
        ("allennlp", (os, "replace")),
        ("pipeline", (Vocabulary, "to_disk")),
    ],
)
def test_nothing_is_overwritten_unasked_or_in_part(tmp_path, source, monkeypatch, format, place):
    """What fails leaves neither a half of the new, nor a change of the old."""
    target = tmp_path / "out" / TARGETS[format]
    safetensors_file.write(tiny_bilm(9), tmp_path / "other.safetensors")
    convert(tmp_path / "other.safetensors", target, lang="en")
    before = content(tmp_path / "out")
    with pytest.raises(ValueError, match="exists already.*`force=True`"):
        convert(source, target)
    assert content(tmp_path / "out") == before

    def fail(*_, **__):
        raise OSError(errno.ENOSPC, "disk full")

    with monkeypatch.context() as patch:
        patch.setattr(*place, fail)
        with pytest.raises(OSError, match="disk full"):
            convert(source, target, force=True)
    assert content(tmp_path / "out") == before
    assert len(list((tmp_path / "out").iterdir())) == (2 if format == "allennlp" else 1)
    convert(source, target, force=True)
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


def test_only_pipelines_that_convert_writes_are_replaced(tmp_path, source):
    """A trained pipeline has other components, a folder may hold other files."""
    (tmp_path / "home").mkdir()
    convert(source, tmp_path / "home")  # empty
    convert(source, tmp_path / "home", force=True)
    convert(source, tmp_path / "noted")
    for name in ("noted", "letters"):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "README.md").write_text("mine")
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.to_disk(tmp_path / "trained")
    (tmp_path / "file").touch()
    (tmp_path / "a.safetensors").mkdir()
    before = content(tmp_path)
    for name, message in (
        *((name, "other files than a pipeline") for name in ("noted", "letters", "trained")),
        ("file", "is a file"),
        ("a.safetensors", "is a folder"),
    ):
        with pytest.raises(ValueError, match=f"{name} (contains )?{message}"):
            convert(source, tmp_path / name, force=True)
    assert content(tmp_path) == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFOs")
@pytest.mark.parametrize("format", ["pipeline", "manylangs"])
def test_a_folder_does_not_replace_a_fifo(tmp_path, source, format):
    os.mkfifo(tmp_path / "fifo")
    for force in (False, True):
        with pytest.raises(ValueError, match="fifo is a file. Give another name"):
            convert(source, tmp_path / "fifo", format=format, keep_softmax=False, force=force)
        assert (tmp_path / "fifo").is_fifo()


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


def test_no_model_stands_beside_the_softmax_of_another(tmp_path, monkeypatch):
    """Wherever writing over a model ends: what a kill leaves can be read as one of the two."""
    sources = [tmp_path / name for name in ("old", "new")]
    for seed, folder in enumerate(sources):
        save_model(make_model(seed), folder, lang="de", provenance=PROVENANCE)
    models = [read_language_model(source) for source in sources]
    for call, at in product(("replace", "fsync", "unlink"), range(4)):
        target = tmp_path / f"{call} {at}.safetensors"
        convert(sources[0], target)
        original, calls = getattr(os, call), []

        def end(*args, calls=calls, at=at, original=original):
            calls.append(args)
            if len(calls) > at:
                raise KeyboardInterrupt
            original(*args)

        with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
            patch.setattr(os, call, end)
            convert(sources[1], target, force=True)
        name, weight = next(iter(read_weights(target).arrays().items()))
        found = [np.array_equal(model.bilm.arrays()[name], weight) for model in models]
        assert sorted(found) == [False, True], target
        kept = softmax_of(target).is_file()
        if kept:
            wanted = models[found.index(True)].softmax.arrays()
            assert_same_arrays(read_language_model(target).softmax.arrays(), wanted)
        if len(calls) <= at:  # nothing ended
            assert found == [False, True] and kept
