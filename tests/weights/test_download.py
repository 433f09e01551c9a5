import gzip
import hashlib
import os
import re
import select
import shutil
import socket
import types
import zipfile
from io import BytesIO

import pytest
from tqdm import tqdm

from spacy_elmo.weights import download as module
from spacy_elmo.weights.download import DownloadError, check, download
from spacy_elmo.weights.published_file import PublishedFile

from helpers import reference
from helpers.file_server import FileServer
from helpers.killed import in_child, killed_at_each_step
from helpers.models import tiny_options

SIZE = 300_000
BYTES = bytes(hashlib.shake_256(b"content").digest(SIZE))


@pytest.fixture
def server():
    server = FileServer()
    server.files["/a/model.bin"] = BYTES
    yield server
    server.close()


@pytest.fixture(autouse=True)
def small_steps(monkeypatch):
    monkeypatch.setattr(module, "PAUSE", 0.001)
    monkeypatch.setattr(module, "CHUNK", 1000)


@pytest.fixture
def target(tmp_path):
    return tmp_path / "cache" / "model.bin"


def fetch(server, target, **known):
    download(PublishedFile(f"{server.url}/a/model.bin", **known), target)


def assert_whole(target, content=BYTES):
    assert target.read_bytes() == content
    assert [path.name for path in target.parent.iterdir()] == [target.name]


def fails(server, target, message, **known):
    with pytest.raises(DownloadError, match=message):
        fetch(server, target, **known)
    assert not target.exists()


def test_whole(server, target):
    fetch(server, target, size=SIZE, md5=hashlib.md5(BYTES).hexdigest())
    assert_whole(target)
    assert server.ranges == [None]


def test_connection_that_breaks_goes_on_where_it_broke(server, target):
    server.script = [{"cut": 100_000}, {"cut": 50_000}]
    fetch(server, target)
    assert_whole(target)
    assert server.ranges == [None, "bytes=100000-", "bytes=150000-"]
    etag = f'"{hash(BYTES)}"'
    assert [headers.get("If-Range") for _, headers in server.requests] == [None, etag, etag]


def test_many_breaks_are_borne_while_something_comes(server, target):
    server.script = [{"cut": 10_000} for _ in range(3 * module.ATTEMPTS)]
    fetch(server, target)
    assert_whole(target)
    assert len(server.requests) == 3 * module.ATTEMPTS + 1


def test_given_up_and_gone_on_with_by_another_call(server, target):
    server.script = [{"cut": 70_000}, *({"cut": 0} for _ in range(module.ATTEMPTS))]
    fails(server, target, "cannot be fetched.* resume after 70,000 bytes")
    assert len(server.requests) == module.ATTEMPTS + 1
    fetch(server, target)
    assert_whole(target)
    assert server.ranges[-1] == "bytes=70000-"


def test_file_that_changed_meanwhile_is_not_mixed(server, target):
    server.script = [{"cut": 70_000}, *({"cut": 0} for _ in range(module.ATTEMPTS))]
    fails(server, target, "cannot be fetched")
    other = server.files["/a/model.bin"] = BYTES[::-1]
    fetch(server, target)
    assert server.ranges[-1] == "bytes=70000-"
    assert_whole(target, other)


@pytest.mark.parametrize("act", [{"ignore_range": True}, {"status": 416, "cut": 0}])
def test_server_without_ranges(server, target, act):
    server.script = [{"cut": 70_000}, act]
    fetch(server, target)
    assert_whole(target)


def test_another_range_than_the_one_asked_for(server, target):
    server.script = [{"cut": 70_000}, {"headers": {"Content-Range": "bytes 5-299999/300000"}}]
    fetch(server, target)
    assert_whole(target)
    assert server.ranges == [None, "bytes=70000-", None]


@pytest.mark.parametrize("etag", [None, 'W/"1"'])
def test_without_a_promise_of_the_version_it_starts_anew(server, target, etag):
    server.script = [{"cut": 70_000, "headers": {"ETag": etag}}]
    fetch(server, target)
    assert_whole(target)
    assert server.ranges == [None, None]


def test_last_modified_is_a_promise_too(server, target):
    date = "Wed, 21 Oct 2015 07:28:00 GMT"
    server.script = [{"cut": 70_000, "headers": {"ETag": None, "Last-Modified": date}}]
    fetch(server, target)
    assert_whole(target)
    assert server.requests[1][1]["If-Range"] == date


def test_part_that_is_whole_already(server, target):
    """A kill between the last byte and the renaming."""
    target.parent.mkdir()
    (target.parent / "model.bin.part").write_bytes(BYTES)
    (target.parent / "model.bin.part.version").write_text(f'"{hash(BYTES)}"')
    fetch(server, target)
    assert_whole(target)
    assert server.ranges == [f"bytes={SIZE}-"]


