"""Configs of pretraining show every setting, and no config occurs twice."""

from itertools import combinations
from pathlib import Path

import pytest
import srsly
from thinc.api import Config

from spacy_elmo.pretraining import config as settings
from spacy_elmo.pretraining.budget import choose, parse_budget

from helpers.project_scripts import PROJECT

ROOT = Path(__file__).parents[2]
FOLDERS = (ROOT / "configs", ROOT / "project" / "configs")
PRETRAINING = {path.stem: path for one in FOLDERS for path in one.glob("pretraining/*.cfg")}


@pytest.mark.training
@pytest.mark.parametrize("path", PRETRAINING.values(), ids=PRETRAINING)
def test_a_config_shows_every_setting(path):
    found = Config().from_disk(path)
    assert tuple(found) == settings.SECTIONS
    config = settings.read_config(path, {"paths.train": "train.txt", "paths.dev": "dev.txt"})
    for section in ("pretraining", "corpus", "vocabulary", "training"):
        assert set(found[section]) == set(getattr(config, section).model_dump()), section
    assert set(found["training"]["advanced"]) == set(config.training.advanced.model_dump())
    names = [set(found[section]) for section in ("system", "nlp", "model")]
    assert names == [{"seed"}, {"lang"}, {"@architectures", *config.bilm.to_dict()}]
    assert (config.corpus.train, config.corpus.dev) == ("train.txt", "dev.txt")
    assert found["paths"] == {"train": None, "dev": None}


def test_the_demo_knows_the_width_of_its_model():
    texts = {"paths.train": "train.txt", "paths.dev": "dev.txt"}
    width = srsly.read_yaml(PROJECT / "project.yml")["vars"]["demo_width"]
    assert settings.read_config(PRETRAINING["demo"], texts).bilm.width == width


BUDGETS = {"litbank": "2 cores, 60 minutes", "paper": "the paper"}


@pytest.mark.parametrize("name", BUDGETS)
def test_configs_are_what_init_pretraining_writes(name):
    found = Config().from_disk(PRETRAINING[name])
    for section, values in choose(parse_budget(BUDGETS[name]), 13_000_000).sections().items():
        assert found[section] == values, section


def test_no_config_occurs_twice():
    """Names, folders and the order of settings do not matter."""
    paths = [path for folder in FOLDERS for path in sorted(folder.rglob("*.cfg"))]
    assert {path.parent.name for path in paths} == {"pretraining", "training"}
    settings = [Config().from_disk(path, interpolate=False) for path in paths]
    for (one, first), (other, second) in combinations(zip(paths, settings), 2):
        assert first != second, (one, other)
