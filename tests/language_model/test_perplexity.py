import math

import numpy as np
import pytest
import torch

from spacy_elmo.bilm.softmax import LanguageModelSoftmax, freeze
from spacy_elmo.frozen.vocabulary import Vocabulary
from spacy_elmo.language_model import perplexity as module
from spacy_elmo.language_model.frozen import FrozenLanguageModel
from spacy_elmo.language_model.model import LanguageModel
from spacy_elmo.language_model.perplexity import perplexity
from spacy_elmo.text.corpus import read_corpus

from helpers import reference
from helpers.models import make_bilm, tiny_options

OPTIONS = tiny_options(dim=8)
DATA = reference.random_datasets(OPTIONS, 4)
WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", "naïve"]
SENTENCES = [
    ["the", "cat", "sat"],
    ["naïve"],
    ["the", "the", "unreasonably", "cat", "."],
    ["<UNK>", "cat"],
]


@pytest.fixture
def model():
    torch.manual_seed(0)
    softmax = LanguageModelSoftmax(n_words=len(WORDS), width=5)
    softmax.bias.data.normal_()
    made = LanguageModel(make_bilm(OPTIONS, DATA).thaw(), softmax, Vocabulary(WORDS))
    return made.requires_grad_(False)


def frozen(model):
    return FrozenLanguageModel(model.bilm.freeze(), freeze(model.softmax), model.vocabulary)


def brute_force(model, sentences):
    """Negative log-likelihoods of both directions, the state carried through the sentences."""
    weight, bias = (p.numpy().astype("float64") for p in (model.softmax.weight, model.softmax.bias))
    losses = [[], []]
    for direction in range(2):
        cells = [(np.zeros(8), np.zeros(5)) for _ in range(2)]
        for sentence in sentences:
            whole = ["<S>", *sentence, "</S>"][:: -1 if direction else 1]
            x = [reference.token_vector(OPTIONS, DATA, token) for token in whole[:-1]]
            for layer in range(2):
                name = reference._cell_name(direction, layer)
                out, cells[layer] = reference._run_layer(OPTIONS, DATA, name, x, cells[layer])
                x = [a + b for a, b in zip(out, x)] if layer else out
            for context, target in zip(x, whole[1:]):
                logits = weight @ context + bias
                word = WORDS.index(target) if target in WORDS else 2
                losses[direction].append(np.log(np.exp(logits).sum()) - logits[word])
    return losses


@pytest.mark.parametrize("as_run", [lambda model: model, frozen], ids=["module", "frozen"])
@pytest.mark.parametrize("unroll_steps", [1, 4, 100])
def test_one_stream(model, unroll_steps, as_run):
    forward, backward = (np.mean(x) for x in brute_force(model, SENTENCES))
    corpus = read_corpus(SENTENCES)
    figures = perplexity(as_run(model), corpus, n_streams=1, unroll_steps=unroll_steps)
    assert figures.forward == pytest.approx(math.exp(forward), rel=1e-5)
    assert figures.backward == pytest.approx(math.exp(backward), rel=1e-5)
    assert figures.mean == pytest.approx(math.exp((forward + backward) / 2), rel=1e-5)
    assert figures.n_tokens == 11 + 4  # the words, and a mark a sentence
    assert figures.unknown == pytest.approx(4 / 11)  # sat, unreasonably, ., <UNK>
    assert set(figures.to_dict()) == {"forward", "backward", "mean", "n_tokens", "unknown"}


def test_short_text_is_one_stream(model):
    corpus = read_corpus(SENTENCES)
    assert perplexity(model, corpus, n_streams=5) == perplexity(model, corpus, n_streams=1)


def test_several_streams_start_from_zeros(model, monkeypatch):
    monkeypatch.setattr(module, "MIN_ITEMS", 7)
    # 15 items in two streams: the second starts with the sentence that holds the 8th item.
    parts = [brute_force(model, part) for part in (SENTENCES[:2], SENTENCES[2:])]
    figures = perplexity(model, read_corpus(SENTENCES), n_streams=2, unroll_steps=3)
    forward, backward = (np.mean(parts[0][i] + parts[1][i]) for i in range(2))
    assert figures.forward == pytest.approx(math.exp(forward), rel=1e-5)
    assert figures.backward == pytest.approx(math.exp(backward), rel=1e-5)


def test_training_mode_is_put_back(model):
    corpus = read_corpus(SENTENCES)
    for training in (True, False):
        model.train(training)
        perplexity(model, corpus)
        assert model.training == model.bilm.training == training


def test_hopeless_model_has_infinite_perplexity(model):
    model.softmax.bias.mul_(1e6)
    for each in (model, frozen(model)):
        figures = perplexity(each, read_corpus(SENTENCES))
        assert figures.mean == math.inf
        assert figures.to_dict()["mean"] is None  # JSON has no infinity
