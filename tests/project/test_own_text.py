"""Pretraining on your own text works as README.md says, without any asset."""

import shutil
import sys

import pytest
import srsly
from thinc.api import Config
from weasel.cli.run import project_run

from helpers.forked import run_forked
from helpers.project_scripts import PROJECT

pytestmark = pytest.mark.processes

OWN = {"vars.lm_train": "my_text/", "vars.lm_dev": "dev.txt", "vars.lm_format": "text"}
TINY = {"vars.lm_config": "tiny.cfg", "vars.pretrain_minutes": 0}


@pytest.mark.processes
def test_the_workflow_on_your_own_text(tmp_path, monkeypatch):
    """The project is copied without assets."""
    project = tmp_path / "project"
    for name in ("configs", "scripts"):
        shutil.copytree(PROJECT / name, project / name)
    shutil.copy(PROJECT / "project.yml", project)
    (project / "my_text").mkdir()
    for name in ("my_text/a.txt", "my_text/b.txt", "dev.txt"):
        (project / name).write_text("The boat sees a bank near the river.\n\n" * 60, "utf8")
    config = Config().from_disk(PROJECT / "configs/pretraining/demo.cfg", interpolate=False)
    config["training"]["max_steps"] = 2
    config.to_disk(project / "tiny.cfg")

    def run_command(command, **settings):
        assert command[0] == sys.executable
        run_forked(*command[1:])

    monkeypatch.setattr("weasel.cli.run.run_command", run_command)
    project_run(project, "pretrain", overrides={**OWN, **TINY})
    measured = srsly.read_json(project / "metrics" / "perplexity.json")["files"]
    assert list(measured) == ["dev.txt"]
    assert measured["dev.txt"]["mean"] > 1.0
    assert (project / "pretraining" / "model-best").is_dir()
    assert (project / "metrics" / "learning_curve.svg").is_file()
    assert not list((project / "assets").rglob("*.txt"))
    assert not list((project / "corpus").rglob("*.txt"))
