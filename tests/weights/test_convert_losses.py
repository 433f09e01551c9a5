"""Losses of a conversion, and parts that go with the weights into every format: the softmax, the
provenance, the license, and words that a text format cannot store."""

from dataclasses import replace

import h5py
import numpy as np
import pytest
import spacy
import srsly
import torch

from spacy_elmo.bilm.model import BiLM
from spacy_elmo.bilm.softmax import AdaptiveSoftmax, LanguageModelSoftmax, freeze
from spacy_elmo.language_model.frozen import read_language_model
from spacy_elmo.language_model.model import save_model
from spacy_elmo.model.config import NO_CHARACTERS
from spacy_elmo.model.vocabulary import InputVocabulary, Vocabularies
from spacy_elmo.weights import locate, read_weights
from spacy_elmo.weights.bundle import ModelBundle
from spacy_elmo.weights.convert import LossError, convert
from spacy_elmo.weights.formats import describe, read_bundle
from spacy_elmo.weights.named import NAMED
from spacy_elmo.weights.safetensors_file import SafetensorsFile

from helpers import reference
from helpers.conversions import WORDS, assert_same_vectors, make_model, write_source, write_zip
from helpers.models import check_refused, tiny_bilm, tiny_options
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


@pytest.mark.conversions
@pytest.mark.parametrize("kind", [LanguageModelSoftmax, AdaptiveSoftmax])
def test_safetensors_have_their_softmax_beside_them(tmp_path, kind):
    """The file is deleted when a model without a softmax replaces this model."""
    save_model(make_model(kind=kind), tmp_path / "x", lang="en", provenance={})
    target, beside = tmp_path / "y" / "a.safetensors", tmp_path / "y" / "a.softmax.safetensors"
    convert(tmp_path / "x", target)
    before, after = read_language_model(tmp_path / "x"), read_language_model(tmp_path / "y")
    assert after.vocabulary.words == before.vocabulary.words
    assert_same_arrays(after.softmax.arrays(), before.softmax.arrays())
    convert(tmp_path / "x", target, dtype="float16", allow_loss=True, force=True)
    rounded = {k: v.astype("f2") for k, v in before.softmax.arrays().items()}
    assert_same_arrays(read_language_model(target).softmax.arrays(), rounded)
    assert convert(tmp_path / "x", target, keep_softmax=False, force=True)[1] == []
    assert not beside.exists()
    with pytest.raises(ValueError, match="has no softmax"):
        read_language_model(target)
    if kind is AdaptiveSoftmax:
        stops("the adaptive softmax", tmp_path / "x", tmp_path / "z" / "weights.hdf5")
        assert not (tmp_path / "z" / "vocab.txt").exists()


@pytest.mark.conversions
def test_an_incomplete_softmax_and_unknown_datasets_are_losses(tmp_path, source):
    convert(source, tmp_path / "weights.hdf5")
    (tmp_path / "vocab.txt").unlink()
    stops("softmax, because its vocab.txt is missing", tmp_path / "weights.hdf5", tmp_path / "a")
    with h5py.File(tmp_path / "weights.hdf5", "a") as file:
        del file["softmax"]
        file["notes/a"] = np.zeros(2)
        for i in range(300):
            file[f"notes/{'x' * 500}{i:03d}"] = np.zeros(1)
    message = r"do not belong to a biLM \(notes/a, .*, 296 others"
    assert len(stops(message, tmp_path / "weights.hdf5", tmp_path / "b")) < 1500


OTHERS = ["sentencizer", "tok2vec"]


@pytest.mark.pipelines
@pytest.mark.conversions
@pytest.mark.parametrize(
    ("settings", "change", "message"),
    [
        ({"mix": "average", "cache": 5}, str, r"settings of the pipe 'lm' \(mix, cache\)"),
        ({}, lambda nlp: [*map(nlp.add_pipe, OTHERS)], r"components \(sentencizer, tok2vec\)"),
        ({}, lambda nlp: nlp.vocab.set_vector("bank", np.ones(3, "float32")), "static vectors"),
    ],
)
def test_other_parts_of_a_pipeline_are_losses(tmp_path, tiny_weights, settings, change, message):
    """Other components are not loaded."""
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", name="lm", config={"weights": str(tiny_weights), **settings})
    change(nlp)
    nlp.meta.update(name="x", license="MIT")  # is no loss
    nlp.to_disk(tmp_path / "p")
    for file in tmp_path.glob("p/tok2vec/model"):
        file.write_bytes(b"broken")
    stops(message, tmp_path / "p", tmp_path / "a.safetensors")
    assert_same_vectors(tmp_path / "a.safetensors", tiny_weights)


