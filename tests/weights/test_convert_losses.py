"""What a conversion would lose, and what it keeps beside the weights."""

import shutil

import h5py
import numpy as np
import pytest
import spacy
import srsly
import torch
from safetensors.torch import load, save

from spacy_elmo.bilm.softmax import AdaptiveSoftmax, LanguageModelSoftmax
from spacy_elmo.language_model.frozen import read_language_model
from spacy_elmo.language_model.model import save_model
from spacy_elmo.weights import read_weights, safetensors_file
from spacy_elmo.weights.convert import LossError, convert
from spacy_elmo.weights.formats import read_bundle
from spacy_elmo.weights.manylangs import ManyLangs
from spacy_elmo.weights.named import NAMED, NamedModel
from spacy_elmo.weights.published_file import PublishedFile

from helpers import reference
from helpers.components import ner
from helpers.conversions import assert_same_vectors, make_model, write_source
from helpers.models import check_refused, tiny_bilm, tiny_options, write_allennlp


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
    ours, theirs = model.softmax.arrays(), other.softmax.arrays()
    assert ours.keys() == theirs.keys()
    for name, weight in ours.items():
        np.testing.assert_array_equal(weight, theirs[name])


def test_softmax_has_no_room_in_manylangs(source):
    lost = ManyLangs.losses(read_bundle(source), "float32")
    assert lost[0].startswith("the softmax and its vocabulary of 6 words")


@pytest.mark.parametrize("kind", [LanguageModelSoftmax, AdaptiveSoftmax])
def test_softmax_beside_safetensors(tmp_path, kind):
    """In a file of its own, which stands for one model: gone with it, and out of the way."""
    save_model(make_model(kind=kind), tmp_path / "x", lang="en", provenance={})
    target, beside = tmp_path / "y" / "a.safetensors", tmp_path / "y" / "a.softmax.safetensors"
    convert(tmp_path / "x", target)
    before, after = read_language_model(tmp_path / "x"), read_language_model(tmp_path / "y")
    assert after.vocabulary.words == before.vocabulary.words
    same_softmax(after, before)
    with pytest.raises(ValueError, match=r"a.safetensors exists already"):
        convert(tmp_path / "x", target)
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
    for content, message in (
        (whole[:-3], r"a.softmax.safetensors: "),
        (save({"weight": torch.zeros(2)}), "tensor 'words' is missing"),
        (whole.replace("ï".encode(), b"\xff\xff"), "not UTF-8"),
        (
            whole.replace("\n日".encode(), "_日".encode()),
            "According to the 5 words of a.softmax.safetensors",
        ),
    ):
        beside.write_bytes(content)
        with pytest.raises(ValueError, match=message):
            read_language_model(target)
        read_weights(target)  # which asks for no softmax


def test_adaptive_softmax_has_no_room_in_hdf5(tmp_path):
    save_model(make_model(kind=AdaptiveSoftmax), tmp_path / "x", lang="en", provenance={})
    stops("the adaptive softmax", tmp_path / "x", tmp_path / "weights.hdf5")
    assert not (tmp_path / "vocab.txt").exists()
    convert(tmp_path / "x", tmp_path / "y")
    same, model = read_language_model(tmp_path / "y"), read_language_model(tmp_path / "x")
    same_softmax(same, model)


def test_softmax_without_vocabulary(tmp_path, source):
    convert(source, tmp_path / "weights.hdf5")
    (tmp_path / "vocab.txt").unlink()
    stops("softmax, because its vocab.txt is missing", tmp_path / "weights.hdf5", tmp_path / "a")


def test_datasets_that_nobody_knows(tmp_path):
    datasets = {**reference.random_datasets(tiny_options()), "notes/x": np.zeros(2)}
    source = reference.write_hdf5(tmp_path, tiny_options(), datasets)
    stops(r"do not belong to a biLM \(notes/x\)", source, tmp_path / "a.safetensors")


def test_other_components_settings_and_names(tmp_path, tiny_weights):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"weights": str(tiny_weights), "mix": "average", "cache": 5})
    nlp.to_disk(tmp_path / "settings")
    stops(
        r"settings of the pipe 'elmo' \(mix, cache\)",
        tmp_path / "settings",
        tmp_path / "a.safetensors",
    )
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", name="lm", config={"weights": str(tiny_weights)})
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("ner", config=ner({"@architectures": "spacy.HashEmbedCNN.v2", **CNN}))
    nlp.to_disk(tmp_path / "others")
    stops(
        r"the other components \(sentencizer, ner\)",
        tmp_path / "others",
        tmp_path / "b.safetensors",
    )
    nlp = spacy.blank("en", meta={"name": "mine", "license": "MIT"})
    nlp.add_pipe("elmo", config={"weights": str(tiny_weights)})
    nlp.to_disk(tmp_path / "named")
    stops(r"meta.json \(name, license\)", tmp_path / "named", tmp_path / "c")
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"weights": str(tiny_weights)})
    nlp.vocab.set_vector("bank", np.ones(3, dtype="float32"))
    nlp.to_disk(tmp_path / "vectors")
    stops("static vectors", tmp_path / "vectors", tmp_path / "d")
    for name in ("a.safetensors", "b.safetensors", "c", "d"):
        assert_same_vectors(tmp_path / name, tiny_weights)


