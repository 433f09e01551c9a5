"""Locks: one holder at a time, until its process ends."""

import errno
import subprocess
import sys
from threading import Event, Thread
from unittest.mock import Mock

import pytest

from spacy_elmo.files import lock

HOLDER = """if True:
    import sys
    from pathlib import Path
    from spacy_elmo.files import lock
    with lock(Path(sys.argv[1])):
        print("held", flush=True)
        sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path):
    (tmp_path / "work").mkdir()
    return tmp_path / "work" / "lock"


def assert_held(path):
    with pytest.raises(BlockingIOError, match="another process"), lock(path):
        pass


def test_a_lock_has_one_holder_at_a_time(path):
    with lock(path), lock(path.with_name("another")):
        assert_held(path)
    with pytest.raises(ZeroDivisionError), lock(path):
        raise ZeroDivisionError
    with lock(path):
        pass


def test_a_second_holder_can_wait(path):
    held, order = Event(), []

    def follow():
        held.wait()
        with lock(path, wait=True):
            order.append("second")

    follower = Thread(target=follow)
    follower.start()
    with lock(path):
        held.set()
        follower.join(0.2)  # a lock that does not wait fails meanwhile
        order.append("first")
    follower.join()
    assert order == ["first", "second"]


@pytest.mark.processes
def test_a_killed_process_releases_its_lock(path):
    command = [sys.executable, "-c", HOLDER, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as holder:
        assert holder.stdout.readline() == "held\n"
        assert_held(path)
        holder.kill()
    with lock(path):
        pass


@pytest.mark.parametrize("error", [OSError(errno.ENOLCK, "No locks"), NotImplementedError("flock")])
def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch, error):
    monkeypatch.setattr("filelock.FileLock.acquire", Mock(side_effect=error))
    refused = pytest.raises(OSError, match="lock: this file system has no locks. Write to another")
    with refused, lock(tmp_path / "lock"):
        pass
