"""The ranking of spans beside the paper's formulas in numpy."""

import numpy as np
import pytest
import torch

import spacy_elmo.tasks.coref.module as coref_module
import spacy_elmo.tasks.shared.recurrent as recurrent
from spacy_elmo.embedding.segmenters import Segment
from spacy_elmo.tasks.coref.module import SpanRanker
from spacy_elmo.tasks.coref.spans import find_candidate_spans

from helpers.formulas import linear, run

SEGMENTS = [Segment(0, 4, 0, 4), Segment(4, 9, 4, 9), Segment(9, 10, 9, 10)]
LENGTHS = [4, 5, 1]


def make(depth=2, **sizes):
    defaults = {"encoder_width": 6, "hidden_width": 5, "feature_width": 3, "max_span_width": 3}
    settings = {"spans_per_word": 0.7, "max_antecedents": 4, "dropout": 0.0, "input_dropout": 0.0}
    ranker = SpanRanker(4, hidden_depth=depth, **{**defaults, **settings, **sizes}).double()
    for values in ranker.parameters():  # no two mention scores alike
        torch.nn.init.normal_(values, std=0.5)
    return ranker


@pytest.fixture
def tokens():
    return torch.from_numpy(np.random.default_rng(0).normal(size=(10, 4)))


def network(x, layers):
    for layer in layers:
        if isinstance(layer, torch.nn.Linear):
            x = linear(layer, x)
        elif isinstance(layer, torch.nn.ReLU):
            x = np.maximum(x, 0.0)
    return x


def represent(ranker, tokens, encoded, start, end):
    """Lee et al. 2017, section 4: [x*_start ; x*_end ; sum of a_t x_t ; width]."""
    alpha = linear(ranker.attention, encoded[start:end])[:, 0]
    a = np.exp(alpha) / np.exp(alpha).sum()
    words = sum(a_t * x_t for a_t, x_t in zip(a, tokens[start:end]))
    width = ranker.widths.weight.detach().numpy()[end - start - 1]
    return np.concatenate([encoded[start], encoded[end - 1], words, width])


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("chunk", [2, 512])
def test_scores_equal_the_formulas(tokens, depth, chunk, monkeypatch):
    monkeypatch.setattr(coref_module, "SPAN_TOKENS", chunk)
    monkeypatch.setattr(recurrent, "MAX_RNN_TOKENS", chunk)
    ranker = make(depth)
    candidates = find_candidate_spans(SEGMENTS, 3)
    mention_scores, pair_scores, kept = ranker(tokens, LENGTHS, candidates)
    encoded = np.concatenate([run(ranker.encoder, part) for part in tokens.split(LENGTHS)])
    g = [represent(ranker, tokens.numpy(), encoded, *span) for span in candidates.mentions]
    expected = [network(span, ranker.mention)[0] for span in g]
    np.testing.assert_allclose(mention_scores.detach(), expected, atol=1e-12)
    assert len(kept) == 7 and pair_scores.shape == (7, 4)  # of 10 tokens
    first = [ranker.anaphor, ranker.antecedent, ranker.product, ranker.distance]
    W = np.concatenate([layer.weight.detach().numpy() for layer in first], axis=1)
    for i, number in enumerate(kept):
        for column in range(4):
            if i - column - 1 < 0:
                assert pair_scores[i, column] == -np.inf
                continue
            other = kept[i - column - 1]
            distance = ranker.distances.weight.detach().numpy()[column]
            pair = np.concatenate([g[number], g[other], g[number] * g[other], distance])
            hidden = W @ pair + ranker.anaphor.bias.detach().numpy()
            score = network(hidden, ranker.pair)[0] + expected[number] + expected[other]
            assert pair_scores[i, column].item() == pytest.approx(score, abs=1e-12)


def test_distances_have_the_bins_of_the_paper():
    """The bins are 1, 2, 3, 4, 5 to 7, 8 to 15, 16 to 31, 32 to 63, and more."""
    ranker = make(max_antecedents=80)
    for layer in (ranker.anaphor, ranker.antecedent, ranker.product):
        torch.nn.init.zeros_(layer.weight)
    scores = ranker.rank(torch.randn(81, 19, dtype=torch.double), torch.zeros(81).double())[80]
    lasts = [1, 2, 3, 4, 7, 15, 31, 63]
    expected = [sum(last < distance for last in lasts) for distance in range(1, 81)]
    seen = {}
    for number, score in zip(expected, scores.tolist()):
        assert seen.setdefault(number, score) == pytest.approx(score)
    assert len(set(seen.values())) == 9


@pytest.mark.training
def test_dropout_is_only_for_training(tokens):
    candidates = find_candidate_spans(SEGMENTS, 3)
    ranker = make(dropout=0.5, input_dropout=0.5)
    modes = (False, False, True, True)
    outputs = [ranker.train(mode)(tokens, LENGTHS, candidates)[0] for mode in modes]
    assert (outputs[0] == outputs[1]).all()
    assert (outputs[2] != outputs[3]).any()
