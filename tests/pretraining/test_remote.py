"""Runs that read their text from a URL."""

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from spacy_elmo.pretraining.run import pretrain

from helpers.commands import shown_by
from helpers.prepared import content, prepare
from helpers.runs import arrays, assert_same_arrays, metrics, run_config, run_settings, write_texts

pytestmark = [pytest.mark.training, pytest.mark.corpora, pytest.mark.commands]


def test_a_run_can_be_resumed_with_its_text_at_a_url(tmp_path, monkeypatch):
    """A run may begin with text on disk and continue with the same text at a URL, or the other way
    round. Other text is refused, and so is text that is not prepared."""
    monkeypatch.setenv("SPACY_ELMO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(MemoryFileSystem, "store", {})
    monkeypatch.chdir(tmp_path)
    write_texts(tmp_path)
    memory = fsspec.filesystem("memory")
    for name, text in (("train", "train"), ("dev", "dev"), ("other", "dev")):
        prepare(tmp_path / f"{text}.txt", tmp_path / name, min_count=1, n_process=1)
        memory.put(f"{tmp_path / name}/", f"/{name}/", recursive=True)
    with fsspec.open("memory://text/a.txt", "w") as file:
        file.write("a b\n")

    def run(*arguments, status=0):
        return shown_by("pretrain", "run.cfg", "--output", "moved", *arguments, status=status)

    settings = {"eval_frequency": 4, "dropout": 0.2, "decay": "none", "max_steps": 12}
    run_config(tmp_path, **settings).to_disk("run.cfg")
    assert pretrain(run_settings(tmp_path, **settings), tmp_path / "here")
    moved, more = tmp_path / "moved", ("--resume", "--training.max_steps")
    run(*more, 4)
    run(*more, 8, "--corpus.train", "memory://train", "--corpus.dev", "memory://dev")
    run(*more, 12)
    assert_same_arrays(arrays(moved), arrays(tmp_path / "here"))
    assert metrics(moved) == metrics(tmp_path / "here")
    before = content(moved)
    output = run("--overwrite", "--corpus.train", "memory://text", status=1)
    assert "memory://text has no manifest.json" in output
    assert "corpus INPUT FOLDER" in output
    output = run(*more, 14, "--corpus.train", "memory://other", status=1)
    assert "the training text is different" in output
    assert content(moved) == before
