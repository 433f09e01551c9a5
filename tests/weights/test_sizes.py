"""Sizes in the JSON files of other programs."""

import json

import pytest

from spacy_elmo.frozen.config import BiLMConfig
from spacy_elmo.weights.sizes import from_options, to_options

from helpers.models import CHANGED, WORDS_ONLY, tiny_options


def test_options_are_read_field_by_field():
    options = {
        "lstm": {"dim": 7, "projection_dim": 6, "n_layers": 3, "cell_clip": 2.5, "x": 1},
        "char_cnn": {
            "embedding": {"dim": 9},
            "filters": [[2, 5], [4, 3]],
            "activation": "tanh",
            "max_characters_per_token": 11,
            "n_characters": 261,
        },
        "unknown": {"dim": 5},
    }
    assert from_options(options) == BiLMConfig(**CHANGED)


def test_options_that_may_be_absent():
    options = tiny_options()
    for key in ("n_layers", "cell_clip", "proj_clip", "use_skip_connections"):
        del options["lstm"][key]
    del options["char_cnn"]["n_highway"]
    config = from_options(options)
    assert (config.n_layers, config.cell_clip, config.proj_clip) == (1, None, None)
    assert (config.use_skip_connections, config.n_highway) == (False, 0)


@pytest.mark.parametrize("sizes", [CHANGED, {**CHANGED, "bidirectional": False}, WORDS_ONLY])
def test_there_and_back(sizes):
    config = BiLMConfig(**sizes)
    options = json.loads(json.dumps(to_options(config)))
    again = from_options(options, n_words=config.n_words, bidirectional=config.bidirectional)
    assert again == config
    assert options["lstm"]["dim"] == config.lstm_dim
    if config.n_characters:
        assert options["char_cnn"]["n_characters"] == 262
        assert options["char_cnn"]["embedding"]["dim"] == 9


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"n_words": 3, "word_embed_dim": 128}, "word vectors in addition to characters"),
        ({"token_encoder": "manylangs", "n_characters": 74}, "the token encoder 'manylangs'"),
    ],
)
def test_sizes_without_a_place(sizes, message):
    with pytest.raises(ValueError, match=f"cannot store {message}"):
        to_options(BiLMConfig(**sizes))


@pytest.mark.parametrize(
    "path", ["lstm.dim", "lstm.projection_dim", "char_cnn.filters", "char_cnn.embedding.dim"]
)
def test_missing_option_is_named(path):
    options = tiny_options()
    *parents, key = path.split(".")
    section = options
    for parent in parents:
        section = section[parent]
    del section[key]
    with pytest.raises(ValueError, match=path):
        from_options(options)


@pytest.mark.parametrize(
    ("options", "named"),
    [({}, "lstm"), ([], "lstm"), ({"lstm": {"dim": 3, "projection_dim": 3}}, "char_cnn")],
)
def test_options_of_something_else(options, named):
    with pytest.raises(ValueError, match=named):
        from_options(options)
