"""Files at URLs, on the file system that `fsspec` keeps in memory."""

import fsspec
import pytest

from spacy_elmo.files.remote import RemoteFile, is_url, reading

CONTENT = bytes(range(256))


@pytest.fixture
def url():
    system = fsspec.filesystem("memory")
    system.pipe_file("/spacy-elmo-tests/x", CONTENT)
    yield "memory://spacy-elmo-tests/x"
    system.rm("/spacy-elmo-tests", recursive=True)


def test_urls():
    assert all(map(is_url, ["https://a.b/c", "s3://bucket/x", "memory://x"]))
    assert not any(map(is_url, ["x", "/a/b", "C:\\x", "C:/x", "a:b", None, 3, ["x"]]))


def test_read(url):
    file = RemoteFile(url)
    assert str(file) == url
    assert file.exists()
    assert file.size() == 256
    assert file.read() == file.open().read() == CONTENT
    for end in ("", "/", "//"):
        assert RemoteFile.join(url.removesuffix("/x") + end, "x").read() == CONTENT
    # Each call reads what is there now.
    fsspec.filesystem("memory").pipe_file("/spacy-elmo-tests/x", b"new")
    assert (file.size(), file.read()) == (3, b"new")


@pytest.mark.parametrize("call", [RemoteFile.size, RemoteFile.open, RemoteFile.read])
def test_missing_file_is_named(url, call):
    file = RemoteFile(url + "y")
    assert not file.exists()
    with pytest.raises(ValueError, match=r"memory://spacy-elmo-tests/xy cannot be read"):
        call(file)


def test_unknown_protocol_is_named():
    with pytest.raises(ValueError, match=r"nobody://x/y cannot be read: .*nobody"):
        RemoteFile("nobody://x/y")


@pytest.mark.parametrize("kind", [OSError, RuntimeError, KeyError, TimeoutError])
def test_errors_of_any_library(kind):
    with pytest.raises(ValueError, match=f"^x cannot be read: {kind.__name__}$"), reading("x"):
        raise kind


@pytest.mark.parametrize("kind", [MemoryError, ImportError, KeyboardInterrupt])
def test_errors_that_are_not_the_files(kind):
    with pytest.raises(kind, match="^mine$"), reading("x"):
        raise kind("mine")