# Languages and provenance


@pytest.mark.conversions
def test_a_pipeline_needs_a_language(tmp_path, tiny_weights):
    for lang, message in ((None, "`lang`"), ("qqq", "'qqq'.*`lang`")):
        with pytest.raises(ValueError, match=message):
            convert(tiny_weights, tmp_path / "a", lang=lang)
        assert not (tmp_path / "a").exists()
    convert(tiny_weights, tmp_path / "a", lang="fi")
    assert spacy.load(tmp_path / "a").lang == "fi"
    convert(tmp_path / "a", tmp_path / "b", lang="sv")
    assert spacy.load(tmp_path / "b").lang == "sv"


@pytest.mark.conversions
def test_provenance_can_be_changed(tmp_path, source):
    """The text is longer than an attribute in an old HDF5 file may be."""
    text = "é" * 100_000
    patch = {"commit": text, "corpus": {"name": "x"}, "tokens": None}
    kept = {"corpus": {"name": "x"}, "perplexity": {"mean": 1.5}, "lang": "de"}
    for target in ("a.safetensors", "weights.hdf5", "a"):
        convert(source, tmp_path / target, keep_softmax=False, provenance=patch)
        assert read_bundle(tmp_path / target).provenance == {**kept, "commit": text}


@pytest.mark.conversions
@pytest.mark.parametrize(
    "provenance",
    [{"lang": ["de"]}, {"lang": {"de": 1}}, {"lang": 5}, {"source": "\udc80"}, {"lang": "\ud800"}],
)
def test_provenance_that_no_file_can_store_is_refused(tmp_path, source, provenance):
    for name in ("b.safetensors", "b.hdf5", "b"):
        with pytest.raises(ValueError, match="provenance"):
            convert(source, tmp_path / name, provenance=provenance)
        assert not (tmp_path / name).exists()


# Other token encoders, and archives


