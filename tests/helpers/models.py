"""Small models and corpora that the tests share."""

import copy
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spacy_elmo.bilm.model import BiLM
from spacy_elmo.frozen.model import FrozenBiLM
from spacy_elmo.model.memory import Weights
from spacy_elmo.pretraining.config import AdvancedSettings
from spacy_elmo.weights import read_weights, safetensors_file
from spacy_elmo.weights.allennlp import AllenNLP
from spacy_elmo.weights.bundle import ModelBundle

from helpers import reference
from helpers.rounding import ROUNDING

ALLENNLP = Path(__file__).resolve().parents[2] / ".." / "shared" / "fixtures" / "allennlp"

CLIPS = {"cell_clip": 3.0, "proj_clip": 3.0}
SIZES = {"dim": 12, "projection_dim": 5, "n_layers": 2, "use_skip_connections": True}
CHARACTERS = {"embedding": {"dim": 4}, "n_characters": 262, "max_characters_per_token": 16}
CNN = {"activation": "relu", "filters": [[1, 4], [2, 6], [3, 8]], "n_highway": 1}
OPTIONS: dict[str, Any] = {"lstm": {**SIZES, **CLIPS}, "char_cnn": {**CNN, **CHARACTERS}}
# Sizes of a BiLMConfig, all other than the defaults.
CHANGED: dict[str, Any] = (
    {"lstm_dim": 7, "projection_dim": 6, "n_layers": 3, "use_skip_connections": False}
    | {"cell_clip": 2.5, "proj_clip": None, "activation": "tanh", "n_highway": 0}
    | {"char_embed_dim": 9, "filters": ((2, 5), (4, 3)), "max_characters_per_token": 11}
)
# Sizes of a model that reads words only.
WORDS_ONLY: dict[str, Any] = {"n_words": 9, "word_embed_dim": 128}
WORDS_ONLY |= {"char_embed_dim": 0, "filters": (), "n_highway": 0, "n_characters": 0}

# Changes of the options, by what they change.
MODELS: dict[str, dict[str, Any]] = {
    "usual": {},
    "tanh": {"activation": "tanh"},
    "one layer": {"n_layers": 1},
    "three layers": {"n_layers": 3},
    "no highway": {"n_highway": 0},
    "two highways": {"n_highway": 2},
    "F == P": {"filters": [[1, 2], [3, 3]]},
    "P == D": {"dim": 6, "projection_dim": 6},
    "no skip connection": {"use_skip_connections": False},
    "no clips": {"cell_clip": None, "proj_clip": None},
    "narrow clips": {"cell_clip": 0.7, "proj_clip": 0.5},
    "50 characters": {"max_characters_per_token": 50, "filters": [[1, 4], [7, 9]]},
    "5 characters": {"max_characters_per_token": 5, "filters": [[5, 7]]},
}

# How bilm-tf names a single direction.
ONE_DIRECTION = [("RNN_0/RNN/", "rnn/"), ("/W_0", "/kernel"), ("/B", "/bias")]
ONE_DIRECTION += [("/W_P_0", "/projection/kernel")]

# Every kind of token and of sentence.
SENTENCES = [
    *(["The", "cat", "sat", "on", "the", "mat", "."], [], ["one"]),
    ["naïve", "日本語", "😀", "👩‍👩‍👧", "ж" * 13],
    ["", "<S>", "w", "</S>", "<UNK>", "unreasonably" * 6, "lone\ud800surrogate"],
]


def tiny_options(**changes: Any) -> dict[str, Any]:
    """The content of an options.json, with keys of either section replaced."""
    options = copy.deepcopy(OPTIONS)
    for key, value in changes.items():
        section = "lstm" if key in options["lstm"] else "char_cnn"
        assert key in options[section]
        options[section][key] = value
    return options


TINY_OPTIONS = tiny_options(projection_dim=6, max_characters_per_token=20)


def renamed(data: dict[str, np.ndarray], names: list[tuple[str, str]]) -> dict[str, np.ndarray]:
    """The same arrays, parts of their names replaced."""
    for theirs, ours in names:
        data = {name.replace(theirs, ours): values for name, values in data.items()}
    return data


def write_allennlp(bilm: FrozenBiLM, folder: Path) -> Path:
    """Write a model in AllenNLP's format, and return the file of weights."""
    folder.mkdir(parents=True, exist_ok=True)
    AllenNLP.write(ModelBundle(bilm), folder / "weights.hdf5")
    return folder / "weights.hdf5"


