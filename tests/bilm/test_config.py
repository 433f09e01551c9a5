import json

import pytest

from spacy_elmo.bilm.config import BiLMConfig

from models import tiny_options

CHANGED = {
    "lstm_dim": 7,
    "projection_dim": 6,
    "n_layers": 3,
    "cell_clip": 2.5,
    "proj_clip": None,
    "use_skip_connections": False,
    "char_embed_dim": 9,
    "filters": ((2, 5), (4, 3)),
    "n_highway": 0,
    "activation": "tanh",
    "max_characters_per_token": 11,
}


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
    assert BiLMConfig.from_options(options) == BiLMConfig(**CHANGED)


def test_options_that_may_be_absent():
    options = tiny_options()
    for key in ("n_layers", "cell_clip", "proj_clip", "use_skip_connections"):
        del options["lstm"][key]
    del options["char_cnn"]["n_highway"]
    config = BiLMConfig.from_options(options)
    assert (config.n_layers, config.cell_clip, config.proj_clip) == (1, None, None)
    assert (config.use_skip_connections, config.n_highway) == (False, 0)


def test_round_trips_through_json():
    config = BiLMConfig(**CHANGED)
    assert BiLMConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    options = json.loads(json.dumps(config.to_options()))
    assert BiLMConfig.from_options(options) == config
    assert options["char_cnn"]["n_characters"] == 262
    assert options["lstm"]["dim"] == 7
    assert options["char_cnn"]["embedding"]["dim"] == 9


def test_derived_sizes():
    config = BiLMConfig(**CHANGED)
    assert (config.width, config.n_filters, config.widest_filter) == (12, 8, 4)


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
        BiLMConfig.from_options(options)


@pytest.mark.parametrize(
    ("options", "named"),
    [({}, "lstm"), ([], "lstm"), ({"lstm": {"dim": 3, "projection_dim": 3}}, "char_cnn")],
)
def test_options_of_something_else(options, named):
    with pytest.raises(ValueError, match=named):
        BiLMConfig.from_options(options)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lstm_dim", 0),
        ("lstm_dim", 2.5),
        ("lstm_dim", True),
        ("projection_dim", 513),
        ("n_layers", 0),
        ("char_embed_dim", "16"),
        ("n_highway", -1),
        ("max_characters_per_token", 2),
        ("cell_clip", 0),
        ("cell_clip", float("nan")),
        ("proj_clip", -1.0),
        ("proj_clip", True),
        ("use_skip_connections", 1),
        ("activation", "gelu"),
        ("filters", []),
        ("filters", 3),
        ("filters", [[1, 2, 3]]),
        ("filters", [[0, 2]]),
        ("filters", [[2, 0]]),
        ("filters", [[51, 2]]),
    ],
)
def test_impossible_size_is_named(name, value):
    with pytest.raises(ValueError, match=name):
        BiLMConfig.from_dict({name: value})


def test_unknown_size_is_named():
    with pytest.raises(ValueError, match="lstm_size"):
        BiLMConfig.from_dict({"lstm_size": 3})
