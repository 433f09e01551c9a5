"""Prepared corpora at URLs, against the same ones on disk."""

import json

import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from spacy_elmo.files.schema import seal
from spacy_elmo.text.prepare import is_prepared, open_corpus
from spacy_elmo.text.size import estimate_tokens

from helpers.calls import note_calls
from helpers.full_disk import room_for
from helpers.prepared import SMALL, assert_same_text, manifest_of, prepare, random_text

pytestmark = pytest.mark.corpora

URL = "memory://bucket/corpus"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return the folder of a prepared corpus. The cache is the test's own."""
    monkeypatch.setenv("SPACY_ELMO_CACHE", str(tmp_path / "cache"))
    (tmp_path / "a.txt").write_text(random_text(100), "utf8")
    prepare(tmp_path / "a.txt", tmp_path / "corpus", **SMALL)
    return tmp_path / "corpus"


@pytest.fixture
def url(folder):
    """Return the URL of a copy of the corpus in memory."""
    put(folder)
    yield URL
    MemoryFileSystem.store.clear()


def put(folder):
    MemoryFileSystem().put(f"{folder}/", "/bucket/corpus/", recursive=True)


def test_a_corpus_at_a_url_is_the_corpus_on_disk(folder, url):
    assert is_prepared(url)
    expected = open_corpus(folder)
    for place in (url, f"{url}/", folder.as_uri()):
        found = open_corpus(place, verify=True)
        assert_same_text(found, expected)
        np.testing.assert_array_equal(found.tokens[:], expected.tokens[:])
        assert list(found.types) == list(expected.types)
        assert found.checksum() == expected.checksum()
    assert estimate_tokens(url) == expected.n_words


def test_each_file_is_fetched_once(folder, url, tmp_path, monkeypatch):
    """A lost connection and damaged copies do not change this."""
    names = sorted(manifest_of(folder)["files"])
    opened = note_calls(
        monkeypatch, MemoryFileSystem, "_open", lambda _, path, *__, **___: path.rpartition("/")[2]
    )

    def lost(_, path, *__, **___):
        if "tokens-00000" in path:
            raise ConnectionResetError("Connection reset by peer")

    with monkeypatch.context() as patch:
        note_calls(patch, MemoryFileSystem, "_open", lost)
        with pytest.raises(ValueError, match=f"^{url}/tokens-00000.npy cannot be read: Conn"):
            open_corpus(url)
    assert len(opened) > 0
    for place in (url, url, folder.as_uri()):  # the same content
        assert_same_text(open_corpus(place, verify=True), open_corpus(folder))
        assert sorted(opened) == names
    (copies,) = (tmp_path / "cache" / "corpora").iterdir()
    (copies / "starts.npy").unlink()
    (copies / "tokens-00000.npy").write_bytes(b"cut")
    assert_same_text(open_corpus(url, verify=True), open_corpus(folder))
    assert sorted(opened) == sorted([*names, "starts.npy", "tokens-00000.npy"])


def test_a_new_corpus_at_the_same_url_is_fetched(folder, url, tmp_path):
    before = open_corpus(url)
    (tmp_path / "b.txt").write_text("c d\n" * 5, "utf8")
    prepare(tmp_path / "b.txt", tmp_path / "other", **SMALL)
    MemoryFileSystem.store.clear()
    put(tmp_path / "other")
    assert_same_text(open_corpus(url), open_corpus(tmp_path / "other"))
    assert_same_text(before, open_corpus(folder))


DAMAGES = [
    ("tokens-00000.npy", lambda data: data[:-1] + bytes([data[-1] ^ 1])),
    ("starts.npy", lambda data: data + bytes(10**7)),
    ("vocab.txt", lambda data: data[:-1]),
]


@pytest.mark.parametrize(("name", "change"), DAMAGES)
def test_files_damaged_on_the_way_are_named(folder, url, name, change, tmp_path):
    MemoryFileSystem().pipe_file(f"/bucket/corpus/{name}", change((folder / name).read_bytes()))
    with pytest.raises(ValueError, match=f"{url}/{name} does not have the checksum in manifest"):
        open_corpus(url)
    assert not list((tmp_path / "cache").rglob(name))


def test_missing_files_and_manifests_are_named(folder, url):
    MemoryFileSystem().rm("/bucket/corpus/tokens-00000.npy")
    with pytest.raises(ValueError, match="tokens-00000.npy cannot be read"):
        open_corpus(url)
    assert not is_prepared("memory://bucket")
    with pytest.raises(ValueError, match=r"memory://bucket has no manifest\.json"):
        open_corpus("memory://bucket")
    with pytest.raises(ValueError, match="nothing://bucket/manifest.json cannot be read"):
        open_corpus("nothing://bucket")


def write_manifest(manifest):
    content = json.dumps(seal(manifest)).encode()
    MemoryFileSystem().pipe_file("/bucket/corpus/manifest.json", content)


def test_names_that_lead_elsewhere_are_refused(folder, url, tmp_path):
    for name in ("../x", "/tmp/x", "..", ".x", "a/b", "a\\b", ""):
        manifest = manifest_of(folder)
        manifest["files"][name] = manifest["files"]["starts.npy"]
        write_manifest(manifest)
        with pytest.raises(ValueError, match="manifest.json names .*, which does not belong to a"):
            open_corpus(url)
    assert not (tmp_path / "cache" / "corpora").exists()


def test_a_corpus_of_an_earlier_version_is_read(folder, url):
    blocks = {"first_byte": 128, "size": 65536, "sha256": {"tokens-00000.npy": ["0"]}}
    write_manifest({**manifest_of(folder), "blocks": blocks, "digest": "0"})
    assert_same_text(open_corpus(url), open_corpus(folder))


def test_a_full_disk_of_the_cache_is_named(url):
    full = pytest.raises(OSError, match=r"cache.*too large.*SPACY_ELMO_CACHE to another folder")
    with room_for(100), full:
        open_corpus(url)
