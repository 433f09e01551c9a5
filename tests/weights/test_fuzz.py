"""Short version of `make fuzz`, and a check that the fuzzer notices slow, large and wrong
readers."""

from importlib import import_module
from types import SimpleNamespace

import pytest

from helpers import fuzz
from helpers.mutated_models import FORMATS
from helpers.mutations import Mutation


@pytest.mark.processes
def test_mutated_files_are_read_or_refused():
    """Files with structures that grew are all refused."""
    mutated = [(name, number, False) for name in FORMATS for number in range(30)]
    grown = [(name, i, True) for name in FORMATS for i in range(len(FORMATS[name].growths))]
    counts, wrong = fuzz.run(mutated + grown, seed=1)
    assert not wrong
    assert counts.total() == len(mutated + grown)
    for name, form in FORMATS.items():
        assert counts[name, "refused"] >= 15 + len(form.growths), name


CLOCK = [0.0]  # seconds of the processor's time
MODEL = SimpleNamespace(bilm=SimpleNamespace(embed=lambda sentences: None))


def take_long(path):
    CLOCK[0] += fuzz.MOST_SECONDS + 0.1
    return MODEL


def take_memory(path):
    peak = int(fuzz.peak_megabytes()) + 60  # no less, for that is what a process has had
    assert len(b"x" * (peak * 2**20))
    return MODEL


def refuse(path, message="{}: broken"):
    raise ValueError(message.format(path))


def test_the_fuzzer_names_every_wrong_outcome(monkeypatch, tmp_path):
    monkeypatch.setattr(fuzz, "time", SimpleNamespace(process_time=lambda: CLOCK[0]))
    monkeypatch.setattr(fuzz, "MOST_MEGABYTES", 50)
    (tmp_path / "nobody_imported_me.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    for read, must_raise, result in (
        (lambda path: MODEL, False, "read"),
        (lambda path: MODEL, True, "read, but it should have been refused"),
        (refuse, True, "refused"),
        (lambda path: refuse(path, "broken"), True, "no file named"),
        (lambda path: {}["x"], False, "KeyError"),
        (take_long, False, "took 2.1 seconds"),
        (lambda path: import_module("nobody_imported_me"), False, "imported nobody_imported_me"),
        *([(take_memory, False, "took ")] if fuzz.peak_megabytes() else []),
    ):
        monkeypatch.setattr(fuzz, "read_bundle", read)
        found = fuzz.read_once(tmp_path, tmp_path, Mutation("", must_raise))
        assert found.startswith(result)
