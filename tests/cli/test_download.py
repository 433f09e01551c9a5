"""`spacy elmo download`: what it prints, and an exit code of its own without a network."""

from unittest.mock import Mock

import pytest

from spacy_elmo.files.remote import PublishedFile
from spacy_elmo.weights import named
from spacy_elmo.weights.named import NAMED, NamedModel

from helpers.commands import run_elmo, shown_by

pytestmark = pytest.mark.commands


@pytest.fixture
def server(server, tmp_path, monkeypatch):
    server.files["/o.json"] = b"{}"
    file = PublishedFile(f"{server.url}/o.json")
    monkeypatch.setitem(NAMED, "tiny", NamedModel("tiny", "allennlp", "en", "CC0-1.0", (file,)))
    return server


def run(*arguments, status=0):
    return shown_by("download", *arguments, status=status)


def test_download_stores_a_model_once(server, tmp_path):
    path = tmp_path / "cache" / "tiny" / "o.json"
    assert "CC0-1.0" in run("tiny")
    assert path.read_bytes() == b"{}"
    run("tiny")
    assert len(server.requests) == 1
    path.write_text("{")
    assert "o.json is not a .json file" in run("tiny", status=1)
    assert len(server.requests) == 1
    run("tiny", "--force")
    assert len(server.requests) == 2
    assert path.read_bytes() == b"{}"


def test_no_network_has_an_exit_code_of_its_own(server, monkeypatch):
    server.close()
    output = run("tiny", status=4)
    assert "cannot be reached" in output
    assert f"put {server.url}/o.json at" in output
    monkeypatch.setattr(named, "obtain", Mock(side_effect=KeyboardInterrupt))
    assert "run the same command again" in run("tiny", status=130)


def test_list_shows_the_named_models(server, here, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    rows = run("--list")
    for model in NAMED.values():
        size = f"{model.size / 1e6:.0f} MB " if model.size else ""
        assert f"{model.name} {model.lang} {model.format} {size}{model.licence}" in rows
    assert "original en allennlp 374 MB AllenNLP states no restriction" in rows
    assert "en_small en safetensors 16 MB package en_small-ATTRIBUTION.md" in rows
    run("tiny")
    assert "tiny en allennlp 0 MB yes CC0-1.0" in run("--list")
    monkeypatch.setenv("COLUMNS", "80")
    lines = run_elmo("download", "--list").output.splitlines()
    # A long path stays whole.
    assert max(len(line) for line in lines if str(here) not in line) <= 80
    assert any("Apache-2.0)" in line for line in lines)  # wrapped, not cut


def test_unknown_names_are_refused(server):
    assert "Did you mean german?" in run("germen", status=1)
    assert "--list prints all" in run(status=1)
    assert not server.requests