@pytest.mark.parametrize("version", [None, '"1"'])
@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_what_a_user_has_beside_it_stays(server, target, kind, version):
    target.parent.mkdir()
    part, victim = target.parent / "model.bin.part", target.parent / "victim"
    victim.write_bytes(b"mine")
    if version is not None:
        (target.parent / "model.bin.part.version").write_text(version)
    if kind == "folder":
        part.mkdir()
    elif kind == "link":
        part.symlink_to(victim)
    elif version is None:
        part.write_bytes(b"mine")
    else:
        (target.parent / "model.bin.part.version").unlink()
        (target.parent / "model.bin.part.version").symlink_to(victim)
    with pytest.raises(ValueError, match="is in the way: .* Move it away"):
        fetch(server, target)
    assert victim.read_bytes() == b"mine"
    assert kind != "file" or version is not None or part.read_bytes() == b"mine"
    assert not server.requests


def test_file_without_a_version_is_fetched_anew(server, target):
    """The server gives neither ETag nor date: what arrived before may be of another file."""
    server.script = [{"cut": 70_000, "headers": {"ETag": None}}]
    fetch(server, target)
    assert_whole(target)
    assert server.ranges == [None, None]


def test_slow_replies(server, target):
    server.script = [{"pause": 0.002}]
    fetch(server, target)
    assert_whole(target)
    assert len(server.requests) == 1


def test_replies_that_stall(server, target, monkeypatch):
    """The time is over as soon as the server stops sending."""
    readinto = socket.SocketIO.readinto

    def time_out(stream, buffer):
        if stream._sock.gettimeout() is not None:  # the client's
            assert stream._sock.gettimeout() == module.TIMEOUT[1]
            while True:
                # Read the flag first: what was sent before it was set has arrived by then.
                is_stalled = server.stalled.is_set()
                if select.select([stream._sock], [], [], 0.01)[0]:
                    break
                if is_stalled:
                    server.stalled.clear()
                    raise TimeoutError("timed out")
        return readinto(stream, buffer)

    monkeypatch.setattr(socket.SocketIO, "readinto", time_out)
    server.script = [{"stall": 0}, {"stall": 200_000}]
    fetch(server, target)
    assert_whole(target)
    # At most a chunk is lost of what had come.
    going_on = re.fullmatch(r"bytes=(\d+)-", server.ranges[-1])
    assert 200_000 - module.CHUNK <= int(going_on[1]) <= 200_000


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirected(server, target, status):
    server.files["/elsewhere"] = server.files.pop("/a/model.bin")
    server.script = [{"status": status, "headers": {"Location": "/elsewhere"}}]
    fetch(server, target)
    assert_whole(target)
    assert [path for path, _ in server.requests] == ["/a/model.bin", "/elsewhere"]


def test_redirected_for_ever(server, target):
    server.script = [{"status": 302, "headers": {"Location": "/a/model.bin"}}] * 100
    fails(server, target, "redirects")
    assert len(server.requests) < 50


def test_redirected_out_of_encryption():
    reply = types.SimpleNamespace(
        status_code=200,
        url="https://b/x",
        history=[types.SimpleNamespace(url=url) for url in ("https://a/x", "http://a/x")],
    )
    with pytest.raises(DownloadError, match="without encryption"):
        module._check_status(reply, PublishedFile("https://a/x"))
    module._check_status(reply, PublishedFile("http://a/x"))


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_refused(server, target, status):
    server.script = [{"status": status}]
    fails(server, target, f"HTTP status {status}")
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [429, 500, 503])
def test_refused_for_now(server, target, status):
    server.script = [{"status": status}] * 2
    fetch(server, target)
    assert_whole(target)
    server.script = [{"status": status}] * module.ATTEMPTS
    fails(server, target.with_name("other.bin"), f"HTTP status {status}")


def test_less_than_the_length_that_was_said(target):
    """urllib3 2 sees it itself, urllib3 1 does not."""
    target.parent.mkdir()
    reply = types.SimpleNamespace(
        status_code=200,
        url="http://a/x",
        history=[],
        headers={"Content-Length": "10"},
        iter_content=lambda size: [b"123", b"4567"],
    )
    part = module._Part(target)
    with pytest.raises(module._BrokenOff, match="7 of 10 bytes"):
        module._receive(reply, PublishedFile("http://a/x"), part, tqdm(disable=True))
    assert part.path.read_bytes() == b"1234567"


