"""The softmax of AllenNLP's files: perplexity by it, and runs that go on from it."""

import math

import numpy as np
import pytest
import torch

from spacy_elmo.language_model.frozen import read_language_model
from spacy_elmo.language_model.perplexity import perplexity
from spacy_elmo.pretraining.initial_model import initial_model
from spacy_elmo.pretraining.run import pretrain
from spacy_elmo.text.corpus import read_corpus

from helpers.models import check_refused
from helpers.runs import run_settings, write_texts
from helpers.softmaxes import MODELS, WORDS, bytes_model, losses_of, write_model

SENTENCES = [["the", "cat", "sat"], ["naïve", "unreasonably", "."], ["the", "."]]
OTHER = read_corpus([["the", "a", "new", "cat"], ["words", "the", "new", "the"]] * 20)


@pytest.mark.parametrize("kind", MODELS)
def test_perplexity(tmp_path, kind):
    options, datasets = MODELS[kind]()
    model = read_language_model(write_model(tmp_path, options, datasets))
    figures = perplexity(model, read_corpus(SENTENCES), n_streams=1)
    losses = [np.mean(of_direction) for of_direction in losses_of(options, datasets, SENTENCES)]
    assert figures.forward == pytest.approx(math.exp(losses[0]), rel=1e-5)
    assert figures.mean == pytest.approx(math.exp(np.mean(losses)), rel=1e-5)
    if kind == "forward":
        assert math.isnan(figures.backward)
        assert figures.to_dict()["backward"] is None
    else:
        assert figures.backward == pytest.approx(math.exp(losses[1]), rel=1e-5)


def test_going_on_keeps_softmax_and_vocabulary(tmp_path):
    options, datasets = bytes_model()
    write_texts(tmp_path)
    path = write_model(tmp_path / "model", options, datasets)
    config = run_settings(tmp_path, init={"init": str(path)}, max_steps=2)
    model, softmax_warmup = initial_model(config, OTHER)
    assert softmax_warmup == 0
    assert model.vocabulary.words == WORDS
    np.testing.assert_array_equal(model.softmax.weight.detach(), datasets["softmax/W"])
    np.testing.assert_array_equal(model.softmax.bias.detach(), datasets["softmax/b"])
    assert all(weight.requires_grad for weight in model.parameters())
    pretrain(config, tmp_path / "out")
    after = read_language_model(tmp_path / "out" / "model-last")
    assert after.vocabulary.words == WORDS
    weight = after.softmax.arrays()["weight"]
    assert (weight != datasets["softmax/W"]).any()
    np.testing.assert_allclose(weight, datasets["softmax/W"], atol=0.1)


def test_new_vocabulary_takes_over_its_words(tmp_path):
    options, datasets = bytes_model()
    write_texts(tmp_path)
    path = write_model(tmp_path / "model", options, datasets)
    init = {"init": str(path), "vocabulary": "new", "softmax_warmup": 7}
    model, softmax_warmup = initial_model(run_settings(tmp_path, init=init), OTHER)
    assert softmax_warmup == 7
    words = model.vocabulary.words
    assert "new" in words
    for word in ("the", "cat", "<UNK>"):
        weight = torch.from_numpy(datasets["softmax/W"][WORDS.index(word)])
        assert torch.equal(model.softmax.weight[words.index(word)], weight)


def test_softmax_without_vocabulary(tmp_path, capsys):
    """Nobody knows its words: a new one is trained, and that is said."""
    options, datasets = bytes_model()
    write_texts(tmp_path)
    path = write_model(tmp_path / "model", options, datasets)
    (tmp_path / "model" / "vocab.txt").unlink()
    config = run_settings(tmp_path, init={"init": str(path)})
    model, softmax_warmup = initial_model(config, OTHER)
    assert softmax_warmup == 500
    assert "new" in model.vocabulary
    shown = " ".join(capsys.readouterr().out.split())
    assert "has a softmax, but no vocab.txt: a new softmax replaces it" in shown
    check_refused(lambda: read_language_model(path), path, "has no vocab.txt")


def test_a_vocabulary_in_another_order(tmp_path):
    """With the rows of the softmax in the same order it is the same model."""
    options, datasets = bytes_model()
    whole = read_language_model(write_model(tmp_path / "whole", options, datasets))
    turned = {name: datasets[name][::-1] for name in ("softmax/W", "softmax/b")}
    path = write_model(tmp_path / "turned", options, {**datasets, **turned})
    (tmp_path / "turned" / "vocab.txt").write_text("\n".join([*WORDS[::-1], ""]), "utf8")
    found = perplexity(read_language_model(path), read_corpus(SENTENCES), n_streams=1)
    expected = perplexity(whole, read_corpus(SENTENCES), n_streams=1)
    assert found.mean == pytest.approx(expected.mean, rel=1e-6)
