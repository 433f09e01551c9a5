"""Files and folders are whole, or as they were. How they are named until then is tested nowhere."""

import os
import sys

import pytest

from spacy_elmo.files import atomic_folder, atomic_stream, atomic_write, put_on_disk


class Stopped(Exception):
    pass


def tree(folder):
    """The files below a folder, by path, and their content."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture
def on_disk(monkeypatch):
    """The files whose content was sent to the disk, in order, and `"replace"` for a renaming."""
    events, fsync, replace = [], os.fsync, os.replace

    def note_fsync(descriptor):
        events.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    def note_replace(source, target):
        events.append("replace")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "replace", note_replace)
    return events


@pytest.mark.parametrize(
    ("content", "expected"), [("naïve\n", b"na\xc3\xafve\n"), (b"\xff\r\n", b"\xff\r\n"), ("", b"")]
)
def test_write(tmp_path, content, expected):
    atomic_write(tmp_path / "new" / "folder" / "x", content)
    assert tree(tmp_path) == {"new/folder/x".replace("/", os.sep): expected}
    atomic_write(tmp_path / "new" / "folder" / "x", b"other")
    assert list(tree(tmp_path).values()) == [b"other"]


def test_stream_takes_its_name_at_the_end(tmp_path):
    (tmp_path / "x").write_bytes(b"old")
    with atomic_stream(tmp_path / "x") as file, atomic_stream(tmp_path / "y") as other:
        file.write(b"new, ")
        file.flush()
        assert (tmp_path / "x").read_bytes() == b"old"
        assert not (tmp_path / "y").exists()
        file.write(b"in two pieces")
        other.write(b"another")
    assert tree(tmp_path) == {"x": b"new, in two pieces", "y": b"another"}


@pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be replaced there")
def test_reader_of_the_old_file_keeps_it(tmp_path):
    """The content is replaced by a renaming, not written over."""
    (tmp_path / "x").write_bytes(b"old content")
    with (tmp_path / "x").open("rb") as reader:
        assert reader.read(4) == b"old "
        atomic_write(tmp_path / "x", b"new")
        assert reader.read() == b"content"


@pytest.mark.parametrize("kind", [Stopped, KeyboardInterrupt, OSError])
@pytest.mark.parametrize("before", [{}, {"x": b"old"}])
def test_stream_that_fails_leaves_what_was_there(tmp_path, kind, before):
    for name, content in before.items():
        (tmp_path / name).write_bytes(content)

    def write():
        with atomic_stream(tmp_path / "x") as file:
            file.write(b"half")
            raise kind

    with pytest.raises(kind):
        write()
    assert tree(tmp_path) == before
    assert {path.name for path in tmp_path.iterdir()} == set(before)


def test_content_is_on_the_disk_before_the_name(tmp_path, on_disk):
    """After a power cut the name may not stand for an empty file."""
    atomic_write(tmp_path / "x", b"content")
    number = (tmp_path / "x").stat().st_ino
    assert on_disk.index(number) < on_disk.index("replace")


@pytest.mark.skipif(sys.platform == "win32", reason="numbers of files are another thing there")
def test_put_on_disk(tmp_path, on_disk):
    for name in "abc":
        (tmp_path / name).write_text(name)
    put_on_disk(tmp_path / "a")
    assert on_disk == [(tmp_path / "a").stat().st_ino]
    put_on_disk(tmp_path)
    assert {(tmp_path / name).stat().st_ino for name in "abc"} <= set(on_disk[1:])


@pytest.mark.parametrize("before", [{}, {"a": b"old", "b": b"old, too"}])
def test_folder(tmp_path, before):
    target = tmp_path / "folder"
    for name, content in before.items():
        target.mkdir(exist_ok=True)
        (target / name).write_bytes(content)
    with atomic_folder(target) as unfinished:
        unfinished.mkdir(exist_ok=True)
        (unfinished / "a").write_bytes(b"new")
        assert tmp_path in unfinished.parents  # The last step is a renaming on the same disk.
        assert tree(target) == before
    assert (target / "a").read_bytes() == b"new"
    assert not (target / "b").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize("kind", [Stopped, KeyboardInterrupt, OSError])
@pytest.mark.parametrize("before", [{}, {"a": b"old"}])
def test_folder_that_fails_leaves_what_was_there(tmp_path, kind, before):
    target = tmp_path / "folder"
    for name, content in before.items():
        target.mkdir()
        (target / name).write_bytes(content)

    def write():
        with atomic_folder(target) as unfinished:
            unfinished.mkdir(exist_ok=True)
            (unfinished / "a").write_bytes(b"half")
            raise kind

    with pytest.raises(kind):
        write()
    assert tree(tmp_path) == {os.path.join("folder", name): text for name, text in before.items()}
    assert target.exists() == bool(before)
