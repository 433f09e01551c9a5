"""Opened files: their content stays readable if the name goes, and a change of content is an
error."""

import gc
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from spacy_elmo.files import OpenedFile
from spacy_elmo.files import opened as module

CONTENT = np.random.default_rng(0).bytes(1000)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="open files cannot be renamed")


@pytest.fixture
def path(tmp_path):
    (tmp_path / "x").write_bytes(CONTENT)
    return tmp_path / "x"


def replace(path):
    path.with_name("y").write_bytes(b"another file")
    path.with_name("y").replace(path)


@pytest.mark.parametrize("act", [Path.unlink, lambda path: path.rename(f"{path}y"), replace])
def test_an_opened_file_is_read_without_its_name(path, act):
    file = OpenedFile(path)
    assert file.is_at_its_path()
    act(path)
    assert not file.is_at_its_path()
    file.check()
    assert file.read().read() == CONTENT


def change(path):
    """Change a byte. The time of the last change differs, too, as it does after a while."""
    seen = path.stat().st_mtime_ns
    with path.open("rb+") as file:
        file.write(b"?")
    os.utime(path, ns=(seen + 1, seen + 1))


WAYS = [lambda path: os.truncate(path, 10), lambda path: os.truncate(path, 1001), change]


@pytest.mark.parametrize("act", WAYS)
def test_a_file_that_was_written_to_is_refused(path, act):
    file = OpenedFile(path)
    act(path)
    for use in (file.read, file.check):
        with pytest.raises(ValueError, match=r"x: .*written to this file"):
            use()


def test_a_change_with_equal_size_and_time_is_noticed(path):
    """Programs cannot set the system's own time of the last change."""
    file, status = OpenedFile(path), path.stat()
    path.chmod(0o600)
    file.check()  # Only the mode has changed.
    path.write_bytes(CONTENT[::-1])
    while path.stat().st_ctime_ns == status.st_ctime_ns:
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(ValueError, match=r"x: .*written to this file"):
        file.check()


@pytest.mark.parametrize("block", [7, 1000])
def test_readers_do_not_disturb_each_other(path, monkeypatch, block):
    """Each reader has its own position, and reads everything even if the system returns less at
    once."""
    monkeypatch.setattr(module, "_BLOCK", block)
    file = OpenedFile(path)
    first, second = file.read(), file.read()
    assert (first.read(3), second.read(), first.read()) == (CONTENT[:3], CONTENT, CONTENT[3:])


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="reads Linux's /proc")
def test_the_file_is_closed_with_the_object(path):
    def descriptors():
        names = (f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd"))
        return sum(os.path.exists(name) and os.path.samefile(name, path) for name in names)

    with pytest.raises(FileNotFoundError, match="nowhere"):
        OpenedFile(path.with_name("nowhere"))
    file = OpenedFile(path)
    assert descriptors() == 1
    assert str(file) == str(path)
    del file
    gc.collect()
    assert descriptors() == 0
