import json

import pytest
import spacy
from spacy.cli._util import app
from typer.testing import CliRunner

import spacy_elmo.cli  # noqa: F401  (adds the commands to spaCy's)
from spacy_elmo.weights import read_weights, safetensors_file

from models import tiny_bilm


@pytest.fixture
def source(tmp_path):
    bilm = tiny_bilm()
    bilm.provenance = {"tokens": 3, "path": "/secret"}
    safetensors_file.write(bilm, tmp_path / "x.safetensors")
    return tmp_path / "x.safetensors"


def run(*arguments, status=0):
    result = CliRunner().invoke(app, ["elmo", "convert", *map(str, arguments)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == status, result.output
    return " ".join(result.output.split())


def test_convert(tmp_path, source):
    output = run(source, tmp_path / "weights.hdf5")
    n_weights = sum(weight.numel() for weight in tiny_bilm().parameters())
    assert f"{n_weights:,} parameters in float32" in output
    run(tmp_path / "weights.hdf5", tmp_path / "a", "--lang", "fi")
    assert spacy.load(tmp_path / "a").lang == "fi"
    assert read_weights(tmp_path / "a").checksum() == tiny_bilm().checksum()


def test_loss_has_a_status_of_its_own(tmp_path, source):
    target = tmp_path / "a.safetensors"
    output = run(source, target, "--dtype", "bfloat16", status=3)
    assert "would lose: precision" in output
    assert "Nothing was written; --allow-loss goes on" in output
    assert not target.exists()
    output = run(source, target, "--dtype", "bfloat16", "--allow-loss")
    assert "Lost: precision" in output
    assert target.exists()


def test_existing_target(tmp_path, source):
    target = tmp_path / "weights.hdf5"
    target.write_bytes(b"mine")
    assert "exists already" in run(source, target, status=1)
    assert target.read_bytes() == b"mine"
    run(source, target, "--force")
    assert read_weights(target).checksum() == tiny_bilm().checksum()


def test_provenance(tmp_path, source):
    patch = tmp_path / "patch.json"
    patch.write_text(json.dumps({"licence": "CC0-1.0", "path": None}))
    run(source, tmp_path / "a.safetensors", "--provenance", patch)
    expected = {"tokens": 3, "licence": "CC0-1.0"}
    assert read_weights(tmp_path / "a.safetensors").provenance == expected
    for content in ("{", "[]"):
        patch.write_text(content)
        assert "patch.json" in run(source, tmp_path / "b", "--provenance", patch, status=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere", "a"], "no weights at 'nowhere'"),
        (["x.safetensors", "a.bin"], "no format of files"),
        (
            ["x.safetensors", "a", "--format", "manylangs"],
            "no place for the token encoder 'bilm-tf'",
        ),
        (["x.safetensors", "a"], "--lang"),
        (["x.safetensors", "weights.hdf5", "--dtype", "float16"], "float32 alone"),
        (["x.safetensors", "a", "--lang", "qqq"], "qqq"),
    ],
)
def test_errors_have_no_traceback(tmp_path, source, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    output = run(*arguments, status=1)
    assert message in output
    assert "Traceback" not in output
    assert [path.name for path in tmp_path.iterdir()] == ["x.safetensors"]
