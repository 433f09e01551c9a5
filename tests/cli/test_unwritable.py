"""What the commands say where they may not write, or something is there."""

import os
import tempfile
from pathlib import Path

import pytest
import spacy
from thinc.api import Config

from spacy_elmo.weights import safetensors_file

from helpers.commands import shown_by
from helpers.models import pretraining_config, tiny_bilm

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


TWO = ("--sentence", "a b", "--sentence", "a c")
ASKED = ("--sentence", "a cat", "--token", "cat")

FILES = [
    ("a.cfg", ["init-training", "TARGET", "--weights", "x.safetensors", "--lang", "en"]),
    ("a.cfg", ["init-pretraining", "TARGET", *TEXTS]),
    ("a.safetensors", ["convert", "x.safetensors", "TARGET"]),
    ("a.hdf5", ["convert", "x.safetensors", "TARGET"]),
    ("a.hdf5", ["embed", "x.safetensors", "text.txt", "TARGET"]),
    ("a.hdf5", ["dump-token-embeddings", "x.safetensors", "text.txt", "TARGET"]),
]
PAGES = [
    ("a.html", ["senses", "x.safetensors", *TWO, "-o", "TARGET"]),
    ("a.html", ["neighbors", "x.safetensors", "text.txt", *ASKED, "--html", "TARGET"]),
]
FOLDERS = [
    ("corpus", ["corpus", "text.txt", "TARGET"]),
    ("out", ["pretrain", "a.cfg", "--output", "TARGET"]),
    ("pipeline", ["convert", "x.safetensors", "TARGET", "--lang", "en"]),
]


def run(arguments, target, *more, status=0):
    words = (target if word == "TARGET" else word for word in arguments)
    return shown_by(*words, *more, status=status)


@pytest.mark.parametrize(("name", "arguments"), FILES + PAGES)
def test_existing_file_stays_unless_forced(folder, name, arguments):
    target = folder / "open" / name
    target.write_text("mine")
    message = f"{name} exists already"
    assert message in run(arguments, target, status=1)
    assert [path.read_text() for path in target.parent.iterdir()] == ["mine"]
    run(arguments, target, "--force")
    assert target.read_bytes() != b"mine"


@pytest.mark.parametrize(("name", "arguments"), FILES + FOLDERS)
def test_name_without_a_temporary_one(folder, name, arguments):
    run(arguments, f"open/{name}")  # imports what it needs
    is_root = not os.geteuid()
    try:
        if is_root:  # who may write everywhere
            os.seteuid(NOBODY)
        could_read = os.access(spacy.__file__, os.R_OK, effective_ids=True)
        output = run(arguments, f"closed/{name}", status=1)
    finally:
        if is_root:
            os.seteuid(0)
    if is_root and not could_read:
        pytest.skip("another user may not read the installed packages")
    assert f"closed/{name}: no permission" in output
    assert "Errno" not in output
