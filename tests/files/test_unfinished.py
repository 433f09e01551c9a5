"""What stands beside an output stays, whatever its name; what killed processes left goes."""

import os
import signal
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from spacy_elmo.files import (
    atomic_folder,
    atomic_stream,
    atomic_write,
    delete_ours,
    is_ours,
    make_ours,
    sweep,
)

from helpers.killed import child

posix = pytest.mark.skipif(sys.platform == "win32", reason="forks, and kills")


class Failure(Exception):
    pass


def write_file(path, fails):
    with atomic_stream(path) as file:
        file.write(b"new")
        if fails:
            raise Failure


def write_folder(path, fails):
    with atomic_folder(path) as folder:
        folder.mkdir()
        (folder / "x").write_bytes(b"new")
        if fails:
            raise Failure


def snapshot(folder):
    """Every path below a folder, with the content of files and the targets of links."""
    found = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = os.readlink(path)
        else:
            found[name] = path.read_bytes() if path.is_file() else None
    return found


def killed(run):
    """Kill a child in the middle of what it does."""
    with child(run) as process:
        _, status = os.waitpid(process, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("write", [write_file, write_folder])
def test_neighbors_stay(tmp_path, write, exists, fails):
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "y").write_text("mine")
    for name in ("q.old", "q.part", ".q.spacy-elmo-0123456789abcdef", "q.new", ".q.tmp"):
        (tmp_path / name).mkdir()
    (tmp_path / "q.old" / "x").write_text("mine")
    (tmp_path / "q.part" / "previous").mkdir()
    (tmp_path / ".q.spacy-elmo-0123456789abcdee").symlink_to(victim)
    (tmp_path / ".q.spacy-elmo-0123456789abcded").write_text("mine")
    (tmp_path / "q.whole").write_text("mine")
    before = snapshot(tmp_path)
    if exists:
        write(tmp_path / "q", False)
    with pytest.raises(Failure) if fails else nullcontext():
        write(tmp_path / "q", fails)
    found = snapshot(tmp_path)
    written = {name for name in found if Path(name).parts[0] == "q"}
    assert bool(written) == (exists or not fails)
    assert {name: value for name, value in found.items() if name not in written} == before


@pytest.mark.parametrize("name", ["q.part", "q.old"])
def test_links_beside_an_output_are_not_followed(tmp_path, name):
    (tmp_path / "victim").write_text("mine")
    (tmp_path / name).symlink_to(tmp_path / "victim")
    atomic_write(tmp_path / "q", "new")
    assert (tmp_path / "victim").read_text() == "mine"
    assert (tmp_path / name).is_symlink()


def test_a_link_is_followed_and_stays(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "file").write_text("old")
    (tmp_path / "far" / "folder").mkdir()
    for name in ("file", "folder"):
        (tmp_path / name).symlink_to(Path("far") / name)
    (tmp_path / "dangling").symlink_to(Path("far") / "more")
    write_file(tmp_path / "file", False)
    write_file(tmp_path / "dangling", False)
    write_folder(tmp_path / "folder", False)
    assert snapshot(tmp_path / "far") == {
        "file": b"new",
        "more": b"new",
        "folder": None,
        os.path.join("folder", "x"): b"new",
    }
    assert all((tmp_path / name).is_symlink() for name in ("file", "folder", "dangling"))


