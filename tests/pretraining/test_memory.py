import ctypes
import platform

import pytest

from spacy_elmo.pretraining import run

from helpers.commands import run_python

TAKE_AND_FREE = """
import resource
import numpy as np
from spacy_elmo.pretraining.run import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        np.ones(16_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

first = faults()
assert keep_freed_memory()
faults()
print(first, faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc alone can be told")
def test_freed_memory_is_not_taken_anew():
    first, then = map(int, run_python("-c", TAKE_AND_FREE).split())
    assert then < 0.1 * first


def test_elsewhere_nothing_happens(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert run.keep_freed_memory() is False
