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


YML = srsly.read_yaml(PROJECT / "project.yml")
COMMANDS = {command["name"]: command for command in YML["commands"]}


def test_documentation(tmp_path):
    """`python -m spacy project document project --output project/README.md` changes nothing."""
    for name in ("README.md", "project.yml"):  # alone: assets in place are written as links
        shutil.copy(PROJECT / name, tmp_path)
    project_document(tmp_path, tmp_path / "README.md")
    assert (tmp_path / "README.md").read_text("utf8") == (PROJECT / "README.md").read_text("utf8")


@pytest.mark.parametrize(
    ("name", "path", "copy"),
    [
        ("litbank", "original", "lm/litbank-original"),
        ("litbank_coref", "coref/conll", "coref/litbank"),
        ("ontogum_coref", "coref/ontogum/conllu", "coref/ontogum"),
    ],
)
def test_folders_in_place_are_not_fetched(shared, name, path, copy):
    """A copy has the checksum by which `project assets` skips the download."""
    asset = next(asset for asset in YML["assets"] if asset["dest"] == f"assets/{name}")
    assert asset["git"]["path"] == path
    assert get_checksum(shared / "data" / copy) == asset["checksum"]


def test_commands():
    """A workflow and a command of one name would be refused."""
    assert all(len(asset["checksum"]) == 32 for asset in YML["assets"])
    assert len(COMMANDS) == len(YML["commands"])
    assert not set(COMMANDS) & set(YML["workflows"])
    assert {step for steps in YML["workflows"].values() for step in steps} <= set(COMMANDS)
    for command in COMMANDS.values():
        script = " ".join(command["script"])
        assert "python scripts/" not in script  # the folders import from each other
        for name in re.findall(r"python -m (scripts\.\S+)", script):
            assert (PROJECT / (name.replace(".", "/") + ".py")).is_file(), name
        for name in command.get("deps", ()):
            assert not name.startswith(("scripts/", "configs/")) or (PROJECT / name).is_file(), name


NEURAL = {"ner", "textcat", "tagger"}
TASKS = {"experiments": NEURAL, "static": NEURAL}
TASKS |= {"entailment": {"textpair"}, "pretrained": {"two_hours"}}


@pytest.mark.parametrize("workflow", YML["workflows"])
def test_workflows_make_what_they_need(workflow):
    """From the assets alone, in their order, for all data of their trials."""
    made = {asset["dest"] for asset in YML["assets"]} | {"metrics/runs"}
    made |= {str(path.relative_to(PROJECT)) for path in PROJECT.glob("[cs]*/**/*")}
    for step in YML["workflows"][workflow]:
        outputs = set(COMMANDS[step].get("outputs", ()))
        script = " ".join(COMMANDS[step]["script"])
        needed = {YML["vars"][name] for name in TEXTS if f"${{vars.{name}}}" in script}
        needed |= {name for name in COMMANDS[step].get("deps", ()) if "${vars." not in name}
        needed -= outputs | {YML["vars"]["lm_config"]}
        assert needed <= made, needed - made
        made |= outputs
    for trial in trials.full_plan():
        if trial.experiment in TASKS.get(workflow, {workflow}):
            parts = {f"corpus/{trial.data}-{split}.spacy" for split in ("train", "dev", "test")}
            assert parts <= made


TRAIN = ("-m spacy train", "run_plan", "pretrain_tok2vec", "spacy elmo pretrain", "train_pipeline")


def test_every_training_takes_the_gpu():
    lines = [line for command in COMMANDS.values() for line in command["script"]]
    training = [line for line in lines if any(name in line for name in TRAIN)]
    assert len(training) > 30
    for line in training:
        option = "--gpus" if "elmo pretrain" in line else "--gpu-id"
        assert line.endswith(f"{option} ${{vars.gpu_id}}"), line
    assert YML["vars"]["gpu_id"] == -1


def test_no_gpu_is_said(monkeypatch):
    monkeypatch.setattr(run_trial, "require_gpu", Mock(side_effect=ValueError("no GPU")))
    with pytest.raises(ValueError, match="no GPU"):
        run_trial.use_processor(0)
    with run_trial.use_processor(-1):
        assert get_current_ops().name == "numpy"
