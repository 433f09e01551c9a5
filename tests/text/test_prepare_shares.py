"""`--worker K/N`: many calls read a share of the text each, and one writes the corpus."""

import json
import subprocess
import sys

import pytest

from spacy_elmo.text import parts as parts_module
from spacy_elmo.text.prepare import is_prepared, prepare

from helpers.calls import note_calls
from helpers.prepared import SMALL, content, random_text

SCRIPT = """
import sys
from spacy_elmo.text.prepare import prepare

if __name__ == "__main__":
    source, output, worker = sys.argv[1:]
    prepare(source, output, worker=worker, n_process=1, chunk_size=1000)
"""


@pytest.fixture
def inputs(tmp_path):
    """Two files of text, and one of JSON of which a line cannot be read."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.txt").write_text(random_text(400), "utf8")
    (folder / "b.txt").write_text("".join(f"x{i} y.\n" for i in range(50)), "utf8")
    records = [json.dumps({"tokens": ["It", f"was {i}"]}) for i in range(60)]
    (folder / "c.jsonl").write_text("\n".join([*records[:40], "{", *records[40:]]), "utf8")
    return folder


@pytest.fixture
def n_read(monkeypatch):
    """The chunks that were read."""
    return note_calls(monkeypatch, parts_module, "_read", lambda data, reading: data)


@pytest.mark.processes
@pytest.mark.filterwarnings("ignore:.*c.jsonl")
def test_shares_make_the_same_corpus(tmp_path, inputs, n_read):
    settings = {**SMALL, "min_count": 3, "max_size": 40}
    prepare(inputs, tmp_path / "whole", **settings)
    n_all = len(n_read)
    for worker, n_process in (("2/3", 1), ("3/3", 2), ("1/3", 1)):
        n_before = len(n_read)
        more = {**settings, "n_process": n_process}
        assert prepare(inputs, tmp_path / "out", worker=worker, **more) is None
        assert n_process > 1 or abs(len(n_read) - n_before - n_all / 3) < 1
        assert not is_prepared(tmp_path / "out")
    del n_read[:]
    assert prepare(inputs, tmp_path / "out", **settings) is not None
    assert not n_read
    assert content(tmp_path / "out") == content(tmp_path / "whole")
    # A share that comes too late has nothing to do.
    assert prepare(inputs, tmp_path / "out", worker="2/3", **settings) is not None
    assert content(tmp_path / "out") == content(tmp_path / "whole")


@pytest.mark.filterwarnings("ignore:.*c.jsonl")
def test_the_last_call_reads_what_others_have_not(tmp_path, inputs, n_read):
    prepare(inputs, tmp_path / "whole", **SMALL)
    n_all = len(n_read)
    prepare(inputs, tmp_path / "out", worker="2/4", **SMALL)
    n_share = len(n_read) - n_all
    prepare(inputs, tmp_path / "out", **SMALL)
    assert len(n_read) == 2 * n_all
    assert abs(n_share - n_all / 4) < 1
    assert content(tmp_path / "out") == content(tmp_path / "whole")


def test_shares_at_once(tmp_path):
    (tmp_path / "run.py").write_text(SCRIPT, "utf8")
    (tmp_path / "a.txt").write_text(random_text(1500), "utf8")
    words = [tmp_path / "run.py", tmp_path / "a.txt", tmp_path / "out"]
    started = [
        subprocess.Popen(
            [sys.executable, *map(str, words), worker], stderr=subprocess.PIPE, text=True
        )
        for worker in ("1/3", "2/3", "3/3")
    ]
    for process in started:
        _, errors = process.communicate()
        assert process.returncode == 0, errors
    settings = {"n_process": 1, "chunk_size": 1000, "shard_size": 3000}
    prepare(tmp_path / "a.txt", tmp_path / "out", **settings)
    prepare(tmp_path / "a.txt", tmp_path / "whole", **settings)
    assert content(tmp_path / "out") == content(tmp_path / "whole")


@pytest.mark.parametrize("worker", ["0/3", "4/3", "1", "a/b"])
def test_no_such_share(tmp_path, worker):
    (tmp_path / "a.txt").write_text("a\n", "utf8")
    with pytest.raises(ValueError, match=f"`worker` must be K/N.*'{worker}'"):
        prepare(tmp_path / "a.txt", tmp_path / "out", worker=worker)
    assert not (tmp_path / "out").exists()
