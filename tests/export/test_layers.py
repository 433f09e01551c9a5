"""The mix that a component has learned."""

import numpy as np
import pytest

from spacy_elmo.export import Embedder
from spacy_elmo.export.sharding import embed_corpus
from spacy_elmo.layers.scalar_mix import mixes_of

from helpers.components import concat_both, examples, listener, tagger
from helpers.written_vectors import TEXT, read


@pytest.fixture
def nlp(folder, make_nlp):
    """A pipeline with two components that have learned."""
    nlp = make_nlp(store_layers=True, segmenter={"@segmenters": "spacy-elmo.doc.v1"})
    nlp.add_pipe("tagger", config=tagger(listener(layer_norm=True)))
    nlp.add_pipe("tagger", name="two", config=tagger(concat_both()))
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    optimizer.learn_rate = 0.1
    for _ in range(5):
        nlp.update(batch, sgd=optimizer)
    nlp.to_disk("pipeline")
    (folder / "text.txt").write_text(TEXT + "\n", "utf8")
    return nlp


def mixed(layers, mix):
    """Equation 1 of Peters et al. (2018), in float64."""
    layers = layers.astype("float64")
    if mix.attrs["layer_norm"]:
        centred = layers - layers.mean(axis=2, keepdims=True)
        layers = centred / np.sqrt((centred**2).mean(axis=2, keepdims=True) + 1e-12)
    exponentials = np.exp(mix.get_param("weights").astype("float64"))
    weights = exponentials / exponentials.sum()
    return mix.get_param("gamma")[0] * np.einsum("l,lnw->nw", weights, layers)


@pytest.mark.parametrize(
    ("name", "component", "number"),
    [("tagger", "tagger", 0), ("two:0", "two", 0), ("two:1", "two", 1)],
)
def test_learned_mix(folder, nlp, name, component, number):
    embed_corpus("pipeline", "text.txt", folder / "out.npz", layers=f"mix:{name}")
    mix = mixes_of(nlp.get_pipe(component).model)[number]
    assert np.ptp(mix.get_param("weights")) > 1e-3  # it has learned something
    expected = mixed(nlp(TEXT)._.elmo, mix)
    np.testing.assert_allclose(read("npz", folder / "out.npz")[0], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["two", "two:2", "elmo"])
def test_no_such_mix(folder, nlp, name):
    message = f"'{name}'. Give one of mix:tagger:0, mix:tagger, mix:two:0, mix:two:1"
    with pytest.raises(ValueError, match=message):
        embed_corpus("pipeline", "text.txt", folder / "out.npz", layers=f"mix:{name}")


def test_one_layer(folder, nlp):
    for layer in (0, 2):
        embed_corpus("pipeline", "text.txt", folder / f"{layer}.npz", layers=str(layer))
        found = read("npz", folder / f"{layer}.npz")[0]
        np.testing.assert_allclose(found, nlp(TEXT)._.elmo[layer], rtol=0, atol=1e-5)
    with pytest.raises(ValueError, match="a number from 0 to 2 or mix:PIPE, got '3'"):
        embed_corpus("pipeline", "text.txt", folder / "3.npz", layers="3")


@pytest.mark.parametrize(
    ("mix", "weights"),
    [("top", [0, 0, 1]), ("average", [1 / 3] * 3), (1, [0, 1, 0]), ([0.5, 0, 2], [0.5, 0, 2])],
)
def test_the_pipe_s_own_mix(folder, make_nlp, mix, weights):
    """By default, and known by what it is: the same as where that is named."""
    make_nlp(mix=mix).to_disk("own")
    (folder / "text.txt").write_text(TEXT + "\n", "utf8")
    embed_corpus("own", "text.txt", folder / "own.npz")
    embed_corpus("own", "text.txt", folder / "all.npz", layers="all")
    found, layers = (read("npz", folder / f"{name}.npz")[0] for name in ("own", "all"))
    expected = np.einsum("l,lnw->nw", weights, layers.astype("float64"))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    if not isinstance(mix, list):
        settings = [Embedder("own", layers=name).describe() for name in ("vector", str(mix))]
        assert settings[0] == settings[1]
