"""Outputs that exist or may not be written: nothing is lost, and the error names the output."""

import os
import tempfile
from pathlib import Path

import pytest
import spacy
from thinc.api import Config

from helpers.commands import shown_by
from helpers.full_disk import room_for
from helpers.models import pretraining_config, write_safetensors

pytestmark = pytest.mark.commands

NOBODY = 65534
TEXTS = ("--corpus", "text.txt", "--dev", "text.txt", "--budget", "1 GPU, 1 day")


@pytest.fixture
def folder(monkeypatch):
    """Yield a folder with the subfolder `closed`.

    Other users may not enter the test's own folder.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path, mode in ((folder, 0o755), (folder / "open", 0o755), (folder / "closed", 0o555)):
            path.mkdir(exist_ok=True)
            path.chmod(mode)
        (folder / "text.txt").write_text("the cat sat on a mat .\n" * 30)
        Config(pretraining_config(*["text.txt"] * 2, max_steps=1)).to_disk(folder / "a.cfg")
        write_safetensors(folder / "x.safetensors")
        monkeypatch.chdir(folder)
        yield folder


TWO = ("--sentence", "a b", "--sentence", "a c")
ASKED = ("--sentence", "a cat", "--token", "cat")

TARGETS = [
    ("a.cfg", ["init-training", "TARGET", "--weights", "x.safetensors", "--lang", "en"]),
    ("a.cfg", ["init-pretraining", "TARGET", *TEXTS]),
    ("a.safetensors", ["convert", "x.safetensors", "TARGET"]),
    ("a.hdf5", ["convert", "x.safetensors", "TARGET"]),
    ("a.hdf5", ["embed", "x.safetensors", "text.txt", "TARGET"]),
    ("a.html", ["senses", "x.safetensors", *TWO, "-o", "TARGET"]),
    ("a.html", ["neighbors", "x.safetensors", "text.txt", *ASKED, "--html", "TARGET"]),
    # Folders
    ("corpus", ["corpus", "text.txt", "TARGET"]),
    ("out", ["pretrain", "a.cfg", "--output", "TARGET"]),
    ("pipeline", ["convert", "x.safetensors", "TARGET", "--lang", "en"]),
]


def run(arguments, target, *more, status=0):
    words = (target if word == "TARGET" else word for word in arguments)
    return shown_by(*words, *more, status=status)


@pytest.mark.parametrize(("name", "arguments"), TARGETS)
def test_files_stay_without_force_and_closed_folders_are_named(folder, name, arguments):
    """An error names no temporary file."""
    target = folder / "open" / name
    run(arguments, target)  # imports what it needs
    if target.is_file():
        target.write_text("mine")
        assert f"{name} exists already" in run(arguments, target, status=1)
        assert target.read_text() == "mine"
        run(arguments, target, "--force")
        assert target.read_bytes() != b"mine"
    output = run(arguments, f"text.txt/{name}", status=1)
    assert "text.txt" in output and "a file is where a folder is needed" in output
    full = folder / "open" / f"full-{name}"
    with room_for(0):
        output = run(arguments, full, status=1)
    assert f"full-{name}" in output and "Errno" not in output
    if target.suffix == ".html":  # Another user may not read the template.
        return
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


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full device")
def test_a_full_device(folder):
    arguments = ("init-training", "/dev/full", "--weights", "x.safetensors", "--lang", "en")
    assert "/dev/full: no space left" in shown_by(*arguments, status=1)


@pytest.mark.parametrize(
    "arguments",
    [
        ["init-pretraining", "text.txt", *TEXTS],
        ["init-training", "text.txt", "--weights", "x.safetensors", "--train", "text.txt"],
        ["init-training", "./linked.txt", "--weights", "x.safetensors", "--train", "text.txt"],
        ["perplexity", "x.safetensors", "a.cfg", "text.txt", "-o", "text.txt"],
        ["wsd", "x.safetensors", "a", "b", "--json", "text.txt", "--html", "linked.txt"],
    ],
)
def test_an_input_is_never_an_output(folder, arguments):
    """--force replaces no input, and one file cannot be two outputs."""
    before = (folder / "text.txt").read_bytes()
    os.link(folder / "text.txt", folder / "linked.txt")
    assert "txt is an input, or given twice. Give another name" in run(
        arguments, None, "--force", status=1
    )
    assert (folder / "text.txt").read_bytes() == before
