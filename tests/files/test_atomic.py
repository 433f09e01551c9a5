"""Files and folders that are written whole or not at all. A user's files beside an output stay,
whatever their names; files of killed processes are deleted."""

import os
import signal
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from spacy_elmo import files
from spacy_elmo.files import unfinished

from helpers.killed import child, killed_at_each_step, left_in

posix = pytest.mark.skipif(sys.platform == "win32", reason="forks, and kills")


def write_file(path, error=None, content=b"new"):
    with files.atomic_stream(path) as file:
        file.write(content)
        if error:
            raise error


def write_folder(path, error=None, content=b"new"):
    with files.atomic_folder(path) as folder:
        folder.mkdir()
        write_file(folder / "x", error, content)


def snapshot(folder):
    """Return every path below a folder, with the content of files and the targets of links."""
    found = {}
    for path in folder.rglob("*"):
        content = path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(folder))] = os.readlink(path) if path.is_symlink() else content
    return found


@pytest.fixture
def on_disk(monkeypatch):
    """Return a list of the files whose content was flushed to disk, in order, and `"replace"` for a
    renaming."""
    events, fsync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: events.append(os.fstat(fd).st_ino) or fsync(fd))
    for name in ("rename", "replace"):
        call = getattr(os, name)
        named = lambda *names, call=call: events.append("replace") or call(*names)  # noqa: E731
        monkeypatch.setattr(os, name, named)
    return events


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("x" * 255, "naïve\n", b"na\xc3\xafve\n"),  # the longest names
        ("ß" * 127, b"\xff\r\n", b"\xff\r\n"),
        ("x", "", b""),
    ],
)
def test_files_are_written_and_replaced(tmp_path, name, content, expected):
    for each, wanted in ((content, expected), (b"other", b"other")):
        files.atomic_write(tmp_path / "new" / "folder" / name, each)
        assert snapshot(tmp_path / "new" / "folder") == {name: wanted}


@pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be replaced there")
def test_a_stream_takes_its_name_at_the_end(tmp_path):
    """A reader of the old file keeps it: the content is replaced by a renaming."""
    (tmp_path / "x").write_bytes(b"old content")
    with (tmp_path / "x").open("rb") as reader:
        assert reader.read(4) == b"old "
        x, y = (files.atomic_stream(tmp_path / name) for name in "xy")
        with x as file, y as other:
            file.write(b"new, ")
            file.flush()
            assert (tmp_path / "x").read_bytes() == b"old content"
            assert not (tmp_path / "y").exists()
            file.write(b"in two pieces")
            other.write(b"another")
        assert reader.read() == b"content"
    assert snapshot(tmp_path) == {"x": b"new, in two pieces", "y": b"another"}


