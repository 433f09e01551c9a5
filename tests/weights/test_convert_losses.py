"""What a conversion would lose, and what it keeps beside the weights."""

import h5py
import numpy as np
import pytest
import spacy
import torch
from safetensors.torch import save

from spacy_elmo.bilm.softmax import AdaptiveSoftmax, LanguageModelSoftmax
from spacy_elmo.language_model.frozen import read_language_model
from spacy_elmo.language_model.model import save_model
from spacy_elmo.weights import read_weights
from spacy_elmo.weights.convert import LossError, convert
from spacy_elmo.weights.formats import describe, read_bundle
from spacy_elmo.weights.named import NAMED

from helpers import reference
from helpers.conversions import WORDS, assert_same_vectors, make_model, write_source, write_zip
from helpers.models import tiny_options, write_tiny
from helpers.prepared import content
from helpers.reference_manylangs import write_random
from helpers.runs import assert_same_arrays


@pytest.fixture
def source(tmp_path):
    return write_source(tmp_path / "source" / "model-best")


# What would be lost


def stops(message, source, target, **settings):
    with pytest.raises(LossError, match=message):
        convert(source, target, **settings)
    assert not target.exists()
    _, lost = convert(source, target, **settings, allow_loss=True)
    assert len(lost) == 1
    return lost[0]


def same_softmax(model, other):
    assert_same_arrays(model.softmax.arrays(), other.softmax.arrays())


@pytest.mark.parametrize("kind", [LanguageModelSoftmax, AdaptiveSoftmax])
def test_softmax_beside_safetensors(tmp_path, kind):
    """In a file of its own, which stands for one model: gone with it, and out of the way."""
    save_model(make_model(kind=kind), tmp_path / "x", lang="en", provenance={})
    target, beside = tmp_path / "y" / "a.safetensors", tmp_path / "y" / "a.softmax.safetensors"
    convert(tmp_path / "x", target)
    before, after = read_language_model(tmp_path / "x"), read_language_model(tmp_path / "y")
    assert after.vocabulary.words == before.vocabulary.words
    same_softmax(after, before)
    convert(tmp_path / "x", target, dtype="float16", allow_loss=True, force=True)
    rounded = read_language_model(target).softmax.arrays()
    for name, weight in before.softmax.arrays().items():
        np.testing.assert_array_equal(rounded[name], weight.astype("float16"))
    _, lost = convert(tmp_path / "x", target, keep_softmax=False, force=True)
    assert not lost
    assert not beside.exists()
    with pytest.raises(ValueError, match="has no softmax"):
        read_language_model(target)


def test_softmax_beside_safetensors_that_is_broken(tmp_path, source):
    target, beside = tmp_path / "a.safetensors", tmp_path / "a.softmax.safetensors"
    convert(source, target)
    whole = beside.read_bytes()
    for data, message in (
        (whole[:-3], r"a.softmax.safetensors: "),
        (save({"weight": torch.zeros(2)}), "tensor 'words' is missing"),
        (whole.replace("ï".encode(), b"\xff\xff"), "not UTF-8"),
        (
            whole.replace("\n日".encode(), "_日".encode()),
            "According to the 5 words of a.softmax.safetensors",
        ),
    ):
        beside.write_bytes(data)
        with pytest.raises(ValueError, match=message):
            read_language_model(target)
        read_weights(target)  # which asks for no softmax


def test_adaptive_softmax_has_no_room_in_hdf5(tmp_path):
    save_model(make_model(kind=AdaptiveSoftmax), tmp_path / "x", lang="en", provenance={})
    stops("the adaptive softmax", tmp_path / "x", tmp_path / "weights.hdf5")
    assert not (tmp_path / "vocab.txt").exists()
    convert(tmp_path / "x", tmp_path / "y")
    same_softmax(read_language_model(tmp_path / "y"), read_language_model(tmp_path / "x"))


def test_softmax_without_vocabulary_and_datasets_that_nobody_knows(tmp_path, source):
    convert(source, tmp_path / "weights.hdf5")
    (tmp_path / "vocab.txt").unlink()
    stops("softmax, because its vocab.txt is missing", tmp_path / "weights.hdf5", tmp_path / "a")
    with h5py.File(tmp_path / "weights.hdf5", "a") as file:
        del file["softmax"]
        file["notes/x"] = np.zeros(2)
    stops(r"do not belong to a biLM \(notes/x\)", tmp_path / "weights.hdf5", tmp_path / "b")


def add_components(nlp):
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("tok2vec")


@pytest.mark.parametrize(
    ("settings", "change", "message"),
    [
        ({"mix": "average", "cache": 5}, None, r"settings of the pipe 'lm' \(mix, cache\)"),
        ({}, add_components, r"the other components \(sentencizer, tok2vec\)"),
        (
            {},
            lambda nlp: nlp.meta.update(name="mine", license="MIT"),
            r"meta.json \(name, license\)",
        ),
        ({}, lambda nlp: nlp.vocab.set_vector("bank", np.ones(3, "float32")), "static vectors"),
    ],
)
def test_what_else_a_pipeline_has(tmp_path, tiny_weights, settings, change, message):
    """Other components are not even loaded."""
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", name="lm", config={"weights": str(tiny_weights), **settings})
    if change:
        change(nlp)
    nlp.to_disk(tmp_path / "p")
    if change is add_components:
        (tmp_path / "p" / "tok2vec" / "model").write_bytes(b"broken")
    stops(message, tmp_path / "p", tmp_path / "a.safetensors")
    assert_same_vectors(tmp_path / "a.safetensors", tiny_weights)


# Languages and provenance


