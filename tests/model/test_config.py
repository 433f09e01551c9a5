"""Sizes of a model: saved and loaded without change, and impossible ones named."""

import json

import pytest

from spacy_elmo.model.config import BiLMConfig

from helpers.models import CHANGED, WORDS_ONLY

MANYLANGS = {"token_encoder": "manylangs", "n_characters": 74, "n_words": 15, "word_embed_dim": 10}
SIZES = [
    {**CHANGED, "bidirectional": False},
    WORDS_ONLY,
    MANYLANGS,
    {**MANYLANGS, "n_words": 0, "word_embed_dim": 0},
    {**MANYLANGS, **WORDS_ONLY, "word_embed_dim": 3},
    {"n_words": 3, "word_embed_dim": 128},
    *({"connections": kind} for kind in ("residual", "none", "highway")),
]


def test_sizes_of_every_kind_survive_json():
    configs = [BiLMConfig(**sizes) for sizes in SIZES]
    assert len(set(configs)) == len(SIZES)
    for config in configs:
        assert BiLMConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_a_model_of_bytes_saves_only_the_first_settings():
    """Checkpoints of earlier versions can be resumed, because nothing else is written."""
    for sizes in ({}, {"connections": "residual"}, {"connections": "none"}):
        assert BiLMConfig(**sizes).to_dict().keys() == CHANGED.keys()
    residual = BiLMConfig(connections="residual", use_skip_connections=False)
    assert residual == BiLMConfig(use_skip_connections=True) == BiLMConfig()
    assert BiLMConfig(connections="none") == BiLMConfig(use_skip_connections=False)


IMPOSSIBLE = {
    "lstm_dim": [0, 2.5, True, 2**20 + 1, "9" * 10**6],
    "lstm_size": [3],
    "projection_dim": [513],
    "n_layers": [0, 101, 10**30],
    "char_embed_dim": ["16", 0],
    "n_highway": [-1],
    "max_characters_per_token": [2],
    "cell_clip": [0, float("nan")],
    "proj_clip": [-1.0, True],
    "use_skip_connections": [1],
    "activation": ["gelu"],
    "connections": ["dense"],
    "filters": [[], 3, [[1, 2, 3]], [[0, 2]], [[2, 0]], [[51, 2]], [[1, 1]] * 101, ()],
    "bidirectional": [None],
    "token_encoder": ["bytes", ["manylangs"]],
    "n_characters": [261],
    "n_words": [-1, 2**40, 5],
    "word_embed_dim": [128],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name in IMPOSSIBLE for value in IMPOSSIBLE[name]]
)
def test_impossible_sizes_are_named(name, value):
    """A long value is not repeated in full."""
    with pytest.raises(ValueError, match=name) as error:
        BiLMConfig.from_dict({name: value})
    assert len(str(error.value)) < 300


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"char_embed_dim": 3}, "filters"),
        ({"n_highway": 1}, "n_highway"),
        ({"n_characters": 262}, "n_characters"),
        ({"n_words": 0, "word_embed_dim": 0}, "n_words"),
        ({"word_embed_dim": 127}, r"word_embed_dim \(127\)"),
        ({"word_embed_dim": 0, "token_encoder": "manylangs"}, "word_embed_dim"),
        ({"token_encoder": "manylangs", "n_words": 0}, "n_words"),
    ],
)
def test_sizes_of_words_that_contradict_each_other_are_refused(changes, named):
    with pytest.raises(ValueError, match=named):
        BiLMConfig(**{**WORDS_ONLY, **changes})
