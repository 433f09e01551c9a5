"""Rehearsal of `benchmarks/gpu_session.py` with tiny sizes on a CPU: each stage has a result."""

import importlib.util
import json
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu_session.py"


@pytest.fixture
def session():
    spec = importlib.util.spec_from_file_location("gpu_session", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.training
def test_a_rehearsal_has_a_result_of_each_stage(session, tmp_path, monkeypatch):
    """The stage with the tests of the GPU would start pytest, so it is replaced."""
    monkeypatch.setattr(session.Session, "tests", lambda self: {"status": 0})
    monkeypatch.setattr(session, "predict", lambda bilm, n: 1.0 * n)  # takes a second each
    results = session.main(["--rehearse", "--output", str(tmp_path)])
    stages = json.loads((tmp_path / "session.json").read_text("utf8"))["stages"]
    assert stages == results["stages"]
    assert list(stages) == list(session.STAGES)
    assert not [stage["error"] for stage in stages.values() if "error" in stage]
    assert [row["streams"] for row in stages["sweep"]["result"]] == [4, 8]
    assert all(row["tokens_per_second"] > 0 for row in stages["sweep"]["result"])
    assert len(stages["prediction"]["result"]) == 2
    run = stages["run"]["result"]
    assert run["is_finished"] and Path(run["checkpoint"]).is_file()
    assert run["metrics"][-1]["step"] == 6


def test_a_failing_stage_is_noted_and_the_next_one_runs(session, tmp_path, monkeypatch):
    monkeypatch.setattr(session, "profile_steps", lambda *_: 1 / 0)
    skipped = ["--skip", "tests", "sweep", "run"]
    monkeypatch.setattr(session, "predict", lambda *_: 1.0)
    results = session.main(["--rehearse", "--output", str(tmp_path), *skipped])
    assert "ZeroDivisionError" in results["stages"]["profile"]["error"]
    assert results["stages"]["prediction"]["result"]


def test_without_a_gpu_only_the_rehearsal_runs(session, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(session.torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit):
        session.main(["--output", str(tmp_path)])
    assert "add --rehearse" in capsys.readouterr().err
