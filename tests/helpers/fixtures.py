"""Fixtures of all tests: tiny models on disk, and the corpora beside the checkout."""

import gc
import logging
import os
import random
import subprocess
import sys
from functools import cache, partial, wraps
from pathlib import Path

import catalogue
import confection
import numpy as np
import pytest
import spacy
import srsly
import torch
import typer.main
from hypothesis import settings

from spacy_elmo.frozen.kernel import find_kernel
from spacy_elmo.weights import download

from . import kernel_calls, profiles, reference, tokenizers
from .calls import note_calls
from .file_server import FileServer
from .models import TINY_OPTIONS, write_tiny

kernel_calls.note_calls()
tokenizers.leave_out_special_cases()
# Each lookup of a function goes through the entry points of all packages, one by one: a sixth of
# the time of tests that build pipelines. catalogue also reads a table of them by group.
catalogue.AVAILABLE_ENTRY_POINTS = {
    group: list(catalogue.AVAILABLE_ENTRY_POINTS.select(group=group))
    for group in catalogue.AVAILABLE_ENTRY_POINTS.groups
}
# srsly asks these two for all functions at each message that it reads or writes.
for registry in (srsly.msgpack_encoders, srsly.msgpack_decoders):
    registry.get_all = cache(registry.get_all)
# confection asks for the signature of each function in a config, each time it reads one.
confection.Schema.from_function = cache(confection.Schema.from_function)
# `typer.testing`, which is imported later, makes all commands of an app again for each call.
typer.main.get_command = cache(typer.main.get_command)
# With its option `log_level`, pytest would set this level and the old one in turn, six times for
# each test.
logging.getLogger().setLevel(logging.INFO)
settings.load_profile(profiles.REPEATABLE)
# No test cuts the power. On some disks a file that was synced takes milliseconds to delete, which
# was a fifth of the time.
os.fsync = os.fstat
SHARED = Path(__file__).resolve().parents[3] / "shared"


_started = []
_popen = subprocess.Popen.__init__


@wraps(_popen)
def _noted_popen(self, args, *others, **settings):
    """Note what a test starts. Libraries start other programs, to ask about the machine."""
    program = args if isinstance(args, str | os.PathLike) else args[0]
    if (settings.get("executable") or program) in (sys.executable, "bash"):
        _started.append(program)
    _popen(self, args, *others, **settings)


# An audit hook would be called at each `id()`, which copies of configs call a lot.
subprocess.Popen.__init__ = _noted_popen
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(before=lambda: _started.append("fork"))


# Nearly all objects that imports make stay, so collections would find nothing until the end of
# pytest's own collection.
gc.disable()


def pytest_collection_finish():
    """Spare each garbage collection, and each fork, the million objects of the libraries.

    Tests make and drop many small objects, and import more of the large libraries. So collections
    are rarer than by default.
    """
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
    gc.enable()


@pytest.fixture(autouse=True)
def no_process_without_a_mark(request):
    """Fail a test that starts a process without the mark, so that `make check` stays fast."""
    _started.clear()
    yield
    if _started and request.node.get_closest_marker("processes") is None:
        pytest.fail("it starts a process: mark it with @pytest.mark.processes")


@pytest.fixture(scope="session", autouse=True)
def no_cache_of_the_user(tmp_path_factory):
    """Nothing is read from the user's cache folder, and nothing is left there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPACY_ELMO_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def _fix_random_seed():
    """Do what `spacy.util.fix_random_seed` does.

    Without a GPU, it takes long, because PyTorch notes who called it, for a GPU that is used later.
    """
    if torch.cuda.is_available():
        spacy.util.fix_random_seed()
        return
    random.seed(0)
    np.random.seed(0)
    torch.default_generator.manual_seed(0)


@pytest.fixture(autouse=True)
def seeded():
    """Every test draws the same numbers, whatever ran before it."""
    _fix_random_seed()


def pytest_fixture_setup(fixturedef):
    """Seed what several tests share, which is made before `seeded` is asked for."""
    if fixturedef.scope != "function":
        _fix_random_seed()


@pytest.fixture(scope="session")
def tiny_weights(tmp_path_factory):
    """The `.hdf5` file of a tiny language model with random weights."""
    return reference.write_random(tmp_path_factory.mktemp("tiny"), TINY_OPTIONS, seed=1)


@pytest.fixture(scope="session")
def narrow_weights(tmp_path_factory):
    """The `.hdf5` file of another model: one LSTM layer, vectors of 10 numbers."""
    return write_tiny(tmp_path_factory.mktemp("narrow"), seed=2, n_layers=1)


@pytest.fixture(scope="session")
def shared():
    """The folder of corpora."""
    if not SHARED.is_dir():
        pytest.skip("the corpora are not beside this checkout")
    return SHARED


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The test's own folder, in which it runs."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def server(here, monkeypatch):
    """A server on this machine, for downloads without pauses into a cache of the test's own."""
    monkeypatch.setattr(download, "PAUSE", 0.001)
    monkeypatch.setenv("SPACY_ELMO_CACHE", str(here / "cache"))
    server = FileServer()
    yield server
    server.close()


@pytest.fixture
def special_cases(monkeypatch):
    """Gives tokenizers all of spaCy's special cases that are in a text, as those of readers."""
    return partial(tokenizers.leave_out_special_cases, put=monkeypatch.setattr)


@pytest.fixture
def make_nlp(tiny_weights):
    """Makes a blank pipeline with an `elmo` pipe of the tiny model."""

    def make(**config):
        nlp = spacy.blank("en")
        nlp.add_pipe("elmo", config={"weights": str(tiny_weights), **config})
        return nlp

    return make


@pytest.fixture
def all_precisions(monkeypatch):
    """Every precision counts as fast, whatever the processor has."""
    monkeypatch.setattr(find_kernel(), "fast_types", ("bfloat16", "int8"))


@pytest.fixture
def computed(monkeypatch):
    """The tokens of every sequence that the language model runs over."""
    from spacy_elmo.bilm.model import BiLM
    from spacy_elmo.frozen.model import FrozenBiLM

    sequences = []

    def note(self, sentences, *_, **__):
        sequences.extend(tuple(sentence) for sentence in sentences if sentence)

    for kind in (BiLM, FrozenBiLM):
        note_calls(monkeypatch, kind, "embed", note)
    return sequences
