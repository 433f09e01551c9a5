"""Which format a model has is decided once, and a fifth format is one class in one list."""

import shutil
from pathlib import Path

import pytest

import spacy_elmo
from spacy_elmo.language_model.frozen import read_language_model
from spacy_elmo.weights import formats, read_weights
from spacy_elmo.weights.bundle import Format, ModelBundle
from spacy_elmo.weights.convert import LossError, convert
from spacy_elmo.weights.formats import describe
from spacy_elmo.weights.safetensors_file import from_bytes, to_bytes

from helpers.conversions import PROVENANCE, assert_same_vectors, write_source
from helpers.reference_manylangs import write_random


class Toy(Format):
    """The bytes of another format, under a name of their own."""

    name = "toy"
    suffixes = (".toy",)

    def __init__(self, file):
        self.file = file

    @classmethod
    def find(cls, path):
        return cls(path) if path.name.endswith(".toy") and path.is_file() else None

    def read(self, *, weights_only=False, softmax=True):
        bilm = from_bytes(self.file.read_bytes())
        return ModelBundle(bilm, lang=bilm.provenance["lang"])

    def files(self):
        return [self.file]

    @classmethod
    def write(cls, bundle, target, dtype="float32"):
        target.write_bytes(to_bytes(bundle.bilm))


@pytest.fixture
def source(tmp_path):
    return write_source(tmp_path / "source" / "model")


@pytest.fixture
def toy(tmp_path, source):
    """A model of a fifth format."""
    formats.FORMATS.append(Toy)
    convert(source, tmp_path / "a.toy", keep_softmax=False)
    yield tmp_path / "a.toy"
    formats.FORMATS.remove(Toy)


def test_a_fifth_format_is_read_and_described(toy, source):
    assert_same_vectors(toy, source)
    assert spacy_elmo.pretrained(toy)["model"]["lstm_dim"] == 12
    told, expected = describe(toy), describe(source)
    assert (told["format"], told["path"], told["languages"]) == ("toy", str(toy), ["de"])
    assert [file["name"] for file in told["files"]] == ["a.toy"]
    assert told["provenance"] == {**expected["provenance"], "lang": "de"}
    for key in ("checksum", "parameters", "sizes"):
        assert told[key] == expected[key]
    with pytest.raises(ValueError, match="a.toy has no softmax"):
        read_language_model(toy)


def test_a_fifth_format_is_converted(tmp_path, toy, source):
    for name in ("b.safetensors", "weights.hdf5", "pipeline", "c.toy"):
        assert convert(toy, tmp_path / name)[1] == []
        assert_same_vectors(tmp_path / name, source)
    assert describe(tmp_path / "c.toy")["provenance"] == {**PROVENANCE, "lang": "de"}
    with pytest.raises(LossError, match="the softmax and its vocabulary of 6 words"):
        convert(source, tmp_path / "d.toy")
    with pytest.raises(ValueError, match=r"are .safetensors and .hdf5 and .toy\. For"):
        convert(source, tmp_path / "d.bin")
    with pytest.raises(ValueError, match=r"a file of format 'toy' must end in \.toy"):
        convert(source, tmp_path / "d", format="toy")
    with pytest.raises(ValueError, match="exists already"):
        convert(source, toy)


def test_a_place_is_asked_until_a_format_knows_it(tmp_path, source, monkeypatch):
    """Once for a model, whatever is done with it."""
    convert(source, tmp_path / "weights.hdf5")
    packed = shutil.make_archive(str(tmp_path / "fi"), "zip", write_random(tmp_path / "fi"))
    asked = []

    def counted(format, find):
        return lambda place: asked.append(format.name) or find(place)

    for format in formats.FORMATS:
        monkeypatch.setattr(format, "find", counted(format, format.find))
    for place, order in (
        (source, ["pipeline"]),
        (packed, ["pipeline", "safetensors", "manylangs"]),
        (tmp_path / "weights.hdf5", ["pipeline", "safetensors", "manylangs", "allennlp"]),
    ):
        for use in (read_weights, formats.read_bundle, describe, spacy_elmo.pretrained):
            asked.clear()
            use(place)
            assert asked == order, use
    asked.clear()
    convert(source, tmp_path / "copy")
    assert read_language_model(tmp_path / "copy").vocabulary.words
    assert asked == ["pipeline", "pipeline"]


@pytest.mark.parametrize("missing", ["vocab.txt", "softmax.safetensors"])
def test_half_of_what_predicts_is_named(tmp_path, source, missing):
    (Path(source) / missing).unlink()
    bundle = formats.read_bundle(source)
    assert (bundle.prediction, bundle.missing) == (None, missing)
    softmax_alone = ["the softmax, because its vocab.txt is missing"]
    assert bundle.extras == (softmax_alone if missing == "vocab.txt" else [])
