"""What the tests share: tiny models on disk, and the corpora beside the checkout."""

from pathlib import Path

import pytest
import spacy

import reference

SHARED = Path(__file__).resolve().parents[1].parent / "shared"
TINY_OPTIONS = {
    "lstm": {
        "dim": 12,
        "projection_dim": 6,
        "n_layers": 2,
        "cell_clip": 3.0,
        "proj_clip": 3.0,
        "use_skip_connections": True,
    },
    "char_cnn": {
        "activation": "relu",
        "embedding": {"dim": 4},
        "filters": [[1, 4], [2, 6], [3, 8]],
        "max_characters_per_token": 20,
        "n_characters": 262,
        "n_highway": 1,
    },
}
TINY_WIDTH = 12


@pytest.fixture(scope="session")
def tiny_weights(tmp_path_factory):
    """The `.hdf5` file of a tiny language model with random weights."""
    folder = tmp_path_factory.mktemp("tiny")
    datasets = reference.random_datasets(TINY_OPTIONS, seed=1)
    return reference.write_hdf5(folder, TINY_OPTIONS, datasets)


@pytest.fixture(scope="session")
def shared():
    """The folder of fixtures and corpora."""
    if not SHARED.is_dir():
        pytest.skip("the fixtures and corpora are not beside this checkout")
    return SHARED


@pytest.fixture
def make_nlp(tiny_weights):
    """Makes a blank pipeline with an `elmo` pipe of the tiny model."""

    def make(**config):
        nlp = spacy.blank("en")
        nlp.add_pipe("elmo", config={"weights": str(tiny_weights), **config})
        return nlp

    return make
