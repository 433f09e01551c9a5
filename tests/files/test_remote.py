"""Files at URLs, in fsspec's memory and at a server that does not send their size, so that they may
have no end."""

import io
from itertools import islice

import fsspec
import pytest
from fsspec.spec import AbstractFileSystem

from spacy_elmo.export.inputs import find_inputs
from spacy_elmo.export.pieces import InputPiece
from spacy_elmo.export.text_input import chunks_of
from spacy_elmo.files import remote
from spacy_elmo.files.remote import RemoteFile, is_url, reading
from spacy_elmo.text.manifest import fetch_files
from spacy_elmo.text.prepare import open_corpus

CONTENT = bytes(range(256))


@pytest.fixture
def url():
    system = fsspec.filesystem("memory")
    system.pipe_file("/spacy-elmo-tests/x", CONTENT)
    yield "memory://spacy-elmo-tests/x"
    system.rm("/spacy-elmo-tests", recursive=True)


def test_only_urls_are_urls():
    assert all(map(is_url, ["https://a.b/c", "s3://bucket/x", "memory://x"]))
    assert not any(map(is_url, ["x", "/a/b", "C:\\x", "C:/x", "a:b", None, 3, ["x"]]))


def test_a_remote_file_is_read(url, monkeypatch):
    file = RemoteFile(url)
    assert (str(file), file.exists(), file.size()) == (url, True, 256)
    monkeypatch.setattr(remote, "LARGEST_WHOLE", 256)
    assert file.read() == file.open().read() == CONTENT
    for end in ("", "/", "//"):
        assert RemoteFile.join(url.removesuffix("/x") + end, "x").read() == CONTENT
    monkeypatch.setattr(remote, "LARGEST_WHOLE", 255)
    with pytest.raises(ValueError, match="tests/x has 256 bytes. At most 255"):
        file.read()
    # Each call reads what is there now.
    fsspec.filesystem("memory").pipe_file("/spacy-elmo-tests/x", b"new")
    assert (file.size(), file.read()) == (3, b"new")


def test_missing_files_and_unknown_protocols_are_named(url):
    file = RemoteFile(url + "y")
    assert not file.exists()
    for read in (file.size, file.open, file.read):
        with pytest.raises(ValueError, match=r"memory://spacy-elmo-tests/xy cannot be read"):
            read()
    with pytest.raises(ValueError, match=r"nobody://x/y cannot be read: .*nobody"):
        RemoteFile("nobody://x/y")
    # An invented class, since any package that fsspec knows may be installed.
    fsspec.register_implementation("away", "not_there.FileSystem", errtxt="Install not_there")
    with pytest.raises(ValueError, match=r"^away://x cannot be read: Install not_there"):
        RemoteFile("away://x")


@pytest.mark.parametrize("kind", [OSError, KeyError])
def test_errors_of_any_library_name_the_file(kind):
    with pytest.raises(ValueError, match=f"^x cannot be read: {kind.__name__}$"), reading("x"):
        raise kind


@pytest.mark.parametrize("kind", [MemoryError, KeyboardInterrupt])
def test_other_errors_do_not_change(kind):
    with pytest.raises(kind, match="^mine$"), reading("x"):
        raise kind("mine")


MOST = 1 << 25  # A reader that takes more bytes would never end.


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
    """File system like fsspec's for HTTP: every path is a file, and may be a folder if its text has
    links."""

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
def file_system():
    fsspec.register_implementation("endless", EndlessFileSystem, clobber=True)


def test_text_is_read_while_it_arrives(tmp_path):
    """Finding a file does not read it."""
    names = ["endless://a/x.txt", "endless://a/y.jsonl.gz"]
    file, other = find_inputs(names, tmp_path / "out")
    assert [str(file), str(other)] == names
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
def test_files_that_must_fit_into_memory_have_a_limit(name, read):
    url = f"endless://a/{name}"
    with pytest.raises(ValueError, match=f"{url} cannot be read: the server sends no size"):
        read(url)


def test_an_array_longer_than_its_size_is_refused():
    with pytest.raises(ValueError, match="endless://a/x.npy does not have the checksum"):
        fetch_files("endless://a", {"files": {"x.npy": {"size": 100, "sha256": "0"}}})
