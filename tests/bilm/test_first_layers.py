from dataclasses import replace

import pytest
import spacy

import spacy_elmo
from spacy_elmo.bilm.model import BiLM
from spacy_elmo.weights import read_weights

from helpers.models import SENTENCES, tiny_bilm


def test_the_lower_layers_are_the_same():
    for connections in ("residual", "highway"):
        config = replace(tiny_bilm(n_layers=3).config, connections=connections)
        whole = BiLM(config).requires_grad_(False)
        for n_layers in (1, 2, 3):
            lower = whole.first_layers(n_layers)
            assert lower.config.n_layers == n_layers
            expected = whole.embed(SENTENCES, "warm")[0]
            for got, all_layers in zip(lower.embed(SENTENCES, "warm")[0], expected):
                assert (got == all_layers[: n_layers + 1]).all()
    for n_layers in (0, 4):
        with pytest.raises(ValueError, match=f"from 1 to 3, got {n_layers}"):
            whole.first_layers(n_layers)


def test_pipe_of_fewer_layers(tiny_weights, tmp_path):
    """It holds, saves and runs what it has alone."""
    config = spacy_elmo.pretrained(tiny_weights)
    config["model"]["n_layers"] = 1
    nlp = spacy.blank("en")
    pipe = nlp.add_pipe("elmo", config={**config, "mix": "top"})
    text = "The cat sat."
    words = [token.text for token in nlp(text)]
    expected = read_weights(tiny_weights).embed([words], "warm")[0][0][1]
    assert nlp(text).tensor == pytest.approx(expected.numpy(), abs=1e-6)
    assert pipe.bilm.config.n_layers == 1
    nlp.to_disk(tmp_path / "nlp")
    assert (spacy.load(tmp_path / "nlp")(text).tensor == nlp(text).tensor).all()
    config["model"]["n_layers"] = 3
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config=config)
    with pytest.raises(ValueError, match="n_layers is 2 there and 3 in the config"):
        nlp(text)
