"""Conversions between all formats: the same vectors, no half-written files, and a user's files
stay."""

import errno
import os
import re
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import spacy
import torch
from safetensors.torch import load_file

from spacy_elmo.bilm.model import BiLM
from spacy_elmo.bilm.softmax import freeze
from spacy_elmo.language_model.frozen import read_language_model
from spacy_elmo.language_model.model import save_model
from spacy_elmo.model.vocabulary import Vocabulary
from spacy_elmo.weights import manylangs, read_weights, safetensors_file
from spacy_elmo.weights.attribution import take_attribution
from spacy_elmo.weights.convert import convert
from spacy_elmo.weights.safetensors_file import softmax_of

from helpers import conversions, reference
from helpers.killed import left_at_each_step
from helpers.models import tiny_bilm, tiny_module
from helpers.prepared import content
from helpers.reference_manylangs import write_random
from helpers.runs import assert_same_arrays

pytestmark = [pytest.mark.conversions, pytest.mark.pipelines]


@pytest.fixture
def source(tmp_path):
    return conversions.write_source(tmp_path / "source" / "model-best")


def test_every_format_is_converted_to_every_format(tmp_path, source):
    """The way contains each pair of two formats once, from a pipeline to a pipeline."""
    way = """pipeline safetensors safetensors pipeline allennlp allennlp safetensors allennlp
        pipeline"""
    names = {**conversions.TARGETS, "pipeline": "en_small-1.0.2"}  # a folder with dots is no suffix
    model, previous = conversions.make_model(), source
    for number, format in enumerate(way.split()):
        target = tmp_path / str(number) / names[format]
        assert convert(previous, target)[1] == []
        conversions.assert_same_vectors(target, source)
        more = {"allennlp": {"options.json", "vocab.txt"}, "safetensors": {"a.softmax.safetensors"}}
        assert set(os.listdir(target.parent)) == {target.name} | more.get(format, set())
        if format == "allennlp":  # the softmax is bilm-tf's
            found = reference.read_hdf5(target)
            np.testing.assert_array_equal(found["softmax/W"], model.softmax.weight.detach())
            np.testing.assert_array_equal(found["softmax/b"], model.softmax.bias.detach())
            vocabulary = target.with_name("vocab.txt").read_bytes()
            assert vocabulary == "".join(f"{word}\n" for word in conversions.WORDS).encode()
        previous = target
    assert read_weights(previous).provenance == {**conversions.PROVENANCE, "lang": "de"}
    nlp = spacy.load(previous)
    assert (nlp.lang, nlp.pipe_names, nlp.meta["performance"]) == ("de", ["elmo"], {"mean": 1.5})
    model, again = read_language_model(source), read_language_model(previous)
    assert again.vocabulary.words == conversions.WORDS
    assert_same_arrays(again.softmax.arrays(), model.softmax.arrays())


# What a type does to numbers, by other means than PyTorch's


def bfloat16(values):
    """Round to the nearest, ties to even, on the bits (IEEE 754)."""
    bits = values.astype("float32").view("uint32").astype("uint64")
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return (rounded << 16).astype("uint32").view("float32")


def rounded(values, dtype):
    return bfloat16(values) if dtype == "bfloat16" else values.astype(dtype).astype("float32")


def lost_by_rounding(arrays, dtype, kind="weights"):
    errors = [np.abs(rounded(values, dtype) - values) for values in arrays.values()]
    n_changed, largest = sum(map(np.count_nonzero, errors)), max(each.max() for each in errors)
    return f"precision ({n_changed:,} {kind} change in {dtype}, by up to {largest:.2g})"


