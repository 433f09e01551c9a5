"""Prepared corpora at URLs, against the same ones on disk."""

import json
import re
import shutil
import threading

import fsspec
import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from spacy_elmo.language_model.windows import Streams, TrainingBatches
from spacy_elmo.text import manifest as manifest_module
from spacy_elmo.text.prepare import is_prepared, open_corpus, prepare
from spacy_elmo.text.size import estimate_tokens

from helpers.prepared import SMALL, manifest_of, random_text

URL = "memory://bucket/corpus"
BLOCK = 50  # tokens


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A corpus of several shards, each of several blocks, the last ones shorter."""
    monkeypatch.setattr(manifest_module, "BLOCK_SIZE", BLOCK)
    (tmp_path / "a.txt").write_text(random_text(400), "utf8")
    prepare(tmp_path / "a.txt", tmp_path / "corpus", **{**SMALL, "shard_size": 620})
    return tmp_path / "corpus"


@pytest.fixture
def url(folder):
    """Of a copy in memory."""
    memory = fsspec.filesystem("memory")
    memory.put(f"{folder}/", "/bucket/corpus/", recursive=True)
    yield URL
    memory.store.clear()


class Reads:
    """What is read of files of tokens: their names, and the first bytes."""

    def __init__(self, monkeypatch):
        self.found = []
        self.fail = lambda name, start: False
        read = MemoryFileSystem.cat_file

        def counted(system, path, start=None, end=None, **options):
            if "tokens-" in path:
                self.found.append((path.rpartition("/")[2], start))
                if self.fail(*self.found[-1]):
                    raise ConnectionResetError("Connection reset by peer")
            return read(system, path, start=start, end=end, **options)

        monkeypatch.setattr(MemoryFileSystem, "cat_file", counted)


@pytest.fixture
def reads(monkeypatch):
    return Reads(monkeypatch)


def n_blocks(folder):
    return sum(map(len, manifest_of(folder)["blocks"]["sha256"].values()))


def settle(corpus):
    """Wait for what is fetched in the background."""
    for future in list(corpus.tokens._coming.values()):
        future.exception()


def same_arrays(found, expected):
    np.testing.assert_array_equal(found.starts, expected.starts)
    np.testing.assert_array_equal(found.documents, expected.documents)
    np.testing.assert_array_equal(found.counts(), expected.counts())
    assert list(found.types) == list(expected.types)


def test_is_the_corpus_on_disk(folder, url):
    assert is_prepared(url)
    found, expected = open_corpus(url), open_corpus(folder)
    same_arrays(found, expected)
    assert len(found.tokens) == len(expected.tokens)
    np.testing.assert_array_equal(found.tokens[:], expected.tokens[:])
    np.testing.assert_array_equal(found.tokens[7:1300], expected.tokens[7:1300])
    assert found.checksum() == expected.checksum()
    assert found.n_words == expected.n_words
    assert estimate_tokens(url) == expected.n_words
    # A slash more, and a URL of the disk.
    for other in (f"{url}/", folder.as_uri()):
        np.testing.assert_array_equal(open_corpus(other).tokens[:], expected.tokens[:])
    with pytest.raises(IndexError, match=str(len(expected.tokens))):
        found.tokens[np.array([len(expected.tokens)])]


@pytest.mark.parametrize("n_streams", [1, 4])
@pytest.mark.parametrize("directions", ["same", "different"])
def test_batches_are_those_of_the_corpus_on_disk(folder, url, reads, directions, n_streams):
    """With room for the streams' blocks, and without; over two epochs."""
    settings = {"batch_size": 4, "unroll_steps": 7, "seed": 3, "directions": directions}
    corpus = open_corpus(url, n_streams=n_streams)
    here = TrainingBatches(Streams(open_corpus(folder)), **settings)
    there = TrainingBatches(Streams(corpus), **settings)
    for step in range(2 * here.steps_per_epoch):
        found, expected = there.at(step), here.at(step)
        np.testing.assert_array_equal(found.inputs, expected.inputs)
        np.testing.assert_array_equal(found.targets, expected.targets)
    assert len(corpus.tokens._slots) == 4 * n_streams
    assert corpus.tokens._slots.nbytes == 4 * n_streams * BLOCK * 4


def test_blocks_are_fetched_once_and_ahead(folder, url, reads):
    corpus = open_corpus(url, n_streams=1)
    expected, total = open_corpus(folder).tokens[:], n_blocks(folder)
    assert total > 20
    assert not reads.found  # nothing is fetched before it is asked for
    for number, first in enumerate(range(0, 620, BLOCK)):
        place = np.array([first])
        assert corpus.tokens[place] == expected[place]
        settle(corpus)
        # This one and two more, also over the end of a file, and none twice.
        assert len(reads.found) == len(set(reads.found)) == number + 3
        assert len(corpus.tokens._used) == min(4, number + 3)
    assert reads.found[-1][0] == "tokens-00001.npy"
    # After the last block comes the first one.
    del reads.found[:]
    assert corpus.tokens[np.array([len(expected) - 1])] == expected[-1]
    settle(corpus)
    starts = [name for name, start in reads.found if start == 128]
    assert starts == ["tokens-00000.npy"]
    assert len(reads.found) == 3
    assert len(corpus.tokens._used) == len(corpus.tokens._slots) == 4


