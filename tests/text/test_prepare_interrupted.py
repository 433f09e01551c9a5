"""Preparations that end early or are shared by several calls: in the end the corpus is the same."""

import hashlib
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from spacy_elmo.files import lock, make_ours
from spacy_elmo.text import parts as parts_module
from spacy_elmo.text.corpus import load_text
from spacy_elmo.text.prepare import is_prepared, open_corpus

from helpers.calls import note_calls
from helpers.full_disk import room_for
from helpers.prepared import SMALL, assert_same_text, content, prepare, random_text, sentences_of


@pytest.fixture
def source(tmp_path):
    (tmp_path / "a.txt").write_text(random_text(300), "utf8")
    return tmp_path / "a.txt"


@pytest.mark.corpora
def test_work_is_not_done_twice(source, tmp_path, monkeypatch):
    prepare(source, tmp_path / "whole", **SMALL)
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
        prepare(source, out, **SMALL)
    assert not is_prepared(out)
    with pytest.raises(ValueError, match=r"no manifest\.json.*resume it"):
        open_corpus(out)
    broken, *_ = (out / "unfinished").glob("*.npz")
    broken.write_bytes(broken.read_bytes()[:100])
    prepare(source, out, **SMALL)
    assert content(out) == content(tmp_path / "whole")
    n_done = len(done)
    assert n_done - len(set(done)) == 2  # the one that was interrupted, and the broken one
    prepare(source, out, **SMALL)
    assert len(done) == n_done


@pytest.mark.corpora
def test_damaged_parts_are_made_again(source, tmp_path):
    """One part has the name of another, two have wrong summaries, and one has a flipped bit."""
    out = tmp_path / "out"
    assert prepare(source, out, worker="1/1", **SMALL) is None
    first, second, third, fourth, fifth, *_ = sorted((out / "unfinished").glob("*.npz"))
    second.write_bytes(first.read_bytes())
    for path, summary in ((third, "[3]"), (fourth, "[" * 100_000)):
        with np.load(path) as file:
            arrays = {name: file[name] for name in file}
        np.savez(path, **{**arrays, "summary": np.frombuffer(summary.encode(), "uint8")})
    data = bytearray(fifth.read_bytes())
    data[data.index(b"ids.npy") + 300] ^= 1
    fifth.write_bytes(data)
    with pytest.raises(OSError, match=rf"{fifth} was damaged .* again"):
        prepare(source, out, **SMALL)
    assert_same_text(prepare(source, out, **SMALL), load_text(source))


@pytest.mark.corpora
def test_parts_of_other_settings_are_not_used(source, tmp_path):
    source.write_text("I don't. You do.\n", "utf8")
    prepare(source, tmp_path / "out", worker="1/1", format="text", lang="en", **SMALL)
    corpus = prepare(source, tmp_path / "out", **SMALL)
    assert sentences_of(corpus) == [["I", "don't.", "You", "do."]]


@pytest.mark.corpora
def test_a_preparation_on_a_full_disk_can_be_resumed(tmp_path, source):
    source.write_text(random_text(2000), "utf8")
    out, settings = tmp_path / "out", {"n_process": 1, "chunk_size": 1000}
    full = pytest.raises(OSError, match=f"{re.escape(str(out))} cannot be written.* it resumes")
    with room_for(9000), full:  # enough for the parts, not for the corpus
        prepare(source, out, **settings)
    assert not is_prepared(out)
    assert prepare(source, out, **settings).n_words > 3000


@pytest.mark.corpora
def test_a_second_call_is_refused_while_another_prepares(source, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    make_ours(out / "unfinished")
    refused = pytest.raises(BlockingIOError, match=re.escape(str(out)))
    with lock(out / "unfinished" / "lock"), refused:
        prepare(source, out, **SMALL)
    prepare(source, out, **SMALL)


@pytest.mark.corpora
@pytest.mark.filterwarnings("ignore:.*c.jsonl")
@pytest.mark.parametrize("workers", [("2/3", "3/3", "1/3"), ("2/4",)])
def test_shares_give_the_same_corpus(source, tmp_path, monkeypatch, workers):
    """The last call reads the parts that are missing, and writes the corpus. A late share has
    nothing to do."""
    records = [json.dumps({"tokens": ["It", f"was {i}"]}) for i in range(60)]
    (tmp_path / "c.jsonl").write_text("\n".join([*records[:40], "{", *records[40:]]), "utf8")
    inputs, out = [source, tmp_path / "c.jsonl"], tmp_path / "out"
    settings = {**SMALL, "min_count": 3, "max_size": 40}
    n_read = note_calls(monkeypatch, parts_module, "_read", lambda data, reading: data)
    prepare(inputs, tmp_path / "whole", **settings)
    n_all = len(n_read)
    for worker in workers:
        n_before = len(n_read)
        assert prepare(inputs, out, worker=worker, **settings) is None
        assert abs(len(n_read) - n_before - n_all / int(worker[2:])) < 1
        assert not is_prepared(out)
    assert prepare(inputs, out, **settings) is not None
    assert len(n_read) == 2 * n_all
    assert content(out) == content(tmp_path / "whole")
    assert prepare(inputs, out, worker="2/3", **settings) is not None
    assert len(n_read) == 2 * n_all


SCRIPT = """
import sys
from spacy_elmo.text.prepare import prepare
from spacy_elmo.text.settings import PrepareSettings

if __name__ == "__main__":
    prepare(*sys.argv[1:], PrepareSettings(n_process=2, chunk_size=1000))
"""


@pytest.mark.processes
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_workers_end_with_their_parent(source, tmp_path):
    (tmp_path / "run.py").write_text(SCRIPT, "utf8")
    source.write_text(random_text(2000), "utf8")
    process = subprocess.Popen([sys.executable, tmp_path / "run.py", source, tmp_path / "out"])
    while process.poll() is None and not list(tmp_path.glob("out/unfinished/*.npz")):
        time.sleep(0.0005)
    workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert workers
    process.kill()
    process.wait()
    while any(map(is_running, workers)):  # Workers that are left end the test by its time limit.
        time.sleep(0.02)


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
