"""Devices, FIFOs and open files are written into, and are the same afterwards."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from spacy_elmo.files import atomic_stream, atomic_write, is_stream, publish

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="has other devices")

# By way of a link: if it is replaced, the machine keeps its /dev/stdout.
PRINT = """
import sys
from pathlib import Path
from spacy_elmo.files import atomic_write
print("before")
atomic_write(Path(sys.argv[1]), "content\\n")
print("after")
"""


def run(path, stdout):
    command = [sys.executable, "-c", PRINT, path]
    return subprocess.run(command, check=True, stdout=stdout).stdout


def link(folder, target):
    """Make a link to a device."""
    (folder / "link").symlink_to(target)
    return folder / "link"


def test_fifo(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    atomic_write(fifo, "one\n")
    with atomic_stream(fifo) as file:
        file.write(b"two\n")
    (tmp_path / "whole").write_text("three\n")
    publish(tmp_path / "whole", fifo)
    assert os.read(reader, 100) == b"one\ntwo\nthree\n"
    os.close(reader)
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    assert set(os.listdir(tmp_path)) == {"fifo", "whole"}


def test_null_device(tmp_path):
    path = link(tmp_path, os.devnull)
    atomic_write(path, "content")
    assert path.is_symlink()
    assert stat.S_ISCHR(path.stat().st_mode)
    assert os.listdir(tmp_path) == ["link"]


@pytest.mark.parametrize("target", ["/dev/stdout", "/dev/fd/1"])
def test_standard_output(tmp_path, target):
    assert run(link(tmp_path, target), stdout=subprocess.PIPE) == b"before\ncontent\nafter\n"


def test_standard_output_that_is_a_file(tmp_path):
    """As the shell's `>>` makes it: what is there stays, and what is printed later comes after."""
    (tmp_path / "log").write_text("earlier\n")
    with (tmp_path / "log").open("ab") as log:
        run(link(tmp_path, "/dev/stdout"), stdout=log)
    assert (tmp_path / "log").read_text() == "earlier\nbefore\ncontent\nafter\n"


def test_files_are_no_streams(tmp_path):
    (tmp_path / "1").write_text("a file whose name is a number")
    assert is_stream(link(tmp_path, "/dev/stdout"))
    assert is_stream(Path(os.devnull))
    for path in (tmp_path / "1", tmp_path, tmp_path / "nothing"):
        assert not is_stream(path)
