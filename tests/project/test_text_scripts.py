"""What is made of a language model's text, beside a language model."""

import sys

import pytest

from project_scripts import call

TEXT = "".join(f"sentence {number} .\n" for number in range(10))


def test_hold_out(tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    files = [tmp_path / name for name in ("text.txt", "new/train.txt", "new/dev.txt")]
    call("data.hold_out", *files, "--sentences", 3)
    assert files[1].read_text() + files[2].read_text() == TEXT
    assert files[2].read_text().startswith("sentence 7")
    output = call("data.hold_out", *files, "--sentences", 10, fails=True)
    assert "10 cannot be held out" in output


def test_floret_is_missing(tmp_path, monkeypatch):
    (tmp_path / "text.txt").write_text(TEXT)
    monkeypatch.setitem(sys.modules, "floret", None)
    args = (tmp_path / "vectors.floret", tmp_path / "text.txt")
    assert "pip install floret" in call("data.train_floret", *args, fails=True)


def test_floret(tmp_path):
    """Vectors of the width asked for, that spaCy reads."""
    pytest.importorskip("floret")
    (tmp_path / "text.txt").write_text(TEXT * 20)
    args = (tmp_path / "vectors.floret", tmp_path / "text.txt", "--dim", 3, "--epochs", 1)
    call("data.train_floret", *args)
    header = (tmp_path / "vectors.floret").read_text().split("\n")[0]
    assert header.startswith("50000 3 5 6 2")
