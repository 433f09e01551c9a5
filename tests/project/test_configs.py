"""Configs of pretraining show every setting, and no config occurs twice."""

from itertools import combinations
from pathlib import Path

import pytest
import spacy
import srsly
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import load_model_from_config
from thinc.api import Config

from spacy_elmo.pretraining import config as settings
from spacy_elmo.pretraining.budget import choose, parse_budget

from helpers.models import write_tiny
from helpers.project_scripts import PROJECT
from scripts.pipelines import train_pipeline

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


PIPELINES = PROJECT / "configs" / "pipelines"


@pytest.mark.parametrize(("name", "component"), [("syntax", "tok2vec"), ("ner", "ner")])
def test_a_part_of_a_pipeline_differs_only_in_elmo(name, component):
    one, other = (
        Config().from_disk(PIPELINES / f"{name}{end}.cfg", interpolate=False)
        for end in ("_elmo", "")
    )
    model = one["components"][component]["model"]
    tok2vec = model.get("tok2vec", model)
    tok2vec["embed"] = tok2vec["embed"]["embed"]
    one["nlp"]["pipeline"].remove("elmo")
    for section in (one["components"], one["initialize"]["components"], one["paths"]):
        del section["elmo"]
    del one["paths"]["features"]
    assert one == other


@pytest.mark.parametrize("name", ["syntax", "ner"])
def test_a_part_of_a_pipeline_reads_any_language_model(name, tmp_path):
    """Only the path is set: width and number of layers are those of the model."""
    weights = write_tiny(tmp_path, n_layers=1)
    overrides = {"paths.elmo": str(weights), "paths.features": str(tmp_path / "layers.sqlite")}
    overrides |= {"paths.train": "train.spacy", "paths.dev": "dev.spacy"}
    nlp = load_model_from_config(
        Config().from_disk(PIPELINES / f"{name}_elmo.cfg", overrides=overrides), auto_fill=True
    )
    annotation = {"tags": ["NN", "VB"], "pos": ["NOUN", "VERB"], "morphs": ["", ""]}
    annotation |= {"lemmas": ["dog", "bark"], "heads": [1, 1], "deps": ["nsubj", "ROOT"]}
    doc = Doc(nlp.vocab, words=["Dogs", "bark"], ents=["B-ORG", "O"], **annotation)
    nlp.initialize(lambda: [Example(nlp.make_doc(doc.text), doc)] * 3)
    nlp.to_disk(tmp_path / "saved")
    for found in (nlp, spacy.load(tmp_path / "saved")):
        assert found.get_pipe("elmo").width == 10
        assert len(found("Dogs bark")) == 2


@pytest.mark.parametrize("name", train_pipeline.PIPELINES)
def test_a_pipeline_has_the_components_of_its_parts(name):
    """Only `sentencizer` needs no training. A pipeline and its parts have the same segmenter."""
    pipeline = train_pipeline.PIPELINES[name]
    parts = [Config().from_disk(PROJECT / pipeline.config(part)) for part in pipeline.score]
    trained = [name for part in parts for name in part["nlp"]["pipeline"]]
    config = Config().from_disk(PIPELINES / f"{name}.cfg")
    found = [name for name in config["nlp"]["pipeline"] if name != "sentencizer"]
    assert found == list(dict.fromkeys(trained))
    segmenters = [
        one["components"].get("elmo", {}).get("segmenter", {}) for one in (*parts, config)
    ]
    assert all(one == segmenters[0] for one in segmenters)
    assert bool(segmenters[0]) == bool(pipeline.elmo)


def test_no_config_occurs_twice():
    """Names, folders and the order of settings do not matter."""
    paths = [path for folder in FOLDERS for path in sorted(folder.rglob("*.cfg"))]
    assert {path.parent.name for path in paths} == {"pretraining", "training", "pipelines"}
    settings = [Config().from_disk(path, interpolate=False) for path in paths]
    for (one, first), (other, second) in combinations(zip(paths, settings), 2):
        assert first != second, (one, other)
