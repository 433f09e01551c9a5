"""Downloads: only whole and correct files are stored, interrupted ones are resumed, and a user's
files stay."""

import hashlib
import os
import re
import shutil
import socket
import types
import zipfile
from pathlib import Path

import pytest
from tqdm import tqdm

from spacy_elmo.files.remote import PublishedFile
from spacy_elmo.weights import download as module
from spacy_elmo.weights.download import DownloadError, check, download

from helpers.conversions import write_zip
from helpers.gzipped import gzipped
from helpers.killed import in_child, killed_at_each_step
from helpers.models import write_tiny
from helpers.prepared import content

SIZE = 300_000
RANGE = "bytes=70000-"
BYTES = bytes(hashlib.shake_256(b"content").digest(SIZE))


@pytest.fixture
def server(server, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 1000)
    server.files["/a/model.bin"] = BYTES
    return server


@pytest.fixture
def target(tmp_path):
    return tmp_path / "cache" / "model.bin"


def fetch(server, target, **known):
    download(PublishedFile(f"{server.url}/a/model.bin", **known), target)


def assert_whole(target, whole=BYTES):
    assert content(target.parent) == {target.name: whole}


def fails(server, target, message, **known):
    """Check that a download fails and leaves no file behind."""
    before = content(target.parent)
    with pytest.raises(DownloadError, match=message):
        fetch(server, target, **known)
    assert content(target.parent) == before


DATE = "Wed, 21 Oct 2015 07:28:00 GMT"
CUT = {"cut": 70_000}


@pytest.mark.parametrize(
    ("script", "ranges"),
    [
        ([], [None]),
        # However often the connection breaks, while something comes.
        ([{"cut": 10_000}] * 15, [None, *(f"bytes={i}0000-" for i in range(1, 16))]),
        ([CUT, {"ignore_range": True}], [None, RANGE]),
        ([CUT, {"status": 416, "cut": 0}], [None, RANGE, None]),
        # Another range than the one that was asked for.
        ([CUT, {"headers": {"Content-Range": "bytes 5-9/300000"}}], [None, RANGE, None]),
        # No promise that it is the same version.
        ([{**CUT, "headers": {"ETag": None}}], [None, None]),
        ([{**CUT, "headers": {"ETag": 'W/"1"'}}], [None, None]),
        ([{**CUT, "headers": {"ETag": None, "Last-Modified": DATE}}], [None, RANGE]),
    ],
)
def test_a_broken_connection_is_resumed_until_the_file_is_whole(server, target, script, ranges):
    server.script = [*script]
    fetch(server, target, size=SIZE, md5=hashlib.md5(BYTES).hexdigest())
    assert_whole(target)
    assert server.ranges == ranges
    promise = DATE if DATE in str(script) else f'"{hash(BYTES)}"'
    for _, headers in server.requests:
        assert headers.get("If-Range") == (promise if "Range" in headers else None)


@pytest.mark.parametrize("whole", [BYTES, BYTES[::-1]])
def test_a_later_call_resumes_a_failed_download(server, target, whole):
    """A file that changed meanwhile is not mixed with the old one. The existing file stays until
    the new one is whole."""
    target.parent.mkdir()
    target.write_bytes(b"old")
    server.script = [{"cut": 70_000}, *({"cut": 0} for _ in range(module.ATTEMPTS))]
    with pytest.raises(DownloadError, match=r"cannot be fetched.* resume after 70,000 bytes"):
        fetch(server, target)
    assert target.read_bytes() == b"old"
    assert len(server.requests) == module.ATTEMPTS + 1
    server.files["/a/model.bin"] = whole
    fetch(server, target)
    assert_whole(target, whole)
    assert server.ranges[-1] == RANGE


BESIDE = ["file -", "file link", "- link", "folder -", "folder file", "link -", "link file"]


@pytest.mark.parametrize("kinds", BESIDE)
def test_a_users_files_beside_the_download_stay(server, target, kinds):
    target.parent.mkdir()
    (target.parent / "victim").write_bytes(b"mine")
    makers = {"file": lambda path: path.write_text("mine"), "folder": Path.mkdir, "-": str}
    makers["link"] = lambda path: path.symlink_to(target.parent / "victim")
    for ending, kind in zip((".part", ".part.version"), kinds.split()):
        makers[kind](target.with_name(f"model.bin{ending}"))
    before = content(target.parent)
    with pytest.raises(ValueError, match="is in the way: .* Move it away"):
        fetch(server, target)
    assert content(target.parent) == before
    assert not server.requests


