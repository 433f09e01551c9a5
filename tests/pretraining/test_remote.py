"""Runs that read their text at a URL."""

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from spacy_elmo.pretraining.run import pretrain
from spacy_elmo.text.prepare import prepare

from helpers.commands import shown_by
from helpers.runs import arrays, assert_same_arrays, metrics, run_config, run_settings, write_texts

SETTINGS = {"eval_frequency": 4, "dropout": 0.2, "decay": "none"}
AT_URLS = ("--corpus.train", "memory://train", "--corpus.dev", "memory://dev")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Prepared texts, here and in memory, and a cache of the test's own."""
    monkeypatch.setenv("SPACY_ELMO_CACHE", str(tmp_path / "cache"))
    write_texts(tmp_path)
    memory = fsspec.filesystem("memory")
    for name in ("train", "dev"):
        prepare(tmp_path / f"{name}.txt", tmp_path / name, min_count=1, n_process=1, shard_size=100)
        memory.put(f"{tmp_path / name}/", f"/{name}/", recursive=True)
    run_config(tmp_path, **SETTINGS, max_steps=12).to_disk(tmp_path / "run.cfg")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    memory.store.clear()


def run(*arguments, status=0):
    return shown_by("pretrain", "run.cfg", *arguments, status=status)


def test_a_run_goes_on_elsewhere(folder):
    """Begun with text on disk, it goes on with the same at a URL, and the other way round."""
    assert pretrain(run_settings(folder, **SETTINGS, max_steps=12), folder / "here")
    more = ("--output", "moved", "--resume", "--training.max_steps")
    run(*more, 4)
    run(*more, 8, *AT_URLS)
    run(*more, 12)
    assert_same_arrays(arrays(folder / "moved"), arrays(folder / "here"))
    prepare(folder / "dev.txt", folder / "other", min_count=1, n_process=1)
    fsspec.filesystem("memory").put(f"{folder / 'other'}/", "/other/", recursive=True)
    output = run(*more, 14, "--corpus.train", "memory://other", status=1)
    assert "the training text is different" in output


def test_connection_that_is_lost(folder, monkeypatch):
    """A line names the URL; the same command later fetches the rest, for the same run as from
    disk."""
    assert pretrain(run_settings(folder, **SETTINGS, max_steps=12), folder / "here")
    open_file = MemoryFileSystem._open

    def lost(system, path, *arguments, **options):
        if "tokens-00001" in path:
            raise TimeoutError("no answer")
        return open_file(system, path, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(MemoryFileSystem, "_open", lost)
        output = run("--output", "there", *AT_URLS, status=1)
    assert "memory://train/tokens-00001.npy cannot be read: no answer" in output
    run("--output", "there", *AT_URLS)
    assert_same_arrays(arrays(folder / "there"), arrays(folder / "here"))
    assert metrics(folder / "there") == metrics(folder / "here")
    assert not (folder / "there" / "corpus").exists()


def test_text_at_a_url_is_not_prepared(folder):
    with fsspec.open("memory://text/a.txt", "w") as file:
        file.write("a b\n")
    run("--output", "there", "--training.max_steps", "1")
    before = sorted((folder / "there").rglob("*"))
    more = ("--overwrite", "--corpus.train", "memory://text")
    output = run("--output", "there", *more, status=1)
    assert "memory://text has no manifest.json" in output
    assert "corpus INPUT FOLDER" in output
    assert sorted((folder / "there").rglob("*")) == before
