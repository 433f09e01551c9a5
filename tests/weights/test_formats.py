"""The format of a model is found once, a fifth format is one class in one list, and safetensors
files of earlier versions are read."""

import json
import shutil
from pathlib import Path

import pytest

import spacy_elmo
from spacy_elmo.bilm.model import BiLM
from spacy_elmo.language_model.frozen import read_language_model
from spacy_elmo.model.config import NO_CHARACTERS, BiLMConfig
from spacy_elmo.model.vocabulary import InputVocabulary, Vocabularies
from spacy_elmo.registry import registry
from spacy_elmo.weights import formats, read_weights, safetensors_file
from spacy_elmo.weights.bundle import Format, ModelBundle
from spacy_elmo.weights.convert import convert
from spacy_elmo.weights.formats import describe
from spacy_elmo.weights.safetensors_file import from_bytes, softmax_of, to_bytes

from helpers.conversions import PROVENANCE, assert_same_vectors, write_source
from helpers.models import CHANGED, check_refused, tiny_bilm
from helpers.reference_manylangs import write_random


class Toy(Format):
    """Format with the bytes of another format under its own name."""

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
    """Write a model of a fifth format."""
    formats.FORMATS.append(Toy)
    convert(source, tmp_path / "a.toy", keep_softmax=False)
    yield tmp_path / "a.toy"
    formats.FORMATS.remove(Toy)


@pytest.mark.conversions
def test_a_fifth_format_is_read_and_described(toy, source):
    assert_same_vectors(toy, source)
    assert spacy_elmo.pretrained(toy)["model"]["lstm_dim"] == 12
    found, wanted = describe(toy), describe(source)
    wanted |= {"format": "toy", "path": str(toy), "provenance": {**PROVENANCE, "lang": "de"}}
    wanted |= {"files": found["files"], "softmax": None, "dtype": None}
    assert found == wanted
    assert [file["name"] for file in found["files"]] == ["a.toy"]


@pytest.mark.conversions
def test_a_fifth_format_is_converted(tmp_path, toy, source):
    for name in ("b.safetensors", "weights.hdf5", "pipeline", "c.toy"):
        assert convert(toy, tmp_path / name)[1] == []
        assert_same_vectors(tmp_path / name, source)
    assert describe(tmp_path / "c.toy")["provenance"] == {**PROVENANCE, "lang": "de"}
    for name, message in (
        ("d.toy", "the softmax and its vocabulary of 6 words"),
        ("d.bin", ".h5 (allennlp) or .toy (toy). For a folder"),
    ):
        check_refused(lambda: convert(source, tmp_path / name), message)  # noqa: B023


def test_formats_are_asked_once_until_one_knows_the_model(tmp_path, monkeypatch):
    """Every function asks each format once."""
    packed = shutil.make_archive(str(tmp_path / "fi"), "zip", write_random(tmp_path / "fi"))
    asked = []

    def counted(format, find):
        return lambda place: asked.append(format.name) or find(place)

    for format in formats.FORMATS:
        monkeypatch.setattr(format, "find", counted(format, format.find))
    for use in (read_weights, formats.read_bundle, describe, spacy_elmo.pretrained):
        asked.clear()
        use(packed)
        assert asked == ["pipeline", "safetensors", "manylangs"], use


@pytest.mark.parametrize("missing", ["vocab.txt", "softmax.safetensors"])
def test_a_missing_vocabulary_or_softmax_is_named(tmp_path, source, missing):
    (Path(source) / missing).unlink()
    bundle = formats.read_bundle(source)
    assert (bundle.prediction, bundle.missing) == (None, missing)
    check_refused(lambda: read_language_model(source), f"model has no {missing}")
    softmax_alone = ["the softmax, because its vocab.txt is missing"]
    assert bundle.extras == (softmax_alone if missing == "vocab.txt" else [])


def test_files_of_the_first_version_are_read(tmp_path):
    """This version had only bilm-tf's token encoder of characters. A pipe does not need the
    softmax, so a broken softmax does not matter."""
    path = tmp_path / "a.safetensors"
    safetensors_file.write(tiny_bilm(), path)
    config = json.loads(safetensors_file._metadata(path.read_bytes())["config"])
    assert config.keys() == CHANGED.keys()  # which those versions read as well
    softmax_of(path).write_bytes(b"broken")
    reader = registry.get("weights_readers", "spacy-elmo.safetensors.v1")
    assert reader(str(path))().checksum() == tiny_bilm().checksum()


def test_a_vocabulary_can_have_any_length(tmp_path):
    """No part of it is in the header, whose length the format limits."""
    n_words = 150_000
    strings = ["<oov>", "<bos>", "<eos>", *(f"wörd{i}" for i in range(3, n_words))]
    sizes = {"lstm_dim": 4, "projection_dim": 2, "n_words": n_words, "word_embed_dim": 2}
    config = BiLMConfig(token_encoder="manylangs", **NO_CHARACTERS, **sizes)
    bilm = BiLM(config, Vocabularies(words=InputVocabulary(strings))).requires_grad_(False)
    safetensors_file.write(bilm.freeze(), tmp_path / "a.safetensors")
    header = int.from_bytes((tmp_path / "a.safetensors").read_bytes()[:8], "little")
    assert header < 4_000
    again = read_weights(tmp_path / "a.safetensors")
    assert again.vocabularies.words.strings == bilm.indexer.vocabularies.words.strings