def test_links_in_a_circle(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        atomic_write(tmp_path / "a", "new")


@pytest.mark.parametrize("name", ["x" * 255, "ß" * 127])
def test_the_longest_names(tmp_path, name):
    atomic_write(tmp_path / name, "new")
    assert snapshot(tmp_path) == {name: b"new"}


def test_a_folder_in_the_way_is_named(tmp_path):
    (tmp_path / "q").mkdir()
    with pytest.raises(IsADirectoryError) as error:
        atomic_write(tmp_path / "q", "new")
    assert error.value.filename == str(tmp_path / "q")
    assert snapshot(tmp_path) == {"q": None}


@posix
@pytest.mark.parametrize("write", [write_file, write_folder])
def test_what_a_killed_process_left_goes(tmp_path, monkeypatch, write):
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", lambda _: kill())
        patched.setattr(Path, "rename", lambda *_: kill())
        killed(lambda: write(tmp_path / "q", False))
        killed(lambda: write(tmp_path / "other", False))
    left = set(os.listdir(tmp_path))
    assert len(left) == 2
    write(tmp_path / "q", False)
    assert len(left.intersection(os.listdir(tmp_path))) == 1  # of the other output
    sweep(tmp_path)
    assert os.listdir(tmp_path) == ["q"]


@posix
def test_what_another_process_is_writing_stays(tmp_path):
    """The writer waits until the other one has come and gone."""
    (go, going), (done, finished) = os.pipe(), os.pipe()

    def write():
        with atomic_stream(tmp_path / "q") as file:
            os.write(going, b".")
            os.read(done, 1)
            file.write(b"second")

    with child(write) as process:
        assert os.read(go, 1) == b"."
        atomic_write(tmp_path / "q", "first")
        sweep(tmp_path)
        assert (tmp_path / "q").read_text() == "first"
        os.write(finished, b".")
        assert os.waitpid(process, 0)[1] == 0
    assert snapshot(tmp_path) == {"q": b"second"}


@posix
def test_what_another_machine_left_stays(tmp_path, monkeypatch):
    """Its process may be alive."""
    monkeypatch.setattr(os, "fsync", lambda _: kill())
    killed(lambda: write_file(tmp_path / "q", False))
    (left,) = os.listdir(tmp_path)
    monkeypatch.undo()
    (tmp_path / left / ".spacy-elmo").write_text("another-machine")
    write_file(tmp_path / "q", False)
    assert set(os.listdir(tmp_path)) == {"q", left}


@posix
@pytest.mark.parametrize("number", [1, 2])
def test_killed_at_a_renaming_of_a_folder(tmp_path, monkeypatch, number):
    write_folder(tmp_path / "q", False)
    before, count, rename = snapshot(tmp_path), iter(range(1, 9)), Path.rename

    def rename_or_die(path, target):
        if next(count) == number:
            kill()
        return rename(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", rename_or_die)
        killed(lambda: write_folder(tmp_path / "q", False))
    assert (tmp_path / "q").exists() == (number == 1)
    sweep(tmp_path)
    assert snapshot(tmp_path) == before


@posix
@pytest.mark.parametrize("number", [1, 2, 3])
def test_killed_while_a_folder_is_deleted(tmp_path, monkeypatch, number):
    """Its name is free, or it is still known as ours."""
    make_ours(tmp_path / "q.part")
    (tmp_path / "q.part" / "a").write_text("a")
    (tmp_path / "q.part" / "b").write_text("b")
    count, unlink = iter(range(1, 9)), Path.unlink

    def unlink_or_die(path, **how):
        if next(count) == number:
            kill()
        unlink(path, **how)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", unlink_or_die)
        killed(lambda: delete_ours(tmp_path / "q.part"))
    assert not (tmp_path / "q.part").exists()
    make_ours(tmp_path / "q.part")
    delete_ours(tmp_path / "q.part")
    assert not os.listdir(tmp_path)


def test_folders_of_ours(tmp_path):
    make_ours(tmp_path / "ours")
    (tmp_path / "ours" / "x").write_text("x")
    make_ours(tmp_path / "ours")
    assert (tmp_path / "ours" / "x").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "ours")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "marked").mkdir()
    (tmp_path / "marked" / ".spacy-elmo").symlink_to(tmp_path / "file")
    before = snapshot(tmp_path)
    for name in ("mine", "link", "file", "marked"):
        assert not is_ours(tmp_path / name)
        with pytest.raises(ValueError, match=f"{name} is in the way: .* Move it away"):
            make_ours(tmp_path / name)
        delete_ours(tmp_path / name)
    delete_ours(tmp_path / "nowhere")
    assert snapshot(tmp_path) == before
    delete_ours(tmp_path / "ours")
    assert not (tmp_path / "ours").exists()
