"""Devices, FIFOs and open files as outputs: they get the content, and are not replaced."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from spacy_elmo.files import atomic_stream, atomic_write, is_stream, paths, publish, put_on_disk
from spacy_elmo.files.paths import open_stream

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


def link(folder, target):
    """Make a link to a device."""
    (folder / "link").symlink_to(target)
    return folder / "link"


def test_a_fifo_gets_the_content(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    atomic_write(fifo, "one\n")
    with atomic_stream(fifo) as file:
        file.write(b"two\n")
        put_on_disk(file)
    (tmp_path / "whole").write_text("three\n")
    publish(tmp_path / "whole", fifo)
    assert os.read(reader, 100) == b"one\ntwo\nthree\n"
    os.close(reader)
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    assert set(os.listdir(tmp_path)) == {"fifo", "whole"}


def test_a_link_that_replaces_a_fifo_is_not_followed(tmp_path, monkeypatch):
    """The link appears between the check of the path and its opening."""
    (tmp_path / "mine").write_text("mine")
    os.mkfifo(tmp_path / "fifo")

    def swap(path):
        path.unlink()
        path.symlink_to(tmp_path / "mine")
        return path

    monkeypatch.setattr(paths, "followed", swap)
    with pytest.raises(OSError, match="fifo"):
        open_stream(tmp_path / "fifo")
    assert (tmp_path / "mine").read_text() == "mine"


@pytest.mark.processes
@pytest.mark.parametrize("target", ["/dev/stdout", "/dev/fd/1"])
def test_standard_output_can_be_a_pipe_or_a_file(tmp_path, target):
    """The file is opened as for the shell's `>>`: earlier content stays, and later output
    follows."""
    printed = b"before\ncontent\nafter\n"
    command = [sys.executable, "-c", PRINT, link(tmp_path, target)]
    assert subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout == printed
    (tmp_path / "log").write_bytes(b"earlier\n")
    with (tmp_path / "log").open("ab") as log:
        subprocess.run(command, check=True, stdout=log)
    assert (tmp_path / "log").read_bytes() == b"earlier\n" + printed


def test_files_are_no_streams(tmp_path):
    (tmp_path / "1").write_text("a file whose name is a number")
    assert is_stream(link(tmp_path, "/dev/stdout"))
    assert is_stream(Path(os.devnull))
    for path in (tmp_path / "1", tmp_path, tmp_path / "nothing"):
        assert not is_stream(path)