@pytest.mark.skipif(sys.platform == "win32", reason="numbers of files are another thing there")
def test_content_is_on_the_disk_before_the_name(tmp_path, on_disk):
    """After a power cut the name must not belong to an empty file."""
    files.atomic_write(tmp_path / "a", b"content")
    number = (tmp_path / "a").stat().st_ino
    assert on_disk.index(number) < on_disk.index("replace")
    on_disk.clear()
    with files.atomic_folder(tmp_path / "folder") as unfinished:
        for path in (unfinished / "b", unfinished / "in" / "c"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("content")
    numbers = {path.stat().st_ino for path in (tmp_path / "folder").rglob("*") if path.is_file()}
    assert len(numbers) == 2
    assert numbers <= set(on_disk[: on_disk.index("replace")])


def test_folders_are_replaced_whole(tmp_path):
    files.atomic_write(tmp_path / "folder" / "b", b"old")
    with files.atomic_folder(tmp_path / "folder") as unfinished:
        unfinished.mkdir(exist_ok=True)
        (unfinished / "a").write_bytes(b"new")
        assert tmp_path in unfinished.parents  # The last step is a renaming on the same disk.
        assert snapshot(tmp_path / "folder") == {"b": b"old"}
    assert snapshot(tmp_path) == {"folder": None, os.path.join("folder", "a"): b"new"}


def killed(run):
    """Run a function in a child that kills itself in the middle."""
    with child(run) as process:
        assert os.WTERMSIG(os.waitpid(process, 0)[1]) == signal.SIGKILL


def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("error", [None, RuntimeError, KeyboardInterrupt, OSError])
@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("write", [write_file, write_folder])
def test_files_beside_an_output_stay(tmp_path, write, exists, error):
    """The old output stays, too, if there is an error."""
    for name in ("victim", "q.old", "q.part", ".q.spacy-elmo-0123456789abcdef", "q.new", ".q.tmp"):
        (tmp_path / name).mkdir()
    (tmp_path / "q.part" / "previous").mkdir()
    (tmp_path / ".q.spacy-elmo-0123456789abcdee").symlink_to(tmp_path / "victim")
    for name in ("victim/y", "q.old/x", ".q.spacy-elmo-0123456789abcded", "q.whole"):
        (tmp_path / name).write_text("mine")
    neighbors = snapshot(tmp_path)
    if exists:
        write(tmp_path / "q", content=b"old")
    before = snapshot(tmp_path)
    with pytest.raises(error) if error else nullcontext():
        write(tmp_path / "q", error)
    found = snapshot(tmp_path)
    if error:
        assert found == before
    written = {name for name in found if Path(name).parts[0] == "q"}
    assert bool(written) == (exists or not error)
    assert {name: found[name] for name in found.keys() - written} == neighbors


def test_a_link_is_followed_and_stays(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "file").write_text("old")
    (tmp_path / "far" / "folder").mkdir()
    for name in ("file", "folder"):
        (tmp_path / name).symlink_to(Path("far") / name)
    (tmp_path / "dangling").symlink_to(Path("far") / "more")
    write_file(tmp_path / "file")
    write_file(tmp_path / "dangling")
    write_folder(tmp_path / "folder")
    written = {"file": b"new", "more": b"new", "folder": None, os.path.join("folder", "x"): b"new"}
    assert snapshot(tmp_path / "far") == written
    assert all((tmp_path / name).is_symlink() for name in ("file", "folder", "dangling"))


def test_a_folder_and_a_circle_of_links_in_the_way_are_named(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "q").mkdir()
    before = snapshot(tmp_path)
    with pytest.raises(OSError, match="symbolic links"):
        files.atomic_write(tmp_path / "a", "new")
    with pytest.raises(IsADirectoryError) as error:
        files.atomic_write(tmp_path / "q", "new")
    assert error.value.filename == str(tmp_path / "q")
    assert snapshot(tmp_path) == before


@pytest.mark.processes
@posix
@pytest.mark.parametrize("write", [write_file, write_folder])
def test_files_of_a_killed_process_are_deleted(tmp_path, monkeypatch, write):
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", kill)
        patched.setattr(Path, "rename", kill)
        killed(lambda: write(tmp_path / "q"))
        killed(lambda: write(tmp_path / "other"))
    left = set(os.listdir(tmp_path))
    assert len(left) == 2
    write(tmp_path / "q")
    assert len(left.intersection(os.listdir(tmp_path))) == 1  # of the other output
    files.sweep(tmp_path)
    assert os.listdir(tmp_path) == ["q"]


@pytest.mark.processes
@posix
def test_files_that_another_process_is_writing_stay(tmp_path):
    """Meanwhile this process writes the same file and deletes old ones."""
    (go, going), (done, finished) = os.pipe(), os.pipe()

    def write():
        with files.atomic_stream(tmp_path / "q") as file:
            os.write(going, b".")
            os.read(done, 1)
            file.write(b"second")

    with child(write) as process:
        assert os.read(go, 1) == b"."
        files.atomic_write(tmp_path / "q", "first")
        files.sweep(tmp_path)
        assert (tmp_path / "q").read_text() == "first"
        os.write(finished, b".")
        assert os.waitpid(process, 0)[1] == 0
    assert snapshot(tmp_path) == {"q": b"second"}


@pytest.mark.processes
@posix
def test_files_of_another_machine_stay(tmp_path, monkeypatch):
    """The process on that machine may be alive."""
    monkeypatch.setattr(os, "fsync", kill)
    killed(lambda: write_file(tmp_path / "q"))
    (left,) = os.listdir(tmp_path)
    monkeypatch.undo()
    (tmp_path / left / ".spacy-elmo").write_text("another-machine")
    write_file(tmp_path / "q")
    assert set(os.listdir(tmp_path)) == {"q", left}


@pytest.mark.processes
@posix
def test_a_kill_at_any_step_leaves_the_old_folder(tmp_path):
    write_folder(tmp_path / "q")
    before = snapshot(tmp_path / "q")
    for _ in killed_at_each_step(lambda: write_folder(tmp_path / "q")):
        files.sweep(tmp_path)
        assert left_in(tmp_path) == ["q"] and snapshot(tmp_path / "q") == before


@pytest.mark.processes
@posix
def test_a_kill_while_a_folder_is_deleted_leaves_it_whole_or_gone(tmp_path):
    def make():
        files.make_ours(tmp_path / "q.part")
        (tmp_path / "q.part" / "a").write_text("a")
        (tmp_path / "q.part" / "b").write_text("b")

    make()
    for _ in killed_at_each_step(lambda: files.delete_ours(tmp_path / "q.part")):
        part = tmp_path / "q.part"
        assert not part.exists() or sorted(os.listdir(part)) == [".spacy-elmo", "a", "b"]
        make()
    assert left_in(tmp_path) == []


def test_a_link_that_replaces_a_folder_before_its_deletion_is_not_followed(tmp_path, monkeypatch):
    files.make_ours(tmp_path / "q.part")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "x").touch()

    def swap(folder):
        folder.rename(tmp_path / "aside")
        folder.symlink_to(tmp_path / "mine")

    monkeypatch.setattr(unfinished, "put_back", swap)
    files.delete_ours(tmp_path / "q.part")
    assert left_in(tmp_path) == ["aside", "mine", "q.part"]
    assert (tmp_path / "mine" / "x").exists()


def test_only_marked_folders_are_ours(tmp_path):
    files.make_ours(tmp_path / "ours")
    (tmp_path / "ours" / "x").write_text("x")
    files.make_ours(tmp_path / "ours")
    assert (tmp_path / "ours" / "x").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "ours")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "marked").mkdir()
    (tmp_path / "marked" / ".spacy-elmo").symlink_to(tmp_path / "file")
    before = snapshot(tmp_path)
    for name in ("mine", "link", "file", "marked"):
        assert not files.is_ours(tmp_path / name)
        with pytest.raises(ValueError, match=f"{name} is in the way: .* Move it away"):
            files.make_ours(tmp_path / name)
        files.delete_ours(tmp_path / name)
    files.delete_ours(tmp_path / "nowhere")
    assert snapshot(tmp_path) == before
    files.delete_ours(tmp_path / "ours")
    assert not (tmp_path / "ours").exists()
