"""Substitutes, against the reference's softmax: each direction reads no more than it may."""

import numpy as np
import pytest
import torch

from spacy_elmo.analysis.substitutes import find_substitutes
from spacy_elmo.bilm.softmax import AdaptiveSoftmax, freeze
from spacy_elmo.language_model.frozen import FrozenLanguageModel, read_language_model

from helpers import reference
from helpers.softmaxes import MODELS, WORDS, bytes_model, read_words, write_model

SENTENCE = ["The", "cat", "sat", "there", "."]
REAL = WORDS[3:]  # no mark, and not <UNK>


def expected_of(options, datasets, sentence, position):
    """Log-probabilities of the words, by both and in each direction."""
    before = ["<S>", *sentence[:position]]
    after = ["</S>", *sentence[position + 1 :][::-1]]
    each = [
        reference.log_probabilities(options, datasets, read, i, words=read_words(options))[0][-1]
        for i, read in enumerate((before, after)[: 1 if "bidirectional" in options else 2])
    ]
    each = [values[3:] for values in each]
    both = sum(each)
    return [both - np.log(np.exp(both).sum()), *each]


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("position", range(5))
def test_all_words(tmp_path, kind, position):
    options, datasets = MODELS[kind]()
    model = read_language_model(write_model(tmp_path, options, datasets))
    found, itself = find_substitutes(model, SENTENCE, position, n=100)
    both, *each = expected_of(options, datasets, SENTENCE, position)
    assert [one.word for one in found] == [REAL[i] for i in np.argsort(-both)]
    assert [one.rank for one in found] == [1, 2, 3, 4, 5]
    for one in found:
        values = [np.exp(x[REAL.index(one.word)]) for x in (both, *each)]
        got = [one.probability, one.forward, one.backward]
        if kind == "forward":
            assert got.pop() is None
        np.testing.assert_allclose(got, values, rtol=1e-4)
    assert sum(one.probability for one in found) == pytest.approx(1)
    word = SENTENCE[position]
    assert itself == next((one for one in found if one.word == word), None)
    assert (itself is None) == (word not in REAL)
    assert find_substitutes(model, SENTENCE, position, n=2)[0] == found[:2]


def test_adaptive_softmax(tmp_path):
    torch.manual_seed(0)
    options, datasets = bytes_model()
    full = read_language_model(write_model(tmp_path, options, datasets))
    softmax = AdaptiveSoftmax(n_words=len(WORDS), width=5).requires_grad_(False)
    model = FrozenLanguageModel(full.bilm, freeze(softmax), full.vocabulary)
    found, _ = find_substitutes(model, SENTENCE, 1, n=100)
    tail = [softmax.layers(torch.zeros(1, 5), torch.tensor([i])).output for i in range(8)]
    assert torch.stack(tail).exp().sum() == pytest.approx(1, abs=1e-5)
    contexts = [
        reference_context(full, read, direction)
        for direction, read in enumerate([["<S>", "The"], ["</S>", ".", "there", "sat"]])
    ]
    for one in found:
        target = torch.tensor([WORDS.index(one.word)])
        for value, context in zip((one.forward, one.backward), contexts):
            got = softmax.layers(context, target).output.exp().item()
            assert value == pytest.approx(got, rel=1e-4)


def reference_context(model, read, direction):
    """The top of a stack after what it has read."""
    bilm = model.bilm.thaw().requires_grad_(False)
    rows = torch.arange(len(read)).repeat(2, 1)
    outputs, _ = bilm(bilm.token_vectors(read), rows, [1] * len(read), bilm.zero_state(1))
    return outputs[direction][-1][-1:]


def test_one_word(tmp_path):
    options, datasets = bytes_model()
    model = read_language_model(write_model(tmp_path, options, datasets))
    found, itself = find_substitutes(model, ["cat"], 0)
    both = expected_of(options, datasets, ["cat"], 0)[0]
    assert itself.probability == pytest.approx(np.exp(both[1]), rel=1e-4)
    assert len(found) == 5
