"""project.yml: its commands fit together, and README.md says what it holds."""

import re
import shutil

import pytest
import srsly
from weasel.cli.document import project_document
from weasel.util import get_checksum

from project_scripts import PROJECT
from scripts.experiments import trials


@pytest.fixture(scope="module")
def project():
    return srsly.read_yaml(PROJECT / "project.yml")


def test_documentation(tmp_path):
    """`python -m spacy project document project --output project/README.md` changes nothing."""
    shutil.copy(PROJECT / "README.md", tmp_path)
    project_document(PROJECT, tmp_path / "README.md")
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


@pytest.mark.parametrize(
    "workflow",
    ["ner", "textcat", "tagger", "srl", "crf", "bcn", "coref", "entailment", "qa", "experiments"],
)
def test_workflows_make_what_they_need(project, workflow):
    """From the assets alone, in their order, for all data of their trials."""
    commands = {command["name"]: command for command in project["commands"]}
    made = {asset["dest"] for asset in project["assets"]}
    for step in project["workflows"][workflow]:
        needed = set(commands[step].get("deps", ()))
        assert needed <= made, needed - made
        made |= set(commands[step].get("outputs", ()))
    called = {"experiments": {"ner", "textcat", "tagger"}, "entailment": {"textpair"}}
    tasks = called.get(workflow, {workflow})
    for trial in trials.full_plan():
        for split in ("train", "dev", "test"):
            needed = trial.experiment in tasks
            assert not needed or f"corpus/{trial.data}-{split}.spacy" in made
