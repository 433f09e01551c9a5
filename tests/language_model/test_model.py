"""Saved language models: a pipeline with the same vectors, the same weights, and no half-written
folder."""

import os
from pathlib import Path

import numpy as np
import pytest
import spacy
import torch
from spacy.tokens import Doc

from spacy_elmo.bilm.model import BiLM
from spacy_elmo.bilm.softmax import LanguageModelSoftmax, make_softmax, thaw_softmax
from spacy_elmo.language_model.frozen import read_language_model
from spacy_elmo.language_model.model import LanguageModel, save_model
from spacy_elmo.language_model.perplexity import perplexity
from spacy_elmo.model.vocabulary import Vocabulary
from spacy_elmo.text.corpus import read_corpus
from spacy_elmo.weights import read_weights

from helpers.full_disk import room_for
from helpers.models import tiny_bilm
from helpers.prepared import content
from helpers.runs import assert_same_arrays

pytestmark = pytest.mark.training

WORDS = ["<S>", "</S>", "<UNK>", "the", "cat"]
SENTENCE = ["the", "naïve", "cat", "."]
PROVENANCE = {"steps": 7, "perplexity": {"x": 1}}


def make_model(seed=0, kind="sampled"):
    torch.manual_seed(seed)
    softmax = make_softmax(kind, n_words=len(WORDS), width=5)
    if kind == "sampled":
        softmax.bias.data.normal_()
    return LanguageModel(BiLM.from_frozen(tiny_bilm(seed)), softmax, Vocabulary(WORDS)).train()


def save(folder, seed=0, **how):
    save_model(make_model(seed, **how), folder, lang="de", provenance=PROVENANCE)


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
    assert read_weights(tmp_path / "model").provenance == {**PROVENANCE, "lang": "de"}


@pytest.mark.parametrize("kind", ["sampled", "adaptive"])
def test_language_model_is_read_bit_by_bit(tmp_path, kind):
    """The folder held an older model, whose other files are gone."""
    save(tmp_path / "model", seed=1)
    (tmp_path / "model" / "old.txt").touch()
    save(tmp_path / "model", kind=kind)
    assert not (tmp_path / "model" / "old.txt").exists()
    model, again = make_model(kind=kind), read_language_model(tmp_path / "model")
    assert again.vocabulary.words == WORDS
    assert type(thaw_softmax(again.softmax)) is type(model.softmax)
    for ours, theirs in ((model.bilm, again.bilm), (model.softmax, again.softmax)):
        state = {name: value.detach().numpy() for name, value in ours.state_dict().items()}
        assert_same_arrays(theirs.arrays(), state)
    corpus = read_corpus([SENTENCE, ["cat"]])
    expected = perplexity(model, corpus).to_dict()
    assert perplexity(again, corpus).to_dict() == pytest.approx(expected, rel=1e-6)


def test_saving_does_not_change_the_model_in_training(tmp_path):
    model = make_model()
    save_model(model, tmp_path / "model", lang="en", provenance={"steps": 1})
    assert model.training
    assert all(weight.requires_grad for weight in model.parameters())
    assert model.bilm.provenance == {"source": "weights.hdf5"}


@pytest.mark.parametrize(("number", "there"), [(1, True), (1, False), (2, True)])
def test_an_interrupted_save_leaves_the_old_model(tmp_path, monkeypatch, number, there):
    """The interrupt comes at the first or second renaming. `test_convert.py` tests errors of
    writing."""
    folder, renamed, rename = tmp_path / "model", [], Path.rename
    if there:
        save(folder)
    before = content(folder)

    def interrupt(path, target):
        renamed.append(path)
        if len(renamed) == number:
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save(folder, seed=1)
    monkeypatch.undo()
    assert content(folder) == before
    assert os.listdir(tmp_path) == (["model"] if there else [])


def test_a_full_disk_is_an_oserror(tmp_path):
    """Any file may fail. A run that saves a model continues only after an OSError."""
    words = [*WORDS, *(f"w{i}" for i in range(20_000))]
    softmax = LanguageModelSoftmax(n_words=len(words), width=5)  # larger than the biLM
    model = LanguageModel(BiLM.from_frozen(tiny_bilm(0)), softmax, Vocabulary(words))
    save_model(make_model(), tmp_path / "model", lang="en", provenance={})
    before = content(tmp_path)
    assert max(map(len, before.values())) < 100_000  # so it is the softmax that fails
    with room_for(100_000), pytest.raises(OSError, match="File too large"):
        save_model(model, tmp_path / "model", lang="en", provenance={})
    assert content(tmp_path) == before
