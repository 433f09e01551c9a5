import hashlib
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from spacy_elmo.files import lock, make_ours
from spacy_elmo.text import parts as parts_module
from spacy_elmo.text import prepare as prepare_module
from spacy_elmo.text.corpus import load_text
from spacy_elmo.text.prepare import is_prepared, open_corpus, prepare

from helpers.prepared import SMALL, assert_same_text, content, random_text, sentences_of

pytestmark = pytest.mark.filterwarnings("error::UserWarning")
linux = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")


def test_work_is_not_done_twice(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text(random_text(300), "utf8")
    prepare(tmp_path / "a.txt", tmp_path / "whole", **SMALL)
    done = []
    read = parts_module._read

    def interrupted(data, reading):
        done.append(hashlib.sha256(data).hexdigest())
        if len(done) == 5:
            raise KeyboardInterrupt
        return read(data, reading)

    monkeypatch.setattr(parts_module, "_read", interrupted)
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        prepare(tmp_path / "a.txt", out, **SMALL)
    assert not is_prepared(out)
    with pytest.raises(ValueError, match=r"no manifest\.json.*resume it"):
        open_corpus(out)
    broken, *_ = (out / "unfinished").glob("*.npz")
    broken.write_bytes(broken.read_bytes()[:100])
    prepare(tmp_path / "a.txt", out, **SMALL)
    assert content(out) == content(tmp_path / "whole")
    again = [chunk for chunk, n in Counter(done).items() if n > 1]
    assert len(again) == 2  # the one that was interrupted, and the broken one
    n_done = len(done)
    prepare(tmp_path / "a.txt", out, **SMALL)
    assert len(done) == n_done


def test_a_part_that_was_damaged(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text(random_text(50), "utf8")
    merge_parts = prepare_module.merge_parts

    def damage_and_merge(folder, parts, *arguments, **settings):
        path = folder / parts[1][1].name
        data = path.read_bytes()
        place = data.index(b"ids.npy") + 300
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        merge_parts(folder, parts, *arguments, **settings)

    monkeypatch.setattr(prepare_module, "merge_parts", damage_and_merge)
    with pytest.raises(OSError, match=r"\.npz was damaged .* again"):
        prepare(tmp_path / "a.txt", tmp_path / "out", **SMALL)
    monkeypatch.undo()
    corpus = prepare(tmp_path / "a.txt", tmp_path / "out", **SMALL)
    assert_same_text(corpus, load_text(tmp_path / "a.txt"))


def test_a_part_under_the_name_of_another(tmp_path, monkeypatch):
    """It is made again, and so is one whose summary is not as it should be."""
    (tmp_path / "a.txt").write_text(random_text(60), "utf8")
    merge_parts = prepare_module.merge_parts
    monkeypatch.setattr(prepare_module, "merge_parts", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        prepare(tmp_path / "a.txt", tmp_path / "out", **SMALL)
    first, second, third, fourth, *_ = sorted((tmp_path / "out" / "unfinished").glob("*.npz"))
    second.write_bytes(first.read_bytes())
    for path, summary in ((third, "[3]"), (fourth, "[" * 100_000)):
        with np.load(path) as file:
            arrays = {name: file[name] for name in file}
        np.savez(path, **{**arrays, "summary": np.frombuffer(summary.encode(), "uint8")})
    monkeypatch.setattr(prepare_module, "merge_parts", merge_parts)
    corpus = prepare(tmp_path / "a.txt", tmp_path / "out", **SMALL)
    assert_same_text(corpus, load_text(tmp_path / "a.txt"))


def test_parts_of_other_settings_are_not_used(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("I don't. You do.\n", "utf8")
    monkeypatch.setattr(prepare_module, "merge_parts", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        prepare(tmp_path / "a.txt", tmp_path / "out", format="text", lang="en", **SMALL)
    monkeypatch.undo()
    corpus = prepare(tmp_path / "a.txt", tmp_path / "out", **SMALL)
    assert sentences_of(corpus) == [["I", "don't.", "You", "do."]]


SCRIPT = """
import resource, sys
from spacy_elmo.text.prepare import prepare

if __name__ == "__main__":
    source, output, n_process, limit = sys.argv[1:]
    if int(limit):
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
    prepare(source, output, n_process=int(n_process), chunk_size=1000, shard_size=3000)
"""


@pytest.fixture
def start(tmp_path):
    """Starts a preparation of `a.txt` into `out` in a process of its own."""
    (tmp_path / "run.py").write_text(SCRIPT, "utf8")
    (tmp_path / "a.txt").write_text(random_text(2000), "utf8")

    def start(n_process=1, limit=0):
        arguments = [tmp_path / "run.py", tmp_path / "a.txt", tmp_path / "out", n_process, limit]
        command = [sys.executable, *map(str, arguments)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, text=True, **pipes)

    return start


def wait_for(process, folder, pattern, n=1):
    """Wait for so many files, or for the end of the process."""
    while process.poll() is None and len(list(folder.glob(pattern))) < n:
        time.sleep(0.0005)


@linux
def test_workers_end_with_their_parent(start, tmp_path):
    process = start(2)
    wait_for(process, tmp_path / "out" / "unfinished", "*.npz")
    workers = children(process)
    assert workers
    process.kill()
    process.communicate()
    for _ in range(200):
        if not any(map(is_running, workers)):
            return
        time.sleep(0.02)
    raise AssertionError("workers are left")


def children(process):
    return [int(pid) for pid in (task_of(process.pid) / "children").read_text().split()]


def is_running(pid):
    try:
        return (task_of(pid) / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def task_of(pid):
    return Path(f"/proc/{pid}/task/{pid}")


@linux
def test_a_worker_that_is_killed(tmp_path, start):
    process = start(2)
    wait_for(process, tmp_path / "out" / "unfinished", "*.npz")
    for worker in children(process):
        os.kill(worker, signal.SIGKILL)
    _, errors = process.communicate()
    assert process.returncode == 0 or "a worker process was killed" in errors
    prepare(tmp_path / "a.txt", tmp_path / "out", **SMALL)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit of the size of files")
def test_a_full_disk(tmp_path, start):
    process = start(limit=9000)  # enough for the parts, not for the corpus
    _, errors = process.communicate()
    assert process.returncode == 1
    assert "OSError" in errors and f"{tmp_path / 'out'} cannot be written" in errors
    assert "it resumes" in errors
    assert not is_prepared(tmp_path / "out")
    assert prepare(tmp_path / "a.txt", tmp_path / "out", **SMALL).n_words > 3000


def test_what_a_user_has_there_stays(tmp_path):
    """A folder `unfinished`, which may be of an earlier version, and arrays."""
    (tmp_path / "a.txt").write_text("a b\n", "utf8")
    (tmp_path / "out" / "unfinished").mkdir(parents=True)
    (tmp_path / "out" / "unfinished" / "draft").write_text("mine")
    (tmp_path / "out" / "mine.npy").write_text("mine")
    with pytest.raises(ValueError, match="unfinished is in the way"):
        prepare(tmp_path / "a.txt", tmp_path / "out", **SMALL)
    assert (tmp_path / "out" / "unfinished" / "draft").exists()
    (tmp_path / "out" / "unfinished").rename(tmp_path / "away")
    with pytest.raises(ValueError, match="out contains other files"):
        prepare(tmp_path / "a.txt", tmp_path / "out", **SMALL)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine.npy"]


def test_two_at_a_time(tmp_path):
    (tmp_path / "a.txt").write_text("a b\n", "utf8")
    (tmp_path / "out").mkdir()
    make_ours(tmp_path / "out" / "unfinished")
    with (
        lock(tmp_path / "out" / "unfinished" / "lock"),
        pytest.raises(BlockingIOError, match=re.escape(str(tmp_path / "out"))),
    ):
        prepare(tmp_path / "a.txt", tmp_path / "out", **SMALL)
    prepare(tmp_path / "a.txt", tmp_path / "out", **SMALL)
