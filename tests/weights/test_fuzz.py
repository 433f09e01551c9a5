"""A short version of `make fuzz`, and that it sees what it is there to see."""

import multiprocessing
import os
import sys
import threading
from multiprocessing.connection import Connection, wait
from types import SimpleNamespace

import pytest

from helpers import fuzz
from helpers.mutated_models import FORMATS
from helpers.mutations import Mutation


def grown(name):
    return [(name, number, True) for number in range(len(FORMATS[name].growths))]


def test_mutated_files_and_structures_that_grew():
    """The latter are all refused."""
    mutated = [(name, number, False) for name in FORMATS for number in range(30)]
    more = [job for name in FORMATS if name != "old manylangs" for job in grown(name)]
    for name, summary in fuzz.run(mutated + more, seed=1).items():
        n_grown = sum(job[0] == name for job in more)
        assert not summary.wrong
        assert summary.counts["refused"] >= 15 + n_grown, name
        assert summary.counts.total() == 30 + n_grown, name


@pytest.mark.slow
def test_structures_that_grew_in_pickles_of_old_pytorch():
    summary = fuzz.run(grown("old manylangs"))["old manylangs"]
    assert (summary.wrong, summary.counts) == ([], {"refused": len(grown("old manylangs"))})


CLOCK = [0.0]  # seconds of the processor's time
MODEL = SimpleNamespace(bilm=SimpleNamespace(embed=lambda sentences: None))


def outcome(monkeypatch, tmp_path, read, must_raise=False):
    monkeypatch.setattr(fuzz, "read_bundle", read)
    monkeypatch.setattr(fuzz, "time", SimpleNamespace(process_time=lambda: CLOCK[0]))
    return fuzz.read_once(tmp_path, tmp_path, Mutation("", must_raise)).result


def take_long(path):
    CLOCK[0] += fuzz.MOST_SECONDS + 0.1
    return MODEL


def refuse(path):
    raise ValueError(f"{path}: broken")


def refuse_without_a_name(path):
    raise ValueError("broken")


@pytest.mark.parametrize(
    ("read", "must_raise", "result"),
    [
        (lambda path: MODEL, False, "read"),
        (lambda path: MODEL, True, "read, but it should have been refused"),
        (refuse, True, "refused"),
        (refuse_without_a_name, True, "no file named"),
        (lambda path: {}["x"], False, "KeyError"),
        (take_long, False, "took 2.1 seconds"),
    ],
)
def test_outcomes(monkeypatch, tmp_path, read, must_raise, result):
    assert outcome(monkeypatch, tmp_path, read, must_raise).startswith(result)


def test_import_is_seen(monkeypatch, tmp_path):
    (tmp_path / "nobody_imported_me.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)

    def read(path):
        import nobody_imported_me  # noqa: F401

        return MODEL

    assert outcome(monkeypatch, tmp_path, read) == "imported nobody_imported_me"


@pytest.mark.skipif(fuzz.peak_megabytes() == 0.0, reason="this system does not tell")
def test_memory_is_seen(monkeypatch, tmp_path):
    monkeypatch.setattr(fuzz, "MOST_MEGABYTES", 50)
    peak = int(fuzz.peak_megabytes()) + 60  # no less, for that is what a process has had

    def read(path):
        assert len(b"x" * (peak * 2**20))
        return MODEL

    assert outcome(monkeypatch, tmp_path, read).startswith("took ")


@pytest.mark.skipif(sys.platform != "linux", reason="the stand-in cannot be sent to a process")
@pytest.mark.parametrize("result", ["the process died (7)", "hangs"])
def test_a_process_that_dies_or_hangs_is_replaced(monkeypatch, result):
    """The time is over as soon as the process says that it hangs."""
    hanging, hangs = multiprocessing.Pipe(duplex=False)

    def poll(connection, timeout):
        assert timeout == fuzz.HANGS_AFTER
        ready = wait([connection, hanging])
        return connection in ready or not hanging.recv()

    def work(jobs, seed, first, connection):
        for number in range(first, len(jobs)):
            connection.send(Mutation(f"number {number}", True))
            if number == 4:
                if result != "hangs":
                    os._exit(7)
                hangs.send(True)
                threading.Event().wait()
            connection.send(fuzz.Outcome("refused", 0.0, 0.0))

    monkeypatch.setattr(fuzz, "work", work)
    monkeypatch.setattr(fuzz, "START", "fork")
    monkeypatch.setattr(Connection, "poll", poll)
    summaries = fuzz.run([(name, number, False) for name in ("one", "two") for number in range(3)])
    assert summaries["one"].counts == {"refused": 3}
    assert summaries["two"].counts == {"refused": 2}
    assert summaries["two"].wrong == [f"two 1 (number 4): {result}"]
