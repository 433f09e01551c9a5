"""Configs for `spacy train` are those of the trials, so the tables are true for users."""

from pathlib import Path

import pytest
from spacy.util import dict_to_dot, load_model_from_config
from thinc.api import Config

from scripts.experiments.trial_config import CONFIGS, Inputs, LanguageModel, build_config
from scripts.experiments.trials import GAINS, Trial

pytestmark = pytest.mark.pipelines

# Of each task's variants, the one that its config with ELMo is; `input` where none is named.
PLACES = {"bcn": "input_output", "textpair": "input_output", "qa": "input_output"}


def trial_of(name):
    """Return the trial of a config, of the corpus that the head was chosen on."""
    task, _, kind = name.partition("_")
    variant = {"": "tok2vec", "elmo": PLACES.get(task, "input")}.get(kind, kind)
    return Trial(task, GAINS[task][0][0], variant)


def model_of(config):
    """Return the language model of the config's own sizes; None if there is none."""
    if "elmo" not in config["components"]:
        return None
    elmo = config["components"]["elmo"]
    sizes = elmo["model"]
    n_layers, width = sizes["n_layers"] + 1, 2 * sizes["projection_dim"]
    unused = {"checksum": "", "perplexity": None}
    return LanguageModel(elmo["weights"], sizes=sizes, n_layers=n_layers, width=width, **unused)


def settings_of(config):
    """Return all settings, defaults included, that a training's result depends on, without data."""
    filled = load_model_from_config(config, auto_fill=True).config.interpolate()
    del filled["paths"], filled["corpora"]["train"]
    filled.pop("elmo", None)  # the width, which has its place by now
    filled["components"].get("elmo", {}).pop("set_vectors", None)  # which heads do not read
    filled["initialize"]["components"].pop("elmo", None)
    settings = dict_to_dot(filled).items()
    return {name: value for name, value in settings if not name.endswith(".upstream")}  # "elmo"


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.cfg")), ids=lambda path: path.stem)
def test_a_config_has_the_settings_of_its_trial(path):
    overrides = {"paths.dev": "dev.spacy", "paths.train": "train.spacy"}
    config = Config().from_disk(path, overrides=overrides)
    trial = trial_of(path.stem)
    inputs = Inputs(model_of(config))
    paths = [Path(config["paths"][part]) for part in ("train", "dev")]
    trained = build_config(trial, *paths, inputs, {})
    assert settings_of(config) == settings_of(trained)
