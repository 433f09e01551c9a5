"""Weights that stay in their file: a model keeps only the arrays that it computes with, and reads
the others later."""

import copy
import dataclasses
import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import spacy

from spacy_elmo.bilm.model import BiLM
from spacy_elmo.weights import read_weights, safetensors_file

from helpers.commands import run_python
from helpers.models import SENTENCES, check_refused, tiny_bilm, write_allennlp
from helpers.reference_manylangs import write_random
from helpers.rounding import rounding_of
from helpers.runs import assert_same_arrays

pytestmark = pytest.mark.skipif(not hasattr(os, "pread"), reason="such weights stay in memory")
TEXT = "The bank lends money . He swims by the bank ."


def write_safetensors(bilm, folder):
    safetensors_file.write(bilm, folder / "a.safetensors")
    return folder / "a.safetensors"


def write_manylangs(_, folder):
    return write_random(folder / "m")


@pytest.fixture(params=[write_safetensors, write_allennlp, write_manylangs])
def path(request, tmp_path):
    return request.param(tiny_bilm(), tmp_path)


def file_of(path):
    return path if path.is_file() else path / "encoder.pkl"


def delete(path):
    for file in [path] if path.is_file() else path.iterdir():
        file.unlink()


def layers(bilm):
    return np.hstack(bilm.embed(SENTENCES, "warm")[0])


def same(bilm, other):
    assert list(bilm.arrays()) == list(other.arrays())
    assert_same_arrays(bilm.arrays(), other.arrays())


def is_away(bilm):
    return bilm._weights._arrays is None


def both(path, has_run=False):
    """Return the model, another with its weights in memory, and their vectors."""
    bilm, other = read_weights(path), BiLM.from_frozen(read_weights(path)).freeze()
    if has_run:
        layers(bilm)
    return bilm, other, layers(other)


def test_vectors_are_the_same_and_the_weights_stay_in_their_file(path):
    bilm, other, expected = both(path)
    np.testing.assert_array_equal(layers(bilm), expected)
    assert is_away(bilm) and not is_away(other)
    assert bilm.checksum() == other.checksum()
    same(bilm, other)
    lower, other_lower = (each.replace(precision="bfloat16") for each in (bilm, other))
    np.testing.assert_array_equal(layers(lower), layers(other_lower))
    assert is_away(bilm)
    delete(path)
    lower, other_lower = bilm.first_layers(1), other.first_layers(1)
    np.testing.assert_array_equal(layers(lower), expected[:2])
    assert is_away(lower) and is_away(bilm)
    same(lower, other_lower)


@pytest.mark.parametrize("has_run", [False, True])
def test_a_thawed_module_has_its_own_weights(path, has_run):
    """Changes of the module do not change the model."""
    bilm, other, expected = both(path, has_run)
    module = BiLM.from_frozen(bilm).requires_grad_(False)
    for weight in module.parameters():
        weight.mul_(0.5)
    same(bilm, other)
    np.testing.assert_array_equal(layers(bilm), expected)
    assert module.checksum() == module.freeze().checksum() != bilm.checksum()
    assert is_away(bilm)


@pytest.mark.parametrize("has_run", [False, True])
def test_the_file_can_be_deleted(path, has_run):
    """`tests/files/test_opened.py` also renames and replaces an open file."""
    bilm, other, expected = both(path, has_run)
    file_of(path).unlink()
    written = safetensors_file.from_bytes(safetensors_file.to_bytes(bilm))
    assert written.provenance == bilm.provenance
    for one in (written, copy.deepcopy(bilm), pickle.loads(pickle.dumps(bilm))):
        same(one, other)
        assert not is_away(one)
        atol = rounding_of(one.kernel)
        np.testing.assert_allclose(layers(one), expected, rtol=0, atol=atol)
    layers(bilm.replace(precision="int8"))  # the weights are laid out again
    same(bilm, other)


def test_a_changed_file_is_an_error_only_for_its_weights(path):
    """The model still computes, and an error says that its weights are lost."""
    bilm, _, expected = both(path, has_run=True)
    os.truncate(file_of(path), 100)
    copies = (lambda: BiLM.from_frozen(bilm), lambda: pickle.dumps(bilm))
    for ask in (bilm.arrays, bilm.checksum, *copies):
        check_refused(ask, file_of(path), "written to")
    np.testing.assert_array_equal(layers(bilm), expected)


