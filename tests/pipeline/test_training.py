"""`spacy train`: pipelines learn, their scores are the same in a new process, and the configs
work."""

from dataclasses import fields
from pathlib import Path

import pytest
import spacy
import srsly
from spacy.cli.debug_config import debug_config
from spacy.cli.init_config import fill_config
from spacy.cli.train import train
from spacy.tokens import DocBin
from thinc.api import Config

from spacy_elmo.model.config import BiLMConfig

from helpers.commands import run_python
from helpers.components import concat_input, examples, listener, ner, textcat

pytestmark = pytest.mark.pipelines

ROOT = Path(__file__).parents[2]
CONFIGS = [*ROOT.glob("project/configs/training/*.cfg"), *ROOT.glob("configs/training/*.cfg")]


def train_for(steps, folder, config, output, overrides):
    """Run `spacy train` on the corpus of a folder, with two evaluations."""
    overrides |= dict.fromkeys(["paths.train", "paths.dev"], str(folder / "corpus.spacy"))
    overrides |= {"training.max_steps": steps, "training.eval_frequency": steps // 2}
    train(config, output, overrides=overrides)


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tiny_weights):
    """Train a pipeline with NER and textcat that listen with `spacy train`."""
    folder = tmp_path_factory.mktemp("trained")
    corpus = DocBin(docs=[eg.reference for eg in examples(spacy.blank("en"))])
    corpus.to_disk(folder / "corpus.spacy")
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"weights": str(tiny_weights)})
    nlp.add_pipe("ner", config=ner(concat_input()))
    nlp.add_pipe("textcat", config=textcat(listener()))
    nlp.config.to_disk(folder / "config.cfg")
    more = {"training.optimizer.learn_rate": 0.01}
    train_for(80, folder, folder / "config.cfg", folder / "training", more)
    return folder


@pytest.mark.processes
@pytest.mark.training
def test_a_trained_pipeline_has_the_same_score_in_a_new_process(trained):
    model = trained / "training" / "model-best"
    best = srsly.read_json(model / "meta.json")["performance"]
    assert best["ents_f"] == 1.0 and best["cats_score"] > 0.6
    where = (model, trained / "corpus.spacy", "--output", trained / "scores.json")
    run_python("-m", "spacy", "evaluate", *where)
    scores = srsly.read_json(trained / "scores.json")
    for name in ("ents_f", "cats_score"):
        assert scores[name] == pytest.approx(best[name], abs=1e-6)


@pytest.mark.parametrize("path", sorted(CONFIGS), ids=lambda path: path.stem)
def test_configs_are_filled_and_valid(path, tmp_path):
    debug_config(path, overrides={f"paths.{part}": "here" for part in ("train", "dev", "elmo")})
    _, filled = fill_config(tmp_path / "filled.cfg", path)
    sizes = filled["components"].get("elmo", {}).get("model", {})
    for name in {field.name for field in fields(BiLMConfig)} - set(BiLMConfig().to_dict()):
        sizes.pop(name, None)  # what only models that read no bytes change
    config = Config().from_disk(path, interpolate=False)
    weights = config["training"]["score_weights"]
    for name, weight in filled["training"]["score_weights"].items():
        assert weights.setdefault(name, None) == weight  # spaCy 3.8 adds tag_micro_f, of no weight
    assert filled == config


@pytest.mark.training
@pytest.mark.parametrize("name", ["ner_elmo_alone", "ner_input_output"])
def test_configs_train_with_a_model_of_any_width(name, trained, tiny_weights, tmp_path):
    """The width is 12, and 256 by default."""
    config = ROOT / "configs" / "training" / f"{name}.cfg"
    train_for(2, trained, config, tmp_path, {"paths.elmo": str(tiny_weights)})
    node = spacy.load(tmp_path / "model-last").get_pipe("elmo").listeners[0]
    assert node.get_dim("nO") == 12
