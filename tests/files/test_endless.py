"""Files at a server that does not say their size: they may have no end."""

import io
from itertools import islice

import fsspec
import pytest
from fsspec.spec import AbstractFileSystem

from spacy_elmo.export.inputs import find_inputs
from spacy_elmo.export.places import InputPiece
from spacy_elmo.export.text_input import chunks_of
from spacy_elmo.files import remote
from spacy_elmo.files.remote import RemoteFile
from spacy_elmo.text.manifest import fetch_files
from spacy_elmo.text.prepare import open_corpus

MOST = 1 << 25  # bytes after which somebody reads on and on


class Endless(io.RawIOBase):
    n_read = 0

    def readable(self):
        return True

    def readinto(self, buffer):
        view = memoryview(buffer)
        view[:] = (b"the cat\n" * (len(view) // 8 + 1))[: len(view)]
        self.n_read += len(view)
        assert self.n_read < MOST
        return len(view)


class EndlessFileSystem(AbstractFileSystem):
    """As fsspec's of HTTP: whatever exists is a file, and may be a folder if its text has links."""

    protocol = "endless"

    def info(self, path, **_):
        return {"name": path, "size": None, "type": "file"}

    def isdir(self, path):
        return bool(self.cat_file(path))

    def cat_file(self, path, start=None, end=None, **_):
        return Endless().readall()

    def _open(self, path, mode="rb", **_):
        return Endless()


@pytest.fixture(autouse=True)
def file_systems():
    fsspec.register_implementation("endless", EndlessFileSystem, clobber=True)
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/spacy-elmo-endless/x", b"0123456789")
    yield
    memory.rm("/spacy-elmo-endless", recursive=True)


def test_finding_a_file_does_not_read_it(tmp_path):
    names = ["endless://a/x.txt", "endless://a/y.jsonl.gz"]
    assert [str(piece) for piece in find_inputs(names, tmp_path / "out")] == names


def test_text_is_read_as_it_comes():
    file = InputPiece("endless://a/x.txt")
    found = islice(chunks_of(file, by_paragraph=False), 3)
    assert b"".join(chunk.data for chunk in found).startswith(b"the cat\nthe cat\n")


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("x.spacy", lambda url: InputPiece(url).read_bytes()),
        ("x.txt", lambda url: InputPiece(url).size()),
        ("manifest.json", lambda url: open_corpus(url.rpartition("/")[0])),
        ("x", lambda url: RemoteFile(url).read()),
    ],
)
def test_what_must_fit_into_memory_has_a_size(name, read):
    url = f"endless://a/{name}"
    with pytest.raises(ValueError, match=f"{url} cannot be read: the server sends no size"):
        read(url)


def test_the_size_of_a_whole_file(monkeypatch):
    monkeypatch.setattr(remote, "LARGEST_WHOLE", 9)
    with pytest.raises(ValueError, match="endless/x has 10 bytes. At most 9"):
        RemoteFile("memory://spacy-elmo-endless/x").read()
    monkeypatch.setattr(remote, "LARGEST_WHOLE", 10)
    assert RemoteFile("memory://spacy-elmo-endless/x").read() == b"0123456789"


def test_an_array_that_goes_on_after_its_size():
    with pytest.raises(ValueError, match="endless://a/x.npy does not have the checksum"):
        fetch_files("endless://a", {"files": {"x.npy": {"size": 100, "sha256": "0"}}})
