"""Concatenation of embedding layers: outputs, gradients, widths and saved weights."""

import numpy as np
import pytest
import spacy
from thinc.api import Model

from spacy_elmo.layers.concat import ConcatTok2Vec, MixedConcat

pytestmark = pytest.mark.training


def fixed(vectors, known=True):
    """Make a layer that returns these vectors, and keeps its examples and its gradient."""
    width = vectors.shape[1]

    def init(model, X=None, Y=None):
        model.attrs["examples"] = X

    def forward(model, docs, is_train):
        def backprop(d_outputs):
            model.attrs["gradient"] = d_outputs
            return []

        return [vectors[: len(doc)] for doc in docs], backprop

    return Model("fixed", forward, init=init, dims={"nO": width if known else None})


@pytest.fixture
def docs():
    nlp = spacy.blank("en")
    return [nlp("one two three"), nlp(""), nlp("one")]


@pytest.mark.parametrize("known", [True, False])
def test_concat_joins_outputs_and_splits_gradients(docs, known):
    rng = np.random.default_rng(0)
    one, two = rng.normal(size=(3, 2)).astype("f"), rng.normal(size=(3, 4)).astype("f")
    layers = fixed(one, known), fixed(two)
    concat = ConcatTok2Vec(*layers)
    concat.initialize(X=docs)
    assert concat.get_dim("nO") == 6
    assert [layer.attrs["examples"] for layer in layers] == [docs, docs]
    outputs, backprop = concat(docs, is_train=True)
    np.testing.assert_array_equal(outputs[0], np.hstack([one, two]))
    assert [len(output) for output in outputs] == [3, 0, 1]
    gradient = [rng.normal(size=output.shape).astype("f") for output in outputs]
    backprop(gradient)
    for ours, *both in zip(gradient, *(layer.attrs["gradient"] for layer in layers)):
        np.testing.assert_array_equal(np.hstack(both), ours)


def test_mixed_concat_has_the_width_asked_for(docs):
    vectors = np.ones((3, 4), dtype="f")
    mixed = MixedConcat(fixed(vectors, False), fixed(vectors), width=5, maxout_pieces=2)
    assert mixed.get_dim("nO") == 5
    mixed.initialize(X=docs)
    outputs = mixed.predict(docs)
    assert [output.shape for output in outputs] == [(3, 5), (0, 5), (1, 5)]
    np.testing.assert_allclose(outputs[0].mean(axis=1), 0, atol=1e-5)  # by the layer norm
    np.testing.assert_allclose(outputs[0].var(axis=1), 1, atol=1e-3)