def test_reading_does_not_wait_for_what_is_ahead(folder, url, reads):
    corpus = open_corpus(url, n_streams=1)
    gate = threading.Event()
    reads.fail = lambda name, start: start > 128 and not gate.wait()
    corpus.tokens[np.array([0])]  # returns while two are on their way
    assert len(corpus.tokens._coming) == 2
    gate.set()
    settle(corpus)
    assert corpus.tokens[np.array([BLOCK])] == open_corpus(folder).tokens[np.array([BLOCK])]


def test_a_fetch_that_fails(folder, url, reads):
    expected = open_corpus(folder).tokens[:]
    corpus = open_corpus(url, n_streams=1)
    start = 128 + 4 * 2 * BLOCK
    reads.fail = lambda name, first: first == start
    corpus.tokens[np.array([0])]
    settle(corpus)  # what is not needed yet may fail
    with pytest.raises(
        ValueError, match=f"^{re.escape(url)}/tokens-00000.npy cannot be read: Conn"
    ):
        corpus.tokens[np.array([2 * BLOCK])]
    assert reads.found.count(("tokens-00000.npy", start)) == 2
    reads.fail = lambda name, first: False
    np.testing.assert_array_equal(corpus.tokens[:], expected)


def test_a_fetch_that_fails_once(folder, url, reads):
    corpus = open_corpus(url, n_streams=1)
    reads.fail = lambda name, start: len(reads.found) == 1
    assert corpus.tokens[np.array([0])] == open_corpus(folder).tokens[np.array([0])]
    assert len(reads.found) >= 2


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tokens-00001.npy", "tokens-00001.npy: bytes 328 to 528 have another checksum"),
        ("starts.npy", "starts.npy has another checksum"),
        ("characters.npy", "characters.npy has another checksum"),
    ],
)
def test_damaged_on_the_way(folder, url, name, message):
    with fsspec.open(f"{url}/{name}") as file:
        data = bytearray(file.read())
    data[330] ^= 1
    with fsspec.open(f"{url}/{name}", "wb") as file:
        file.write(bytes(data))
    with pytest.raises(ValueError, match=re.escape(message)):
        open_corpus(url).tokens[620:800]


def test_what_is_not_there(folder, url):
    memory = fsspec.filesystem("memory")
    memory.rm("/bucket/corpus/tokens-00001.npy")
    with pytest.raises(ValueError, match="tokens-00001.npy cannot be read"):
        open_corpus(url)
    with fsspec.open(f"{url}/tokens-00001.npy", "wb") as file:
        file.write(b"123")
    with pytest.raises(ValueError, match=r"tokens-00001.npy has 3 bytes, not 2,608\. Copy"):
        open_corpus(url)
    assert not is_prepared("memory://bucket")
    with pytest.raises(ValueError, match=r"memory://bucket holds no manifest\.json"):
        open_corpus("memory://bucket")
    with pytest.raises(ValueError, match="nothing://bucket/manifest.json cannot be read"):
        open_corpus("nothing://bucket")


def test_blocks_for_which_there_is_no_memory(folder, url):
    manifest = manifest_of(folder)
    manifest["blocks"]["size"] = 10**14
    manifest.pop("checksum", None)
    fsspec.filesystem("memory").pipe_file(
        "/bucket/corpus/manifest.json", json.dumps(manifest).encode()
    )
    with pytest.raises(ValueError, match=r"tokens-.*: blocks of 100,000,000,000,000 tokens"):
        open_corpus(url)


def test_of_an_earlier_version(folder, tmp_path):
    """From a disk it is read as ever."""
    manifest = manifest_of(folder)
    del manifest["blocks"], manifest["digest"], manifest["checksum"]
    (folder / "manifest.json").write_text(json.dumps(manifest), "utf8")
    assert len(open_corpus(folder, verify=True).tokens)
    with pytest.raises(ValueError, match="an earlier version.*Copy it to one, or prepare it again"):
        open_corpus(folder.as_uri())


@pytest.mark.parametrize("name", ["tokens-00001.npy", "starts.npy"])
def test_a_file_without_a_checksum(folder, name):
    """In a manifest of before manifests had a checksum of their own."""
    manifest = manifest_of(folder)
    del manifest["checksum"], manifest["files"][name]
    (folder / "manifest.json").write_text(json.dumps(manifest), "utf8")
    with pytest.raises(ValueError, match=rf"manifest\.json has no checksum of {name}\. Copy"):
        open_corpus(folder.as_uri())


def test_nothing_is_left_on_disk(folder, url, tmp_path, monkeypatch):
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    corpus = open_corpus(url)
    assert corpus.starts[1] > 0
    assert not list(place.iterdir())
    shutil.rmtree(place)
    assert len(corpus.tokens[:]) == len(corpus.tokens)
    with pytest.raises(OSError, match="temporary"):
        open_corpus(url)