CNN = {
    "width": 8,
    "depth": 1,
    "embed_size": 50,
    "window_size": 1,
    "maxout_pieces": 2,
    "subword_features": False,
    "pretrained_vectors": None,
}


@pytest.mark.parametrize("content", ["{", "[]", "3", '{"vectors": 3}'])
def test_broken_meta(tmp_path, source, content):
    (source / "meta.json").write_text(content)
    with pytest.raises(ValueError, match=r"meta\.json(: not| is no)"):
        convert(source, tmp_path / "weights.hdf5")


def test_no_other_component_is_loaded(tmp_path, tiny_weights):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"weights": str(tiny_weights)})
    nlp.add_pipe("ner", config=ner({"@architectures": "spacy.HashEmbedCNN.v2", **CNN}))
    nlp.to_disk(tmp_path / "p")
    (tmp_path / "p" / "ner" / "model").write_bytes(b"broken")
    with pytest.raises(Exception, match=r".+"):
        spacy.load(tmp_path / "p")
    convert(tmp_path / "p", tmp_path / "a.safetensors", allow_loss=True)
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


def test_named_model_knows_where_it_is_from(tmp_path, tiny_weights, monkeypatch):
    monkeypatch.setenv("SPACY_ELMO_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    url = "https://example.org/weights.hdf5"
    files = tuple(PublishedFile(url.replace("weights.hdf5", n)) for n in ("options.json",)) + (
        PublishedFile(url),
    )
    model = NamedModel("tiny", "allennlp", "fi", "CC0-1.0", files)
    monkeypatch.setitem(NAMED, "tiny", model)
    shutil.copytree(tiny_weights.parent, model.path.parent)
    convert("tiny", tmp_path / "a")
    provenance = read_weights(tmp_path / "a").provenance
    assert (provenance["name"], provenance["licence"]) == ("tiny", "CC0-1.0")
    assert provenance["urls"][-1] == url
    assert spacy.load(tmp_path / "a").lang == "fi"


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


def test_provenance_that_is_no_object(tmp_path):
    bilm = tiny_bilm().replace(provenance=["x"])
    safetensors_file.write(bilm, tmp_path / "a.safetensors")
    with pytest.raises(ValueError, match="provenance is not a JSON object"):
        read_bundle(tmp_path / "a.safetensors")
    write_allennlp(tiny_bilm(), tmp_path / "x")
    with h5py.File(tmp_path / "x" / "weights.hdf5", "a") as file:
        file.attrs["spacy_elmo_provenance"] = srsly.json_dumps(["x"])
    with pytest.raises(ValueError, match="provenance is not a JSON object"):
        read_bundle(tmp_path / "x")


@pytest.mark.parametrize(
    ("provenance", "message"),
    [
        ('{"lang": ["de"]}', "'lang' in its provenance"),
        ('{"lang": {"de": 1}}', "'lang' in its provenance"),
        ('{"lang": 5}', "'lang' in its provenance"),
        ('{"source": "\\udc80"}', "provenance is not UTF-8"),
        ('{"lang": "\\ud800"}', "provenance is not UTF-8"),
        ('{"mean": NaN}', "provenance is not valid JSON"),
    ],
)
def test_provenance_that_no_file_can_store(tmp_path, source, provenance, message):
    write_allennlp(tiny_bilm(), tmp_path / "x")
    with h5py.File(tmp_path / "x" / "weights.hdf5", "a") as file:
        file.attrs["spacy_elmo_provenance"] = provenance
    check_refused(lambda: read_bundle(tmp_path / "x"), "weights.hdf5", message)
    data = safetensors_file.to_bytes(tiny_bilm())
    metadata = {**safetensors_file._metadata(data), "provenance": provenance}
    (tmp_path / "a.safetensors").write_bytes(save(load(data), metadata=metadata))
    check_refused(lambda: read_bundle(tmp_path / "a.safetensors"), "a.safetensors", message)
    for name in ("b.safetensors", "b.hdf5", "b"):
        if "NaN" not in provenance:
            changes = srsly.json_loads(provenance)
            with pytest.raises(ValueError, match="provenance"):
                convert(source, tmp_path / name, provenance=changes)
            assert not (tmp_path / name).exists()