def test_a_pipeline_needs_a_language(tmp_path, tiny_weights):
    for lang, message in ((None, "`lang`"), ("qqq", "'qqq'.*`lang`")):
        with pytest.raises(ValueError, match=message):
            convert(tiny_weights, tmp_path / "a", lang=lang)
        assert not (tmp_path / "a").exists()
    convert(tiny_weights, tmp_path / "a", lang="fi")
    assert spacy.load(tmp_path / "a").lang == "fi"
    convert(tmp_path / "a", tmp_path / "b", lang="sv")
    assert spacy.load(tmp_path / "b").lang == "sv"


def test_provenance_is_patched(tmp_path, source):
    patch = {"commit": "c0ffee", "corpus": {"train": None, "name": "x"}, "tokens": None}
    for target in ("a.safetensors", "weights.hdf5", "a"):
        convert(source, tmp_path / target, keep_softmax=False, provenance=patch)
        assert read_bundle(tmp_path / target).provenance == {
            "corpus": {"sha256": "ab", "name": "x"},
            "perplexity": {"mean": 1.5},
            "commit": "c0ffee",
            "lang": "de",
        }


def test_long_provenance_in_hdf5(tmp_path, source):
    text = "é" * 100_000
    convert(source, tmp_path / "weights.hdf5", provenance={"attribution": text})
    assert read_bundle(tmp_path / "weights.hdf5").provenance["attribution"] == text


@pytest.mark.parametrize(
    "provenance",
    [{"lang": ["de"]}, {"lang": {"de": 1}}, {"lang": 5}, {"source": "\udc80"}, {"lang": "\ud800"}],
)
def test_provenance_that_no_file_can_store(tmp_path, source, provenance):
    for name in ("b.safetensors", "b.hdf5", "b"):
        with pytest.raises(ValueError, match="provenance"):
            convert(source, tmp_path / name, provenance=provenance)
        assert not (tmp_path / name).exists()


# Other token encoders, and archives


def test_manylangs_has_no_room_in_hdf5(tmp_path):
    folder, target = write_random(tmp_path / "fi.model"), tmp_path / "out" / "weights.hdf5"
    for force in (False, True):
        with pytest.raises(ValueError, match="cannot store the token encoder 'manylangs'"):
            convert(folder, target, allow_loss=True, force=force)
        assert not (tmp_path / "out").exists()


def test_named_manylangs(tmp_path, monkeypatch):
    """A model with a name knows where it is from."""
    monkeypatch.setenv("SPACY_ELMO_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    folder, model = write_random(tmp_path / "fi.model"), NAMED["manylangs-fi"]
    model.path.parent.mkdir(parents=True)
    write_zip(model.path, content(folder))
    told = describe(model.path)
    assert (told["format"], told["checksum"]) == ("manylangs", read_weights(folder).checksum())
    assert [file["name"] for file in told["files"]] == [model.path.name]
    convert("manylangs-fi", tmp_path / "fi")
    assert_same_vectors(tmp_path / "fi", folder)
    nlp, provenance = spacy.load(tmp_path / "fi"), read_weights(tmp_path / "fi").provenance
    assert (nlp.lang, nlp("The cat")[0].vector.shape) == ("fi", (12,))
    assert (provenance["name"], provenance["licence"]) == ("manylangs-fi", "MIT")
    assert provenance["urls"] == [model.files[0].url]


def test_words_that_are_read_and_words_that_are_predicted(tmp_path):
    """One vocab.txt can hold them if they are the same."""
    options = {"lstm": tiny_options()["lstm"]}
    source = reference.write_random(tmp_path / "source", options, words=WORDS)
    with h5py.File(source, "a") as file:
        file["softmax/W"] = file["embedding"][()]
        file["softmax/b"] = file["embedding"][:, 0]
    _, lost = convert(source, tmp_path / "same" / "weights.hdf5")
    assert not lost
    convert(source, tmp_path / "p", lang="en")
    assert read_language_model(tmp_path / "p").vocabulary.words == WORDS
    vocabulary = tmp_path / "p" / "vocab.txt"
    vocabulary.write_text("\n".join([*WORDS[:3], *WORDS[:2:-1]]) + "\n", "utf8")
    with pytest.raises(ValueError, match="words that the model reads differ"):
        convert(tmp_path / "p", tmp_path / "other" / "weights.hdf5")
    assert not (tmp_path / "other").exists()
    convert(tmp_path / "p", tmp_path / "other" / "weights.hdf5", keep_softmax=False)
    assert_same_vectors(tmp_path / "other" / "weights.hdf5", source)


def test_archive_of_allennlp_with_its_softmax(tmp_path):
    source = write_source(tmp_path / "x" / "model")
    convert(source, tmp_path / "y" / "weights.hdf5")
    archive = write_zip(tmp_path / "y.zip", content(tmp_path / "y"))
    _, lost = convert(archive, tmp_path / "back")
    assert not lost
    assert_same_vectors(tmp_path / "back", source)
    assert read_language_model(tmp_path / "back").vocabulary.words == WORDS
    assert spacy.load(tmp_path / "back").lang == "de"
    told = describe(archive)
    assert (told["format"], told["softmax"]) == ("allennlp", {"kind": "full", "words": 6})
    convert(archive, tmp_path / "a.safetensors")
    assert read_language_model(tmp_path / "a.safetensors").vocabulary.words == WORDS


def test_what_is_lost_is_said_in_short(tmp_path):
    path = write_tiny(tmp_path)
    with h5py.File(path, "a") as file:
        for i in range(300):
            file[f"more/{'x' * 500}{i:03d}"] = np.zeros(1)
    with pytest.raises(LossError, match="datasets that do not belong .*, 295 others") as error:
        convert(path, tmp_path / "b.safetensors")
    assert len(str(error.value)) < 1500