@pytest.mark.parametrize("name", ["a.safetensors", "a"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_rounds_to_the_nearest(tmp_path, source, dtype, name):
    """A pipeline keeps its softmax as it is."""
    target, model = tmp_path / name, conversions.make_model()
    weights, softmax = model.bilm.freeze().arrays(), freeze(model.softmax).arrays()
    expected = [lost_by_rounding(weights, dtype)]
    if target.suffix:
        expected.append(lost_by_rounding(softmax, dtype, "weights of the softmax"))
        softmax = {name: rounded(values, dtype) for name, values in softmax.items()}
    assert convert(source, target, dtype=dtype, allow_loss=True)[1] == expected
    found = read_language_model(target)
    assert found.vocabulary.words == conversions.WORDS
    assert found.softmax.arrays().keys() == softmax.keys()
    for name, values in found.softmax.arrays().items():
        np.testing.assert_array_equal(values, softmax[name])
    file = target if target.is_file() else target / "elmo" / "model.safetensors"
    assert {weight.dtype for weight in load_file(file).values()} == {getattr(torch, dtype)}
    bilm = read_weights(target)
    for name, values in weights.items():
        want = rounded(values, dtype)
        np.testing.assert_array_equal(bilm.arrays()[name], want)
        weight = BiLM.from_frozen(bilm).get_parameter(name)
        assert weight.dtype == torch.float32 and (weight.detach().numpy() == want).all()
    # What is rounded already loses nothing more.
    assert convert(target, target.with_name(f"again{target.suffix}"), dtype=dtype)[1] == []
    assert convert(target, tmp_path / "weights.hdf5")[1] == []
    conversions.assert_same_vectors(tmp_path / "weights.hdf5", target)


def test_weights_too_large_for_float16_are_refused(tmp_path):
    bilm, target = tiny_module(), tmp_path / "b.safetensors"
    bilm.stacks[0][0].bias[0] = 7e4
    safetensors_file.write(bilm.freeze(), tmp_path / "a.safetensors")
    for allow in (True, False):
        with pytest.raises(ValueError, match=r"stacks.0.0.bias|precision .*inf"):
            convert(tmp_path / "a.safetensors", target, dtype="float16", allow_loss=allow)
    assert not target.exists()


# What is there already


@pytest.mark.parametrize(
    ("format", "place"),
    [
        ("safetensors", (os, "fsync")),
        ("allennlp", (os, "replace")),
        ("pipeline", (Vocabulary, "to_disk")),
        ("manylangs", (manylangs.srsly, "write_json")),
    ],
)
def test_files_are_overwritten_only_with_force_and_as_a_whole(
    tmp_path, source, monkeypatch, format, place
):
    """A failing conversion leaves no part of the new model, and does not change the old one."""
    out, other = tmp_path / "out", tmp_path / "other.safetensors"
    target = out / conversions.TARGETS.get(format, "my.model")
    settings = {"format": format, "lang": "en"}
    safetensors_file.write(tiny_bilm(9), other)
    if format == "safetensors":  # Both models have a softmax.
        other = tmp_path / "other"
        save_model(conversions.make_model(9), other, lang="de", provenance={})
    if format == "manylangs":
        source, other = (write_random(tmp_path / name, seed) for seed, name in enumerate("ab"))
    convert(other, target, **settings)
    before = content(out)
    with pytest.raises(ValueError, match="exists already.*`force=True`"):
        convert(source, target, **settings)

    def fail(*_, **__):
        raise OSError(errno.ENOSPC, "disk full")

    with monkeypatch.context() as patch:
        patch.setattr(*place, fail)
        for path in (target, tmp_path / "new" / target.name):
            with pytest.raises(OSError, match="disk full"):
                convert(source, path, force=True, **settings)
    assert content(out) == before and content(tmp_path / "new") == {}
    assert len(os.listdir(out)) == (2 if format in ("allennlp", "safetensors") else 1)
    convert(source, target, force=True, **settings)
    conversions.assert_same_vectors(target, source)


@pytest.mark.parametrize("name", ["options.json", "vocab.txt"])
def test_files_beside_hdf5_are_not_overwritten(tmp_path, source, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(ValueError, match=f"{name} exists already"):
        convert(source, tmp_path / "weights.hdf5")
    assert (tmp_path / name).read_text() == "mine"
    assert not (tmp_path / "weights.hdf5").exists()
    convert(source, tmp_path / "elmo_x_weights.hdf5")
    assert (tmp_path / name).read_text() == "mine"


def test_only_pipelines_that_convert_writes_are_replaced(tmp_path, source):
    """A trained pipeline has other components, and a folder may contain other files."""
    (tmp_path / "home").mkdir()
    convert(source, tmp_path / "home")  # empty
    convert(source, tmp_path / "home", force=True)
    convert(source, tmp_path / "noted")
    for name in ("noted", "letters"):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "README.md").write_text("mine")
    inner = [
        "elmo/model.safetensors.bak",
        "elmo/notes.txt",
        "vocab/more/a",
        "tokenizer.d/",
        "more/",
    ]
    for number, name in enumerate(inner):
        path = tmp_path / f"inner{number}" / name
        convert(source, tmp_path / f"inner{number}")
        path.parent.mkdir(exist_ok=True)
        path.mkdir() if name.endswith("/") else path.write_text("mine")
    convert(source, tmp_path / "linked")
    os.symlink(tmp_path / "letters", tmp_path / "linked" / "elmo" / "cfg")
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.to_disk(tmp_path / "trained")
    (tmp_path / "file").touch()
    getattr(os, "mkfifo", Path.touch)(tmp_path / "fifo")
    (tmp_path / "a.safetensors").mkdir()
    before = content(tmp_path)
    for name, message, *format in (
        *((name, "not only a pipeline .*: it contains") for name in ("noted", "letters")),
        ("trained", "not only a pipeline .*: it (contains|has other components)"),
        *(
            (f"inner{i}", f"not only a pipeline .*{re.escape(inner[i])}'")
            for i in range(len(inner))
        ),
        ("linked", "not only a pipeline .*: it contains 'elmo/cfg'"),
        ("letters", "not only a model of ELMoForManyLangs", "manylangs"),
        *(("file", "is a file"), ("fifo", "is a file"), ("fifo", "is a file", "manylangs")),
        ("a.safetensors", "is a folder"),
    ):
        with pytest.raises(ValueError, match=f"{name} (is )?{message}"):
            convert(source, tmp_path / name, force=True, format=next(iter(format), None))
    assert content(tmp_path) == before


def test_the_source_is_not_replaced(tmp_path, source):
    convert(source, tmp_path / "a.safetensors")
    os.link(tmp_path / "a.safetensors", tmp_path / "same.safetensors")
    (tmp_path / "link.safetensors").symlink_to("a.safetensors")
    (tmp_path / "link").symlink_to(source)
    before = content(tmp_path)
    for given, target in (
        ("a.safetensors", "a.safetensors"),
        ("link.safetensors", "a.safetensors"),
        ("same.safetensors", "a.safetensors"),
        (source, source),
        ("link", source),
        (source / "elmo" / "model.safetensors", source),
    ):
        with pytest.raises(ValueError, match="is the source, or contains it"):
            convert(tmp_path / given, tmp_path / target, lang="en", force=True)
    assert content(tmp_path) == before


SIDES = ["x.softmax.safetensors", "x-ATTRIBUTION.md"]
LINKS = [("x.safetensors", name) for name in SIDES]
LINKS += [("x.hdf5", name) for name in ("x_options.json", "x_vocab.txt", SIDES[1])]


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize(("name", "link"), LINKS)
def test_files_beside_are_not_written_through_links(tmp_path, source, name, link, exists):
    """The weights would be in one folder, and their softmax and attribution in another."""
    far = tmp_path / "far" / link
    far.parent.mkdir()
    if exists:
        far.write_bytes(b"mine")
    (tmp_path / link).symlink_to(far)
    before = content(tmp_path)
    with pytest.raises(ValueError, match=f"{link} is a symbolic link"):
        convert(source, tmp_path / name, force=True)
    assert content(tmp_path) == before and far.exists() == exists
    (tmp_path / link).unlink()
    convert(source, tmp_path / name)
    conversions.assert_same_vectors(tmp_path / name, source)


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("name", ["x.safetensors", "x.hdf5"])
def test_a_link_to_the_weights_is_followed(tmp_path, source, name, exists):
    """All files of the model are written beside the real file, with its name."""
    far = tmp_path / "far" / f"y{Path(name).suffix}"
    far.parent.mkdir()
    if exists:
        far.write_bytes(b"mine")
    (tmp_path / name).symlink_to(far)
    if exists:
        with pytest.raises(ValueError, match=f"{far} exists already"):
            convert(source, tmp_path / name)
    convert(source, tmp_path / name, force=True, provenance={"attribution": "by us"})
    assert (tmp_path / name).is_symlink() and list(tmp_path.glob("x*")) == [tmp_path / name]
    assert (far.parent / "y-ATTRIBUTION.md").is_file()
    conversions.assert_same_vectors(far, source)
    # The softmax is found through the link, too.
    again = read_language_model(tmp_path / name)
    assert again.vocabulary.words == conversions.WORDS
    assert read_weights(tmp_path / name).provenance["attribution"] == "by us"


def test_a_folder_in_the_place_of_the_attribution_is_named(tmp_path, source):
    """The error comes before anything is written."""
    (tmp_path / "x-ATTRIBUTION.md").mkdir()
    for name in ("x.safetensors", "x.hdf5"):
        with pytest.raises(ValueError, match=r"x-ATTRIBUTION\.md is a folder"):
            convert(source, tmp_path / name, force=True)
        assert not (tmp_path / name).exists()


@pytest.mark.parametrize("encoding", ["utf8", "latin-1"])
def test_the_bytes_of_an_attribution_stay(tmp_path, source, encoding):
    """An attribution in any encoding is kept, and is not added twice."""
    theirs = "by Zoë and Łucja" if encoding == "utf8" else "by Zoë"
    path = tmp_path / "x-ATTRIBUTION.md"
    path.write_bytes(theirs.encode(encoding))
    convert(source, tmp_path / "x.safetensors", provenance={"attribution": "ours, é"})
    both = theirs.encode(encoding) + "\nours, é".encode()
    assert path.read_bytes() == both
    weights = {"attribution": theirs}
    convert(source, tmp_path / "x.safetensors", provenance=weights, force=True)
    assert path.read_bytes() == both
    path.write_bytes(theirs.encode(encoding))
    provenance = {}
    take_attribution(provenance, tmp_path / "x.safetensors")
    assert provenance == weights


def test_files_of_file_managers_do_not_block_a_conversion(tmp_path, source):
    convert(source, tmp_path / "out")
    for name in (".DS_Store", "elmo/Thumbs.db", "desktop.ini"):
        (tmp_path / "out" / name).write_text("seen")
    convert(source, tmp_path / "out", force=True)
    conversions.assert_same_vectors(tmp_path / "out", source)


def test_a_linked_folder_is_followed(tmp_path, source):
    """All files of a pipeline are inside this folder."""
    (tmp_path / "far").mkdir()
    (tmp_path / "near").symlink_to(tmp_path / "far")
    convert(source, tmp_path / "near")
    assert (tmp_path / "near").is_symlink()
    conversions.assert_same_vectors(tmp_path / "far", source)


# Names that say no format


@pytest.mark.parametrize(
    ("target", "settings", "message"),
    [
        ("a.bin", {}, "a.bin cannot be a file of any format.*For a .*`format=pipeline` or"),
        ("a.safetensors", {"format": "allennlp"}, r"'allennlp'.*\.hdf5 \(allennlp\) or \.h5"),
        ("a", {"format": "manylangs"}, "cannot store a model that reads UTF-8 bytes"),
        ("weights.hdf5", {"dtype": "float16", "allow_loss": True}, "only read float32"),
        ("a", {"dtype": "int8"}, "must be one of float32, float16, bfloat16"),
    ],
)
def test_impossible_targets_are_refused(tmp_path, source, target, settings, message):
    with pytest.raises(ValueError, match=message):
        convert(source, tmp_path / target, **settings)
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


@pytest.mark.processes
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_kill_never_leaves_the_softmax_of_another_model(tmp_path):
    """The model can be read after a kill at any step, as the old one or the new one."""
    sources, target = (tmp_path / "old", tmp_path / "new"), tmp_path / "out" / "a.safetensors"
    for seed, folder in enumerate(sources):
        save_model(conversions.make_model(seed), folder, lang="de", provenance={})
    checksums = [read_weights(source).checksum() for source in sources]
    convert(sources[0], target)
    writing = left_at_each_step(lambda: convert(sources[1], target, force=True), target.parent)
    for _ in chain(writing, ["the end"]):
        found = checksums.index(read_weights(target).checksum())
        if softmax_of(target).is_file():
            softmax = read_language_model(sources[found]).softmax.arrays()
            assert_same_arrays(read_language_model(target).softmax.arrays(), softmax)
    assert found == 1 and softmax_of(target).is_file()