def test_truncated_without_a_length(server, tmp_path):
    """Only the file itself can tell."""
    datasets = reference.random_datasets(tiny_options())
    content = reference.write_hdf5(tmp_path, tiny_options(), datasets).read_bytes()
    server.files["/w.hdf5"] = content
    target = tmp_path / "cache" / "w.hdf5"
    server.script = [{"cut": len(content) - 100, "headers": {"Content-Length": None}}]
    with pytest.raises(DownloadError, match=r"not a .hdf5 file: .*truncated"):
        download(PublishedFile(f"{server.url}/w.hdf5"), target)
    assert not any(target.parent.iterdir())
    download(PublishedFile(f"{server.url}/w.hdf5"), target)
    assert_whole(target, content)


def zipped(data, compression=zipfile.ZIP_STORED):
    stream = BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        archive.writestr("encoder.pkl", data)
    return stream.getvalue()


@pytest.mark.parametrize("name", ["o.json", "w.hdf5", "m.zip"])
@pytest.mark.parametrize("content", [b"<html>Log in to the network</html>", b"", b"\xff\xfe"])
def test_a_page_in_place_of_the_file(server, tmp_path, name, content):
    server.files[f"/{name}"] = content
    with pytest.raises(DownloadError, match=rf"not a \.{name[2:]} file"):
        download(PublishedFile(f"{server.url}/{name}"), tmp_path / name)
    assert not any(tmp_path.iterdir())


def test_broken_archive(tmp_path):
    content = zipped(b"1234567890" * 10)
    path = tmp_path / "m.zip"
    path.write_bytes(content)
    check(PublishedFile("http://x/m.zip"), path)
    path.write_bytes(content.replace(b"12345", b"12346", 1))
    with pytest.raises(ValueError, match="encoder.pkl in it is broken"):
        check(PublishedFile("http://x/m.zip"), path)
    path.write_bytes(zipped(bytes(10**8), zipfile.ZIP_DEFLATED))
    with pytest.raises(ValueError, match="it claims to contain 100,000,000 bytes"):
        check(PublishedFile("http://x/m.zip"), path)


def test_wrong_size(server, target):
    fails(server, target, "has 300,000 bytes, expected exactly 5", size=5)
    assert not any(target.parent.iterdir())


@pytest.mark.parametrize("known", [{"size": SIZE}, {}])
def test_no_more_arrives_than_may(server, target, monkeypatch, known):
    """Of a reply that does not say its length, and would not end."""
    monkeypatch.setattr(module, "MAX_BYTES", SIZE)
    server.script = [{"repeat": 1}, {"repeat": 1_000_000}]
    fetch(server, target, **known)
    assert_whole(target)
    message = "has more than the expected 300,000 bytes"
    fails(server, target.with_name("other.bin"), message, **known)
    assert_whole(target)
    monkeypatch.setattr(module, "MAX_BYTES", SIZE - 1)
    if not known:
        fails(server, target.with_name("other.bin"), "300,000 bytes, expected at most 299,999")


def test_options_are_small(server, tmp_path):
    server.files["/options.json"] = b" " * 1000
    server.script = [{"repeat": 1_000_000}]
    with pytest.raises(DownloadError, match="has more than the expected 2,097,152 bytes"):
        download(PublishedFile(f"{server.url}/options.json"), tmp_path / "options.json")


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "gzip, gzip"])
def test_what_is_packed_on_the_way_is_refused(server, target, encoding):
    """Though it was asked for as it is; a small one may unpack to any size."""
    server.files["/a/model.bin"] = gzip.compress(bytes(10**7))
    server.script = [{"headers": {"Content-Encoding": encoding}}]
    fails(server, target, f"sends it compressed .Content-Encoding: {encoding}.")
    assert not any(target.parent.iterdir())
    assert server.requests[0][1]["Accept-Encoding"] == "identity"


def test_wrong_checksum(server, target):
    fails(server, target, "MD5", md5="0" * 32)
    assert not any(target.parent.iterdir())


def test_no_server(server, target, monkeypatch):
    server.close()
    pauses = []
    monkeypatch.setattr(module, "time", types.SimpleNamespace(sleep=pauses.append))
    fails(server, target, "cannot be reached")
    assert pauses == [module.PAUSE]  # one more attempt, and soon


def test_full_disk_is_said_before(server, target, monkeypatch):
    usage = types.SimpleNamespace(free=SIZE - 1)
    monkeypatch.setattr(module.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(OSError, match="needs 300,000 bytes, but 299,999 are free") as error:
        fetch(server, target)
    assert not isinstance(error.value, DownloadError)
    assert not target.exists()


def test_what_was_there_stays_until_the_new_one_is_whole(server, target):
    target.parent.mkdir()
    target.write_bytes(b"old")
    server.script = [{"cut": 1000}, *({"cut": 0} for _ in range(module.ATTEMPTS))]
    with pytest.raises(DownloadError):
        fetch(server, target)
    assert target.read_bytes() == b"old"
    fetch(server, target)
    assert_whole(target)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_killed_at_each_step(server, target):
    """Of a fetch whose connection breaks once: what had come is not fetched again."""

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
