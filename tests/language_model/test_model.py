import resource

import numpy as np
import pytest
import spacy
import torch
from spacy.tokens import Doc

from spacy_elmo.bilm.softmax import AdaptiveSoftmax, LanguageModelSoftmax
from spacy_elmo.frozen.vocabulary import Vocabulary
from spacy_elmo.language_model.frozen import read_language_model
from spacy_elmo.language_model.model import LanguageModel, save_model
from spacy_elmo.language_model.perplexity import perplexity
from spacy_elmo.text.corpus import read_corpus
from spacy_elmo.weights import pipeline_folder as model_folder
from spacy_elmo.weights import read_weights

from helpers.models import tiny_bilm
from helpers.runs import assert_same_weights

WORDS = ["<S>", "</S>", "<UNK>", "the", "cat"]
SENTENCE = ["the", "naïve", "cat", "."]


def make_model(seed=0):
    torch.manual_seed(seed)
    softmax = LanguageModelSoftmax(n_words=len(WORDS), width=5)
    softmax.bias.data.normal_()
    return LanguageModel(tiny_bilm(seed).thaw(), softmax, Vocabulary(WORDS)).train()


def save(folder, seed=0):
    save_model(make_model(seed), folder, lang="de", provenance={"steps": 7, "perplexity": {"x": 1}})


def content(folder):
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def holds(folder, seed):
    return read_weights(folder).checksum() == make_model(seed).bilm.checksum()


def test_pipeline_gives_the_vectors_of_the_model(tmp_path):
    save(tmp_path / "model")
    nlp = spacy.load(tmp_path / "model")
    assert (nlp.lang, nlp.pipe_names) == ("de", ["elmo"])
    assert nlp.meta["performance"] == {"x": 1}
    doc = nlp(Doc(nlp.vocab, SENTENCE))
    bilm = tiny_bilm()
    layers, _ = bilm.embed([SENTENCE], bilm.embed([[]])[1])
    np.testing.assert_allclose(doc.tensor, layers[0][-1], rtol=0, atol=1e-5)
    assert doc[1].vector.tolist() == doc.tensor[1].tolist()
    provenance = {"steps": 7, "perplexity": {"x": 1}, "lang": "de"}
    assert read_weights(tmp_path / "model").provenance == provenance


def test_language_model_is_read_bit_by_bit(tmp_path):
    save(tmp_path / "model")
    model, again = make_model(), read_language_model(tmp_path / "model")
    assert again.vocabulary.words == WORDS
    assert_same_weights(model, again)
    corpus = read_corpus([SENTENCE, ["cat"]])
    expected = perplexity(model, corpus).to_dict()
    assert perplexity(again, corpus).to_dict() == pytest.approx(expected, rel=1e-6)


def test_saving_does_not_touch_the_model_that_is_trained(tmp_path):
    model = make_model()
    save_model(model, tmp_path / "model", lang="en", provenance={"steps": 1})
    assert model.training
    assert all(weight.requires_grad for weight in model.parameters())
    assert model.bilm.provenance == {"source": "weights.hdf5"}


