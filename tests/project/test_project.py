"""project.yml: its commands fit together, and README.md says what it holds."""

import re
import shutil
from unittest.mock import Mock

import pytest
import srsly
from thinc.api import get_current_ops
from weasel.cli.document import project_document
from weasel.util import get_checksum

from helpers.project_scripts import PROJECT
from scripts.experiments import run_trial, trials

TEXTS = ("lm_train", "lm_dev")


@pytest.fixture(scope="module")
def project():
    return srsly.read_yaml(PROJECT / "project.yml")


def test_documentation(tmp_path):
    """`python -m spacy project document project --output project/README.md` changes nothing."""
    for name in ("README.md", "project.yml"):  # alone: assets in place are written as links
        shutil.copy(PROJECT / name, tmp_path)
    project_document(tmp_path, tmp_path / "README.md")
    assert (tmp_path / "README.md").read_text("utf8") == (PROJECT / "README.md").read_text("utf8")


def test_assets_have_checksums(project):
    assert all(len(asset["checksum"]) == 32 for asset in project["assets"])


@pytest.mark.parametrize(
    ("name", "path", "copy"),
    [
        ("litbank", "original", "lm/litbank-original"),
        ("litbank_coref", "coref/conll", "coref/litbank"),
        ("ontogum_coref", "coref/ontogum/conllu", "coref/ontogum"),
    ],
)
def test_folders_in_place_are_not_fetched(project, shared, name, path, copy):
    """A copy has the checksum by which `project assets` skips the download."""
    asset = next(asset for asset in project["assets"] if asset["dest"] == f"assets/{name}")
    assert asset["git"]["path"] == path
    assert get_checksum(shared / "data" / copy) == asset["checksum"]


def test_commands(project):
    """A workflow and a command of one name would be refused."""
    commands = {command["name"]: command for command in project["commands"]}
    assert len(commands) == len(project["commands"])
    assert not set(commands) & set(project["workflows"])
    for steps in project["workflows"].values():
        assert set(steps) <= set(commands)
    for command in project["commands"]:
        script = " ".join(command["script"])
        assert "python scripts/" not in script  # the folders import from each other
        for name in re.findall(r"python -m (scripts\.\S+)", script):
            path = PROJECT / (name.replace(".", "/") + ".py")
            assert path.is_file(), path
        for name in command.get("deps", ()):
            assert not name.startswith(("scripts/", "configs/")) or (PROJECT / name).is_file(), name


WORKFLOWS = """
ner textcat tagger srl crf bcn coref entailment qa
static pretrained domain language_models historical experiments pretrain all
"""


@pytest.mark.parametrize("workflow", WORKFLOWS.split())
def test_workflows_make_what_they_need(project, workflow):
    """From the assets alone, in their order, for all data of their trials."""
    commands = {command["name"]: command for command in project["commands"]}
    made = {asset["dest"] for asset in project["assets"]}
    files = {
        str(path.relative_to(PROJECT)) for path in PROJECT.glob("[cs]*/**/*") if path.is_file()
    }
    files.add("metrics/runs")
    for step in project["workflows"][workflow]:
        needed = set(commands[step].get("deps", ()))
        script = " ".join(commands[step]["script"])
        needed |= {project["vars"][name] for name in TEXTS if f"${{vars.{name}}}" in script}
        needed -= set(commands[step].get("outputs", ())) | {project["vars"]["lm_config"]}
        needed = {name for name in needed if not name.startswith("${vars.")}
        assert needed <= made | files, needed - made
        made |= set(commands[step].get("outputs", ()))
    called = {
        "experiments": {"ner", "textcat", "tagger"},
        "entailment": {"textpair"},
        "static": {"ner", "textcat", "tagger"},
        "pretrained": {"two_hours"},
    }
    tasks = called.get(workflow, {workflow})
    for trial in trials.full_plan():
        for split in ("train", "dev", "test"):
            needed = trial.experiment in tasks
            assert not needed or f"corpus/{trial.data}-{split}.spacy" in made


TRAIN = ("-m spacy train", "run_plan", "pretrain_tok2vec", "spacy elmo pretrain")


def test_every_training_takes_the_gpu(project):
    lines = [line for command in project["commands"] for line in command.get("script", ())]
    training = [line for line in lines if any(name in line for name in TRAIN)]
    assert len(training) > 30
    for line in training:
        option = "--gpus" if "elmo pretrain" in line else "--gpu-id"
        assert line.endswith(f"{option} ${{vars.gpu_id}}"), line
    assert project["vars"]["gpu_id"] == -1


def test_no_gpu_is_said(monkeypatch):
    monkeypatch.setattr(run_trial, "require_gpu", Mock(side_effect=ValueError("no GPU")))
    with pytest.raises(ValueError, match="no GPU"):
        run_trial.use_processor(0)
    with run_trial.use_processor(-1):
        assert get_current_ops().name == "numpy"