def test_a_file_replaced_while_it_is_read_gives_the_new_weights(tmp_path, monkeypatch):
    path, read = write_safetensors(tiny_bilm(), tmp_path), safetensors_file.read_file

    def replacing(file):
        write_safetensors(tiny_bilm(1), tmp_path)
        return read(file)

    monkeypatch.setattr(safetensors_file, "read_file", replacing)
    bilm = read_weights(path)
    layers(bilm)
    assert not is_away(bilm)
    same(bilm, tiny_bilm(1))


@pytest.mark.threads
def test_threads_can_compute_and_read_weights_together(path):
    bilm, other, expected = both(path)
    start = threading.Barrier(8)

    def run(number):
        start.wait()
        for _ in range(5):
            if number == 7:
                same(bilm, other)
            np.testing.assert_allclose(layers(bilm), expected, rtol=0, atol=1e-5)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(run, range(8)))


# Pipelines


def elmo_of(weights, **settings):
    nlp = spacy.blank("en")
    return nlp, nlp.add_pipe("elmo", config={"weights": str(weights), **settings})


@pytest.mark.pipelines
def test_a_pipeline_is_written_without_its_path(path, tmp_path):
    nlp, pipe = elmo_of(path)
    expected = nlp(TEXT).tensor
    delete(path)
    nlp.to_disk(tmp_path / "first")
    assert is_away(pipe.bilm)
    again = spacy.load(tmp_path / "first")
    np.testing.assert_array_equal(again(TEXT).tensor, expected)
    again.to_disk(tmp_path / "first")  # over the file that its weights are in
    again.to_disk(tmp_path / "second")
    from_bytes = spacy.blank("en")
    from_bytes.add_pipe("elmo", config={"weights": None})
    from_bytes.from_bytes(again.to_bytes())
    assert is_away(again.get_pipe("elmo").bilm)
    np.testing.assert_array_equal(from_bytes(TEXT).tensor, expected)
    assert not is_away(from_bytes.get_pipe("elmo").bilm)
    files = [tmp_path / name / "elmo" / "model.safetensors" for name in ("first", "second")]
    same(*map(read_weights, files))
    delete(files[0])
    again.get_pipe("elmo").frozen = False
    assert all(weight.requires_grad for weight in again.get_pipe("elmo").bilm.parameters())
    np.testing.assert_allclose(again(TEXT).tensor, expected, rtol=0, atol=1e-5)


@pytest.mark.training
@pytest.mark.pipelines
def test_layers_are_stored_without_the_file(path):
    """The layers belong to the weights' checksum, which needs no file later."""
    nlp, pipe = elmo_of(path, store_layers=True)
    nlp.initialize()
    nlp("One .")
    os.truncate(file_of(path), 0)
    assert len(nlp(TEXT)._.elmo[0]) == len(TEXT.split())
    check_refused(nlp.to_bytes, file_of(path), "written to")
    assert is_away(pipe.bilm)


SCRIPT = """
import sys
from concurrent.futures import ThreadPoolExecutor
import spacy
from spacy.training import Example

def memory():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024

def made(weights):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"weights": weights})
    for name in ("elmo_crf", "elmo_coref"):
        nlp.add_pipe(name)
    doc = nlp.make_doc("A few words . A few")
    gold = {"entities": [(0, 5, "WORDS")], "spans": {"coref_clusters_1": [(0, 5), (14, 19)]}}
    nlp.initialize(lambda: [Example.from_dict(doc, gold)])
    nlp("A few words .")
    return nlp

other, before = made(sys.argv[1]), memory()
nlp = made(sys.argv[2])
at_rest = memory() - before
nlp.to_bytes()
nlp("A few words .")
after_bytes = memory() - before
with ThreadPoolExecutor(8) as pool:
    for _ in pool.map(nlp, ["A few words ."] * 80):
        pass
print(at_rest, after_bytes, memory() - before)
"""


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's /proc")
def test_components_and_threads_share_one_copy_of_the_weights(tiny_weights, tmp_path):
    """`elmo` and two components that listen need the memory of one model, with eight threads."""
    config = tiny_bilm().config
    larger = dataclasses.replace(config, lstm_dim=2048, projection_dim=512)
    path = write_safetensors(BiLM(larger).freeze(), tmp_path)
    size = path.stat().st_size / 2**20
    at_rest, *later = map(float, run_python("-c", SCRIPT, tiny_weights, path).split())
    print(f"{size:.0f} MB of weights: {at_rest:.0f} MB, then {later} MB")
    assert size > 100
    assert 0.8 * size < at_rest < 1.25 * size
    assert max(later) < 1.25 * size
