"""What the commands say where they may not write."""

import os
import tempfile
from pathlib import Path

import pytest
from spacy.cli._util import app
from thinc.api import Config
from typer.testing import CliRunner

import spacy_elmo.cli  # noqa: F401  (adds the commands to spaCy's)
from spacy_elmo.weights import safetensors_file

from models import pretraining_config, tiny_bilm

NOBODY = 65534
TEXTS = ("--corpus", "text.txt", "--dev", "text.txt", "--budget", "1 core, 1 minute")


@pytest.fixture
def folder(monkeypatch):
    """With the folder `closed`. Not the test's own, which is closed to others altogether."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "open").mkdir()
        (folder / "closed").mkdir(mode=0o555)
        (folder / "text.txt").write_text("the cat sat on a mat .\n" * 30)
        settings = pretraining_config("text.txt", "text.txt", max_steps=1)
        Config(settings).to_disk(folder / "a.cfg")
        safetensors_file.write(tiny_bilm(), folder / "x.safetensors")
        monkeypatch.chdir(folder)
        yield folder


def run(*arguments):
    result = CliRunner().invoke(app, ["elmo", *arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, " ".join(result.output.split())


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("a.cfg", ["init-training", "TARGET", "--weights", "x.safetensors"]),
        ("a.cfg", ["init-pretraining", "TARGET", *TEXTS]),
        ("corpus", ["corpus", "text.txt", "TARGET"]),
        ("out", ["pretrain", "a.cfg", "--output", "TARGET"]),
        ("a.safetensors", ["convert", "x.safetensors", "TARGET"]),
        ("a.hdf5", ["convert", "x.safetensors", "TARGET"]),
        ("pipeline", ["convert", "x.safetensors", "TARGET", "--lang", "en"]),
        ("a.hdf5", ["embed", "x.safetensors", "text.txt", "TARGET"]),
    ],
)
def test_name_without_a_temporary_one(folder, name, arguments):
    def run_into(where):
        return run(*(f"{where}/{name}" if word == "TARGET" else word for word in arguments))

    status, output = run_into("open")  # imports what it needs
    assert status == 0, output
    is_root = not os.geteuid()
    try:
        if is_root:  # who may write everywhere
            os.seteuid(NOBODY)
        status, output = run_into("closed")
    finally:
        if is_root:
            os.seteuid(0)
    assert status == 1
    assert f"closed/{name}: no permission" in output
    assert "Errno" not in output
