"""Perplexity of a language model, trained or frozen, against probabilities computed by numpy."""

import math

import numpy as np
import pytest

from spacy_elmo.bilm.model import BiLM
from spacy_elmo.bilm.softmax import freeze, thaw_softmax
from spacy_elmo.language_model import perplexity as module
from spacy_elmo.language_model.frozen import FrozenLanguageModel, read_language_model
from spacy_elmo.language_model.model import LanguageModel
from spacy_elmo.language_model.perplexity import perplexity
from spacy_elmo.text.corpus import read_corpus

from helpers.softmaxes import MODELS, bytes_model, losses_of, write_model

SENTENCES = [
    ["the", "cat", "sat"],
    ["naïve"],
    ["the", "the", "unreasonably", "cat", "."],
    ["<UNK>", "cat"],
]
CORPUS = read_corpus(SENTENCES)


def thawed(model):
    made = LanguageModel(
        BiLM.from_frozen(model.bilm), thaw_softmax(model.softmax), model.vocabulary
    )
    return made.requires_grad_(False)


def frozen(model):
    return FrozenLanguageModel(model.bilm.freeze(), freeze(model.softmax), model.vocabulary)


@pytest.fixture
def model(tmp_path):
    return thawed(read_language_model(write_model(tmp_path, *bytes_model())))


@pytest.mark.training
@pytest.mark.parametrize("as_run", [thawed, lambda model: model], ids=["module", "frozen"])
@pytest.mark.parametrize(
    ("kind", "unroll_steps"), [("bytes", 1), ("bytes", 4), ("words", 100), ("forward", 100)]
)
def test_perplexity_of_one_stream_equals_the_formula(tmp_path, kind, unroll_steps, as_run):
    options, datasets = MODELS[kind]()
    model = as_run(read_language_model(write_model(tmp_path, options, datasets)))
    figures = perplexity(model, CORPUS, n_streams=1, unroll_steps=unroll_steps)
    losses = [np.mean(each) for each in losses_of(options, datasets, SENTENCES)]
    found, wanted = figures.to_dict(), dict(zip(("forward", "backward"), map(math.exp, losses)))
    if kind == "forward":
        assert found.pop("backward") is None and math.isnan(figures.backward)
    # The words, and a mark a sentence; unreasonably, <UNK>.
    wanted |= {"mean": math.exp(np.mean(losses)), "n_tokens": 11 + 4, "unknown": 2 / 11}
    assert found == pytest.approx(wanted, rel=1e-5)


@pytest.mark.training
def test_several_streams_start_from_zeros(model, monkeypatch):
    one = perplexity(model, CORPUS, n_streams=1)
    assert perplexity(model, CORPUS, n_streams=5) == one  # A short text is one stream.
    monkeypatch.setattr(module, "MIN_ITEMS", 7)
    # 15 items in two streams: the second starts with the sentence that holds the 8th item.
    parts = [losses_of(*bytes_model(), part) for part in (SENTENCES[:2], SENTENCES[2:])]
    figures = perplexity(model, CORPUS, n_streams=2, unroll_steps=3)
    wanted = [math.exp(np.mean(parts[0][i] + parts[1][i])) for i in range(2)]
    assert [figures.forward, figures.backward] == pytest.approx(wanted, rel=1e-5)


def test_a_hopeless_model_has_infinite_perplexity(model):
    model.softmax.bias.mul_(1e6)
    for each in (model, frozen(model)):
        figures = perplexity(each, CORPUS)
        assert figures.mean == math.inf
        assert figures.to_dict()["mean"] is None  # JSON has no infinity