def test_a_reply_that_stalls_is_resumed(server, target, monkeypatch):
    """The test's timeout ends as soon as the server stops sending."""
    readinto = socket.SocketIO.readinto

    def time_out(stream, buffer):
        size = readinto(stream, buffer)
        is_client = stream._sock.gettimeout() is not None
        if size == 0 and is_client:  # All that came before the stall is read.
            assert stream._sock.gettimeout() == module.TIMEOUT[1]
            raise TimeoutError("timed out")
        return size

    monkeypatch.setattr(socket.SocketIO, "readinto", time_out)
    server.script = [{"stall": 0}, {"stall": 200_000}]
    fetch(server, target)
    assert_whole(target)
    # At most a chunk is lost of what had come.
    going_on = re.fullmatch(r"bytes=(\d+)-", server.ranges[-1])
    assert 200_000 - module.CHUNK <= int(going_on[1]) <= 200_000


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_followed_a_limited_number_of_times(server, target, status):
    server.files["/elsewhere"] = server.files.pop("/a/model.bin")
    server.script = [{"status": status, "headers": {"Location": "/elsewhere"}}]
    fetch(server, target)
    assert_whole(target)
    assert [path for path, _ in server.requests] == ["/a/model.bin", "/elsewhere"]
    server.script = [{"status": status, "headers": {"Location": "/a/model.bin"}}] * 100
    fails(server, target.with_name("other"), "redirects")
    assert len(server.requests) < 52


def reply(url, *history, **given):
    """Return a reply with the attributes of those of requests."""
    history = [types.SimpleNamespace(url=url) for url in history]
    return types.SimpleNamespace(status_code=200, url=url, history=history, **given)


def test_a_redirect_without_encryption_is_refused():
    found = reply("https://b/x", "https://a/x", "http://a/x")
    with pytest.raises(DownloadError, match="without encryption"):
        module._check_status(found, PublishedFile("https://a/x"))
    module._check_status(found, PublishedFile("http://a/x"))


@pytest.mark.parametrize("status", [401, 403, 404, 410, 429, 500, 503])
def test_errors_of_the_server_are_named(server, target, status):
    """Only temporary errors are tried again."""
    attempts = 1 if status < 429 else module.ATTEMPTS
    server.script = [{"status": status}] * (2 * attempts - 1)
    fails(server, target, f"HTTP status {status}")
    assert len(server.requests) == attempts
    fetch(server, target)
    assert_whole(target)


def test_a_reply_shorter_than_its_length_is_noticed(target):
    """urllib3 2 notices it itself, and urllib3 1 does not."""
    target.parent.mkdir()
    pieces = {"headers": {"Content-Length": "10"}, "iter_content": lambda _: [b"123", b"4567"]}
    part, file = module._Part(target), PublishedFile("http://a/x")
    with pytest.raises(module._BrokenOff, match="7 of 10 bytes"):
        module._receive(reply(file.url, **pieces), file, part, tqdm(disable=True))
    assert part.path.read_bytes() == b"1234567"


def test_a_truncated_file_is_noticed_without_a_length(server, tmp_path):
    """Only the content shows it."""
    whole = server.files["/w.hdf5"] = write_tiny(tmp_path).read_bytes()
    target = tmp_path / "cache" / "w.hdf5"
    server.script = [{"cut": len(whole) - 100, "headers": {"Content-Length": None}}]
    with pytest.raises(DownloadError, match=r"not a .hdf5 file: .*truncated"):
        download(PublishedFile(f"{server.url}/w.hdf5"), target)
    assert not any(target.parent.iterdir())
    download(PublishedFile(f"{server.url}/w.hdf5"), target)
    assert_whole(target, whole)


@pytest.mark.parametrize("name", ["o.json", "w.hdf5", "m.zip", "a.safetensors"])
@pytest.mark.parametrize("page", [b"<html>Log in to the network</html>", b"", b"\xff\xfe"])
def test_a_page_in_place_of_the_file_is_refused(server, tmp_path, name, page):
    server.files[f"/{name}"] = page
    with pytest.raises(DownloadError, match=rf"not a \.{name[2:]} file"):
        download(PublishedFile(f"{server.url}/{name}"), tmp_path / name)
    assert not any(tmp_path.iterdir())