def write_tiny(folder: Path, seed: int = 0, **changes: Any) -> Path:
    """Write `tiny_bilm()`, and return the file of weights."""
    return reference.write_random(folder, tiny_options(**changes), seed)


def write_word_ids(folder: Path) -> Path:
    """Write a model of bilm-tf that reads only words, and return the file of weights."""
    words = ["<S>", "</S>", "<UNK>", "the", "cat", ".", "日本語", "x" * 60]
    return reference.write_random(folder, {"lstm": OPTIONS["lstm"]}, words=words)


def tiny_bilm(seed: int = 0, **changes: Any) -> FrozenBiLM:
    """A model with random weights. It is written and read once; each call returns a copy."""
    key = (seed, repr(changes))
    if key not in _pickled:
        with tempfile.TemporaryDirectory() as folder:
            _pickled[key] = pickle.dumps(read_weights(write_tiny(Path(folder), seed, **changes)))
    return pickle.loads(_pickled[key])


_pickled: dict[tuple[int, str], bytes] = {}


def write_safetensors(path: Path, provenance: dict[str, Any] | None = None) -> Path:
    """Write `tiny_bilm()` as safetensors, and return the file."""
    safetensors_file.write(tiny_bilm().replace(provenance=provenance or {}), path)
    return path


def tiny_module(seed: int = 0, **changes: Any) -> BiLM:
    """The same as a PyTorch module whose weights want no gradient."""
    return BiLM.from_frozen(tiny_bilm(seed, **changes)).requires_grad_(False)


def weights_of(bilm: Any) -> dict[str, np.ndarray]:
    """Copies of the weights of a model of either kind."""
    frozen = bilm if isinstance(bilm, FrozenBiLM) else bilm.freeze()
    return {name: np.array(values) for name, values in frozen.arrays().items()}


def scaled(
    bilm: FrozenBiLM, name: str = "stacks.0.0.input_weight", factor: float = 2.0
) -> FrozenBiLM:
    """Another model, one of whose weights is multiplied."""
    arrays = bilm.arrays()
    weights = Weights({**arrays, name: arrays[name] * np.float32(factor)})
    return FrozenBiLM(bilm.config, bilm.vocabularies, weights, provenance=bilm.provenance)


def check_state(state: Any, expected: reference.State, atol: float = ROUNDING) -> None:
    """Compare a state with the reference's, brought into the package's shape (2, L, n, width)."""
    for k, got in enumerate((state.cell, state.hidden)):
        wanted = [[[layer[k] for layer in direction] for direction in row] for row in expected]
        wanted = np.transpose(wanted, (1, 2, 0, 3))
        np.testing.assert_allclose(np.asarray(got), wanted, rtol=0, atol=atol)


def check_layers(got: list[Any], expected: list[np.ndarray], atol: float = ROUNDING) -> None:
    assert len(got) == len(expected)
    for ours, theirs in zip(got, expected):
        assert tuple(ours.shape) == theirs.shape
        np.testing.assert_allclose(np.asarray(ours), theirs, rtol=0, atol=atol)


def check_refused(read: Callable[[], Any], *parts: Any) -> str:
    """Reading fails with a ValueError whose message has every part; the message.

    A path in the message counts as itself only: its folders may contain any text.
    """
    with pytest.raises(ValueError) as error:  # noqa: PT011
        read()
    message = str(error.value)
    rest = message
    for path in filter(lambda part: isinstance(part, Path), parts):
        assert str(path) in message
        rest = rest.replace(str(path), "")
    for part in parts:
        assert isinstance(part, Path) or str(part) in rest
    return message


def pretraining_config(train: str = "train.txt", dev: str = "dev.txt", **training: Any) -> Any:
    """Settings of a pretraining run that takes seconds, as a config's dict.

    training: Settings of `[training]` and of `[training.advanced]`.
    """
    settings = {"batch_size": 4, "unroll_steps": 8, "n_negatives": 16, "dropout": 0.0}
    settings |= {"precision": "float32", "learn_rate": 0.01, "warmup_steps": 5}
    settings |= {"max_epochs": 0, "max_steps": 3, **training}
    names = settings.keys() & AdvancedSettings.model_fields.keys()
    advanced = {name: settings.pop(name) for name in sorted(names)}
    sizes = {"lstm_dim": 16, "projection_dim": 8, "char_embed_dim": 4}
    return {
        "nlp": {"lang": "en"},
        "model": {**sizes, "filters": [[1, 4], [2, 8], [3, 8]], "max_characters_per_token": 12},
        "corpus": {"train": train, "dev": dev},
        "vocabulary": {"min_count": 1},
        "training": {**settings, "advanced": advanced},
    }