@pytest.mark.conversions
def test_a_named_model_keeps_its_source_and_language(tmp_path, monkeypatch):
    monkeypatch.setenv("SPACY_ELMO_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    folder, model = write_random(tmp_path / "fi.model"), NAMED["manylangs-fi"]
    with pytest.raises(ValueError, match="cannot store the token encoder 'manylangs'"):
        convert(folder, tmp_path / "out" / "weights.hdf5", allow_loss=True)
    assert not (tmp_path / "out").exists()
    model.path.parent.mkdir(parents=True)
    write_zip(model.path, content(folder))
    told = describe(model.path)
    assert (told["format"], told["checksum"]) == ("manylangs", read_weights(folder).checksum())
    convert("manylangs-fi", tmp_path / "fi")
    assert_same_vectors(tmp_path / "fi", folder)
    nlp, provenance = spacy.load(tmp_path / "fi"), read_weights(tmp_path / "fi").provenance
    assert (nlp.lang, nlp("The cat")[0].vector.shape) == ("fi", (12,))
    assert (provenance["name"], provenance["licence"]) == ("manylangs-fi", "MIT")
    assert provenance["urls"] == [model.files[0].url]


@pytest.mark.conversions
def test_words_that_are_read_and_predicted_must_agree_in_vocab_txt(tmp_path):
    """One file can store both only if they are equal."""
    options = {"lstm": tiny_options()["lstm"]}
    source = reference.write_random(tmp_path / "source", options, words=WORDS)
    with h5py.File(source, "a") as file:
        file["softmax/W"] = file["embedding"][()]
        file["softmax/b"] = file["embedding"][:, 0]
    assert convert(source, tmp_path / "same" / "weights.hdf5")[1] == []
    convert(source, tmp_path / "p", lang="en")
    assert read_language_model(tmp_path / "p").vocabulary.words == WORDS
    vocabulary = tmp_path / "p" / "vocab.txt"
    vocabulary.write_text("\n".join([*WORDS[:3], *WORDS[:2:-1]]) + "\n", "utf8")
    with pytest.raises(ValueError, match="words that the model reads differ"):
        convert(tmp_path / "p", tmp_path / "other" / "weights.hdf5")
    assert not (tmp_path / "other").exists()
    convert(tmp_path / "p", tmp_path / "other" / "weights.hdf5", keep_softmax=False)
    assert_same_vectors(tmp_path / "other" / "weights.hdf5", source)


MARKS = ["<S>", "</S>", "<UNK>"]
MIXED = [*MARKS, "the", " ", "  ", "\u00a0", "!!!MAXTERMID", "a\rb", "in\u2028", " cat", "dog"]


def read_as_bilm_tf(path):
    """Read words line by line, as `Vocabulary` in bilm-tf's data.py does."""
    with open(path, encoding="utf8") as lines:
        return [line.strip() for line in lines if line.strip() != "!!!MAXTERMID"]


def write_model(folder, words, kind):
    """Write a model that reads, predicts, or reads and predicts these words, and return its
    path."""
    bilm, prediction = tiny_bilm(), None
    if kind != "predicted":
        sizes = {} if kind == "beside characters" else NO_CHARACTERS
        config = replace(bilm.config, n_words=len(words), word_embed_dim=5, **sizes)
        torch.manual_seed(0)
        made = BiLM(config, Vocabularies(words=InputVocabulary(words)))
        for parameter in made.parameters():
            torch.nn.init.normal_(parameter)
        bilm = made.freeze()
    if kind in ("predicted", "both"):
        model = make_model(words=words)
        prediction = freeze(model.softmax), model.vocabulary
    folder.mkdir()
    SafetensorsFile.write(ModelBundle(bilm, prediction, "en"), folder / "x.safetensors")
    return folder / "x.safetensors"


@pytest.mark.conversions
@pytest.mark.parametrize("kind", ["read", "predicted", "both"])
def test_words_that_no_line_can_store_are_named(tmp_path, kind):
    source, target = write_model(tmp_path / "a", MIXED, kind), tmp_path / "out" / "weights.hdf5"
    named = "vocab.txt cannot store", *map(repr, MIXED[4:9]), ", 2 others", "NAME.safetensors or"
    message = check_refused(lambda: convert(source, target, allow_loss=True), *named)
    assert ("keep_softmax=False" in message) == (kind == "predicted")
    assert not target.parent.exists()
    convert(source, tmp_path / "pipeline", lang="en")
    assert_same_vectors(tmp_path / "pipeline", source)
    if kind != "read":
        assert read_language_model(tmp_path / "pipeline").vocabulary.words == MIXED
    if kind == "predicted":
        convert(source, target, keep_softmax=False)
        assert_same_vectors(target, source)


@pytest.mark.conversions
@pytest.mark.parametrize("kind", ["read", "predicted", "both"])
def test_words_that_lines_can_store_are_kept(tmp_path, kind):
    words = [*MARKS, "a b", "\ufeffx", "日本", "!!!", "in\u2028side", "x\x1cy", "end"]
    source = write_model(tmp_path / "a", words, kind)
    convert(source, tmp_path / "weights.hdf5")
    assert read_as_bilm_tf(tmp_path / "vocab.txt") == words
    assert_same_vectors(tmp_path / "weights.hdf5", source)
    both = (read_weights(path).token_vectors(words) for path in (tmp_path / "weights.hdf5", source))
    np.testing.assert_array_equal(*both)


@pytest.mark.conversions
def test_ids_without_a_word_do_not_move_other_words(tmp_path):
    """The last of equal lines counts, so unused ids get lines that change no word's row."""
    source = write_model(tmp_path / "a", [*MARKS, None, "cat", None, "the"], "read")
    convert(source, tmp_path / "weights.hdf5")
    rows = {word: row for row, word in enumerate(read_as_bilm_tf(tmp_path / "vocab.txt"))}
    assert rows == {"<S>": 0, "</S>": 1, "<UNK>": 2, "cat": 4, "the": 6}
    paths = source, tmp_path / "weights.hdf5"
    both = (read_weights(path).token_vectors(["", "cat", "the", "dog", "<S>"]) for path in paths)
    np.testing.assert_array_equal(*both)


@pytest.mark.conversions
def test_ready_made_vectors_beside_characters_are_refused(tmp_path):
    """No program would read them from the HDF5 file of a model with characters."""
    source = write_model(tmp_path / "a", [*MARKS, "the"], "beside characters")
    refused = "word vectors in addition to characters"
    check_refused(lambda: convert(source, tmp_path / "weights.hdf5"), refused)
    assert not (tmp_path / "weights.hdf5").exists()
    convert(source, tmp_path / "b.safetensors")
    assert_same_vectors(tmp_path / "b.safetensors", source)


TEXT = "The weights are made of Maria's letters, CC BY 4.0."
BUNDLED = locate("en_small").with_name("en_small-ATTRIBUTION.md").read_text("utf8")


def pipeline(**provenance):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo").set_bilm(tiny_bilm().replace(provenance=provenance))
    return nlp


def said_in(folder):
    path = folder / "LICENSES_SOURCES"
    license = srsly.read_json(folder / "meta.json")["license"]
    return path.read_text("utf8") if path.exists() else None, license


@pytest.mark.pipelines
def test_the_attribution_of_the_bundled_model_is_kept(tmp_path):
    """The text goes from the file beside the model into a pipeline, and into pipelines made of
    it."""
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo")
    nlp.to_disk(tmp_path / "a")
    assert said_in(tmp_path / "a") == (BUNDLED, "see LICENSES_SOURCES")
    assert "spacy-elmo" in BUNDLED
    other = spacy.blank("en")
    other.add_pipe("elmo", source=spacy.load(tmp_path / "a"))
    other.to_disk(tmp_path / "b")
    assert said_in(tmp_path / "b") == said_in(tmp_path / "a")


@pytest.mark.pipelines
@pytest.mark.parametrize(
    ("provenance", "text", "license"),
    [
        ({}, None, ""),
        ({"attribution": TEXT, "licence": "CC-BY-4.0"}, TEXT, "CC-BY-4.0"),
        ({"attribution": TEXT}, TEXT, "see LICENSES_SOURCES"),
        ({"license": "MIT"}, None, "MIT"),
        ({"licence": "see en_small-ATTRIBUTION.md"}, BUNDLED, "see LICENSES_SOURCES"),
        ({"licence": "see a-ATTRIBUTION.md", "attribution": TEXT}, TEXT, "see LICENSES_SOURCES"),
        ({"licence": "see unknown-ATTRIBUTION.md"}, None, "see unknown-ATTRIBUTION.md"),
        ({"licence": 3, "attribution": ["x"]}, None, ""),
    ],
)
def test_a_pipeline_is_saved_with_its_attribution_and_license(tmp_path, provenance, text, license):
    pipeline(**provenance).to_disk(tmp_path)
    assert said_in(tmp_path) == (text, license)


@pytest.mark.pipelines
def test_an_existing_license_and_attribution_stay(tmp_path):
    """The pipeline has its own license and other sources, and no text is added twice."""
    nlp = pipeline(attribution=TEXT, licence="CC-BY-4.0")
    nlp.meta["license"] = "MIT"
    (tmp_path / "LICENSES_SOURCES").write_text("Vectors: mine.\n", "utf8")
    for _ in range(2):
        nlp.to_disk(tmp_path)
        assert said_in(tmp_path) == (f"Vectors: mine.\n\n{TEXT}", "MIT")


@pytest.mark.pipelines
def test_a_pipe_saved_alone_writes_only_into_its_folder(tmp_path):
    pipe = pipeline(attribution=TEXT, licence="CC-BY-4.0").get_pipe("elmo")
    pipe.to_disk(tmp_path / "elmo")
    srsly.write_json(tmp_path / "meta.json", {"components": ["ner"], "license": ""})
    pipe.to_disk(tmp_path / "elmo")
    assert {path.name for path in tmp_path.iterdir()} == {"elmo", "meta.json"}
    assert said_in(tmp_path) == (None, "")


@pytest.mark.pipelines
@pytest.mark.conversions
@pytest.mark.parametrize("names", [["a.safetensors", "a.hdf5", "b.safetensors"], ["p", "a.hdf5"]])
def test_the_attribution_goes_from_format_to_format(tmp_path, names):
    """The text is in the weights, beside them, and in the pipeline at the end; conversions report
    no loss."""
    source = tmp_path / "first"
    pipeline(attribution=TEXT, licence="CC-BY-4.0").to_disk(source)
    for name in [*names, "last"]:
        convert(source, tmp_path / name)
        source = tmp_path / name
        provenance = read_bundle(source).provenance
        assert (provenance["attribution"], provenance["licence"]) == (TEXT, "CC-BY-4.0")
        if "." in name:
            assert source.with_name(f"{source.stem}-ATTRIBUTION.md").read_text("utf8") == TEXT
    assert said_in(source) == (TEXT, "CC-BY-4.0")
