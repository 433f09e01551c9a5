"""Every experiment of the project runs in minutes on the real corpora."""

import shutil
import subprocess
import sys

import numpy as np
import pytest
import spacy
import srsly

from spacy_elmo.weights import BUNDLED, is_available, locate

from helpers.project_scripts import PROJECT, command, environment
from scripts.experiments import trials
from scripts.experiments.runs import read_runs
from scripts.experiments.transformer import find_weights

pytestmark = pytest.mark.processes

# The folders of the corpora, by those of the project's assets.
ASSETS = """
wnut17 ner/wnut17
uner_ewt ner/uner_ewt
europeana_de ner/europeana_de
europeana_fr ner/europeana_fr
sst5 textcat/sst5
trec textcat/trec
ud_ewt ud/en_ewt
ewt_srl srl
snli nli/snli
counterfactual nli/counterfactual
new_wiki qa/new_wiki
qamr qa/qamr
litbank_coref coref/litbank
ontogum_coref coref/ontogum
"""
STEPS = """corpus-ner corpus-textcat corpus-tagger corpus-srl corpus-entailment corpus-qa
corpus-coref corpus-europeana corpus-europeana-fr"""

LANGUAGES = {"historical": "de", "french": "fr"}  # Other experiments: "en".
WORDS = {"en": ("the", "of", "and"), "de": ("die", "von", "und"), "fr": ("le", "de", "et")}


@pytest.fixture(scope="session")
def real_corpus(shared, tmp_path_factory):
    """The folder `corpus` of a copy of the project, made by its own commands."""
    folder = tmp_path_factory.mktemp("project")
    project = srsly.read_yaml(PROJECT / "project.yml")
    shutil.copytree(PROJECT / "configs" / "splits", folder / "configs" / "splits")
    for name, place in map(str.split, ASSETS.strip().splitlines()):
        if name.endswith("_coref"):  # a whole folder
            shutil.copytree(shared / "data" / place, folder / "assets" / name)
        for asset in project["assets"]:
            if asset.get("dest", "").startswith(f"assets/{name}/"):
                source = shared / "data" / place / asset.get("url", asset["dest"]).rsplit("/", 1)[1]
                target = folder / asset["dest"]
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(source.read_bytes())
    for step in project["commands"]:
        if step["name"] in STEPS.split():
            for line in step["script"]:
                words = [sys.executable, *line.split()[1:]]
                subprocess.run(words, cwd=folder, env=environment(), check=True)
            assert all((folder / path).is_file() for path in step["outputs"])
    return folder / "corpus"


@pytest.fixture(scope="session")
def language_model(tiny_weights):
    """Return the model of the package if it has one, or a tiny one with random weights."""
    return BUNDLED if is_available(BUNDLED) else tiny_weights


@pytest.fixture(scope="session")
def own_inputs(language_model, tmp_path_factory):
    """Makes options for what trials of a language begin with: models, vectors and a tok2vec."""
    folder = tmp_path_factory.mktemp("inputs")
    for name in trials.LANGUAGE_MODELS:
        place = folder / "models" / name / "model-best"
        place.mkdir(parents=True)
        shutil.copy(locate(language_model), place / "model.safetensors")
    for lang, words in WORDS.items():
        nlp = spacy.blank(lang)
        for i, word in enumerate(words):
            nlp.vocab.set_vector(word, np.eye(4, dtype="f")[i])
        nlp.to_disk(folder / f"vectors_{lang}")
    (folder / "text.txt").write_text("The bank lent money .\n" * 20)
    files = (folder / "text.txt", folder / "tok2vec")
    line = command("experiments.pretrain_tok2vec", *files, "--minutes", 0.02)
    subprocess.run(line, env=environment(), check=True)
    own = ("--models", folder / "models", "--tok2vec", folder / "tok2vec" / "model0.bin")
    return lambda lang: (*own, "--vectors", folder / f"vectors_{lang}")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("experiment", trials.EXPERIMENTS)
def test_an_experiment_gives_every_run_of_its_plan(
    experiment, real_corpus, language_model, own_inputs, tmp_path
):
    options = ("--plan", "quick", "--experiment", experiment, "--jobs", 2)
    where = ("--corpus", real_corpus, "--runs", tmp_path / "runs", "--logs", tmp_path / "logs")
    own = own_inputs(LANGUAGES.get(experiment, "en"))
    line = command("experiments.run_plan", *options, "--model", language_model, *where, *own)
    subprocess.run(line, env=environment(), check=True)
    plan = [trial for trial in trials.quick_plan() if trial.experiment == experiment]
    if not find_weights("transformer").is_file():  # Its package is not installed.
        plan = [trial for trial in plan if trial.variant != trials.TRANSFORMER]
    runs = {run.name: run for run in read_runs(tmp_path / "runs")}
    assert set(runs) == {trial.name for trial in plan}
    for trial in plan:
        result = runs[trial.name]
        for scores in (result.scores, result.dev_scores):
            for name in trials.SCORES[trial.task]:
                assert 0.0 <= scores[name] <= 1.0, trial.name
        if trial.task == "tagger" and trial.share == 0.1:
            assert result.scores["pos_acc"] > 0.3  # punctuation alone is a tenth
        if trial.task == "textcat":
            assert result.scores["accuracy"] > 0.15