def test_saved_over_an_older_model(tmp_path):
    save(tmp_path / "model", seed=1)
    (tmp_path / "model" / "old.txt").touch()
    assert holds(tmp_path / "model", 1)
    save(tmp_path / "model", seed=2)
    assert holds(tmp_path / "model", 2)
    assert_same_weights(make_model(2), read_language_model(tmp_path / "model"))
    assert not (tmp_path / "model" / "old.txt").exists()
    assert [folder.name for folder in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("place", ["pipeline", "softmax", "first rename", "second rename"])
@pytest.mark.parametrize("there", [True, False])
def test_interrupted_save_leaves_the_old_model_whole(tmp_path, monkeypatch, place, there):
    folder = tmp_path / "model"
    if there:
        save(folder)
    elif place == "second rename":
        place = "first rename"
    before = content(folder)
    renames = []
    original = model_folder.Path.rename

    def rename(self, target):
        renames.append(target)
        if len(renames) == ("first rename", "second rename").index(place) + 1:
            raise KeyboardInterrupt
        return original(self, target)

    def interrupt(*args, **settings):
        raise KeyboardInterrupt

    if place == "pipeline":
        monkeypatch.setattr(spacy.Language, "to_disk", interrupt)
    elif place == "softmax":
        monkeypatch.setattr(Vocabulary, "to_disk", interrupt)
    else:
        monkeypatch.setattr(model_folder.Path, "rename", rename)
    with pytest.raises(KeyboardInterrupt):
        save(folder, seed=1)
    monkeypatch.undo()
    assert content(folder) == before
    assert [path.name for path in tmp_path.iterdir()] == (["model"] if there else [])


def test_neighbors_stay(tmp_path):
    for name in ("model.part", "model.old"):
        (tmp_path / name / "x").mkdir(parents=True)
    save(tmp_path / "model")
    save(tmp_path / "model", seed=2)
    assert {path.name for path in tmp_path.iterdir()} == {"model", "model.part", "model.old"}
    assert "x" not in content(tmp_path / "model")


@pytest.mark.parametrize("name", ["softmax.safetensors", "vocab.txt"])
def test_missing_parts_are_named(tmp_path, name):
    save(tmp_path / "model")
    (tmp_path / "model" / name).unlink()
    with pytest.raises(ValueError, match=rf"model has no {name}"):
        read_language_model(tmp_path / "model")


def test_parts_that_do_not_fit_are_named(tmp_path):
    save(tmp_path / "model")
    vocabulary = tmp_path / "model" / "vocab.txt"
    words = vocabulary.read_text("utf8")
    vocabulary.write_text(words + "more\n", "utf8")
    with pytest.raises(
        ValueError, match=r"softmax.safetensors: .*\(5, 5\). According to the 6 words"
    ):
        read_language_model(tmp_path / "model")
    vocabulary.write_text(words, "utf8")
    (tmp_path / "model" / "softmax.safetensors").write_bytes(b"x")
    with pytest.raises(ValueError, match=r"softmax.safetensors"):
        read_language_model(tmp_path / "model")


@pytest.mark.parametrize("data", [b"cat\n<S>\n", b"<S>\n</S>\n<UNK>\na\na\n", b"<S>\n\xff\n"])
def test_bad_vocabulary_is_named(tmp_path, data):
    save(tmp_path / "model")
    (tmp_path / "model" / "vocab.txt").write_bytes(data)
    with pytest.raises(ValueError, match="vocab") as error:
        read_language_model(tmp_path / "model")
    assert str(tmp_path / "model" / "vocab.txt") in str(error.value)


def test_adaptive_softmax_is_read_bit_by_bit(tmp_path):
    torch.manual_seed(0)
    softmax = AdaptiveSoftmax(n_words=len(WORDS), width=5)
    model = LanguageModel(tiny_bilm(0).thaw(), softmax, Vocabulary(WORDS))
    save_model(model, tmp_path / "model", lang="en", provenance={})
    again = read_language_model(tmp_path / "model")
    assert again.softmax.kind == "adaptive"
    assert isinstance(again.softmax.thaw(), AdaptiveSoftmax)
    assert_same_weights(model, again)


def test_full_disk_is_an_error_of_the_system(tmp_path):
    """Of whichever file: the run that saves a model goes on after an OSError only."""
    words = [*WORDS, *(f"w{i}" for i in range(20_000))]
    softmax = LanguageModelSoftmax(n_words=len(words), width=5)  # larger than the biLM
    model = LanguageModel(tiny_bilm(0).thaw(), softmax, Vocabulary(words))
    save_model(make_model(), tmp_path / "model", lang="en", provenance={})
    before = content(tmp_path)
    assert max(map(len, before.values())) < 100_000  # so it is the softmax that fails
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            save_model(model, tmp_path / "model", lang="en", provenance={})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert content(tmp_path) == before