def test_broken_archives_are_refused(tmp_path):
    published = PublishedFile("http://x/m.zip")
    path = write_zip(tmp_path / "m.zip", {"encoder.pkl": b"1234567890" * 10})
    check(published, path)
    path.write_bytes(path.read_bytes().replace(b"12345", b"12346", 1))
    with pytest.raises(ValueError, match="encoder.pkl in it is broken"):
        check(published, path)
    write_zip(path, {"encoder.pkl": bytes(10**8)}, zipfile.ZIP_DEFLATED)
    with pytest.raises(ValueError, match="it claims to contain 100,000,000 bytes"):
        check(published, path)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "gzip, gzip"])
def test_a_wrong_or_compressed_file_is_refused(server, target, encoding):
    """The request forbids compression. A small reply that the server compressed anyway may unpack
    to any size."""
    fails(server, target, "has 300,000 bytes, expected exactly 5", size=5)
    fails(server, target, "MD5", md5="0" * 32)
    server.files["/a/model.bin"] = gzipped(bytes(10**7))
    server.script = [{"headers": {"Content-Encoding": encoding}}]
    fails(server, target, f"sends it compressed .Content-Encoding: {encoding}.")
    assert server.requests[-1][1]["Accept-Encoding"] == "identity"


@pytest.mark.parametrize("known", [{"size": SIZE}, {}])
def test_a_reply_is_cut_off_at_the_limit(server, target, monkeypatch, known):
    """One reply has no length and no end. The limit of options is small."""
    monkeypatch.setattr(module, "MAX_BYTES", SIZE)
    server.script = [{"repeat": 1}, {"repeat": 1_000_000}]
    fetch(server, target, **known)
    assert_whole(target)
    fails(server, target.with_name("x"), "has more than the expected 300,000 bytes", **known)
    monkeypatch.setattr(module, "MAX_BYTES", SIZE - 1)
    if not known:
        fails(server, target.with_name("x"), "300,000 bytes, expected at most 299,999")
        server.files["/options.json"], server.script = b" " * 1000, [{"repeat": 1_000_000}]
        with pytest.raises(DownloadError, match="has more than the expected 2,097,152 bytes"):
            download(PublishedFile(f"{server.url}/options.json"), target.with_name("options.json"))


def test_a_missing_server_is_named(server, target, monkeypatch):
    server.close()
    pauses = []
    monkeypatch.setattr(module, "time", types.SimpleNamespace(sleep=pauses.append))
    fails(server, target, r"cannot be reached: .*\(behind a proxy, set HTTPS_PROXY to its URL\)")
    assert pauses == [module.PAUSE]  # one more attempt, and soon


def test_a_proxy_is_used(server, target, monkeypatch):
    """The server is a proxy if it gets the whole URL of another server."""
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.setenv("no_proxy", "")
    file = PublishedFile("http://models.invalid/model.bin")
    server.files[file.url] = BYTES
    download(file, target)
    assert_whole(target)


def test_too_little_room_is_noticed_before_the_download(server, target, monkeypatch):
    usage = types.SimpleNamespace(free=SIZE - 1)
    monkeypatch.setattr(module.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(OSError, match="needs 300,000 bytes, but 299,999 are free") as error:
        fetch(server, target)
    assert not isinstance(error.value, DownloadError)
    assert not target.exists()


@pytest.mark.processes
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_download_killed_at_any_step_is_resumed(server, target):
    """The connection breaks once, too. Bytes that were stored are not fetched again."""

    def run():
        fetch(server, target)

    n_resumed = 0
    server.script = [{"cut": 100_000}]
    for step in killed_at_each_step(run):
        assert not target.exists() or target.read_bytes() == BYTES
        part = target.with_name("model.bin.part")
        size = part.stat().st_size if part.exists() else 0
        del server.requests[:], server.script[:]
        in_child(run)
        assert_whole(target)
        assert server.ranges == [f"bytes={size}-" if size else None], step
        n_resumed += bool(size)
        shutil.rmtree(target.parent)
        server.script = [{"cut": 100_000}]
    assert n_resumed >= 2
    assert_whole(target)
