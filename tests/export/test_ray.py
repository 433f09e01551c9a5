"""Shards and tables made by the processes of a Ray cluster, which is started once because a start
takes long."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

import spacy_elmo.export.sharding as sharding
from spacy_elmo.export import Embedder
from spacy_elmo.export.ray_workers import _call

from helpers.embedded import embed_corpus
from helpers.killed_worker import killed_at_tenth
from helpers.prepared import content, random_text
from helpers.written_vectors import SENTENCES, assert_same

TESTS = Path(__file__).resolve().parents[1]


@pytest.mark.corpora
def test_without_ray_the_error_says_what_to_install(folder, tiny_weights, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r'needs Ray.*Run pip install "spacy-elmo\[ray\]"'):
        embed_corpus(str(tiny_weights), "text.txt", folder / "out", shards=2, workers="ray")


def test_errors_of_the_system_keep_their_type(tmp_path):
    """Ray would wrap an error such as a full disk in its own."""
    assert isinstance(_call(open, (tmp_path / "nowhere",)), FileNotFoundError)


@pytest.fixture(scope="module")
def cluster():
    ray = pytest.importorskip("ray")
    pytest.importorskip("ray.data")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", str(TESTS), prepend=os.pathsep)  # of the actors
        patched.setenv("RAY_TMPDIR", "/tmp")  # Names of sockets have at most 107 bytes.
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield ray
    ray.shutdown()


@pytest.mark.processes
@pytest.mark.corpora
@pytest.mark.slow
def test_ray_makes_the_shards_of_one_process(cluster, folder, tiny_weights, monkeypatch):
    """They are equal byte for byte, although the driver and workers are killed, and an input is
    broken."""
    (folder / "text.txt").write_text(random_text(100), "utf8")
    lines = random_text(100).encode("utf8").split(b"\n")
    (folder / "broken.txt").write_bytes(b"\n".join([*lines[:97], b"\xff", *lines[98:]]))

    def embed(output, **how):
        inputs, settings = ["text.txt", "broken.txt"], {"shards": 40}
        with pytest.raises(ValueError, match=r"1 of 40 .*\npart-00039.*broken\.txt, line 98: not"):
            embed_corpus(str(tiny_weights), inputs, folder / output, **settings, **how)

    embed("alone")
    command = [sys.executable, "-m", "spacy", "elmo", "embed", str(tiny_weights)]
    command += ["text.txt", "broken.txt", "out", "--shards", "40", "--workers", "ray"]
    address = {"RAY_ADDRESS": cluster.get_runtime_context().gcs_address}
    driver = subprocess.Popen(command, env=os.environ | address)
    while not list(folder.glob("out/part-*")):
        assert driver.poll() is None
        time.sleep(0.05)
    driver.kill()
    driver.wait()
    assert len(list(folder.glob("out/part-*"))) < 39
    monkeypatch.setattr(sharding, "_make_shard", killed_at_tenth)
    embed("out", workers="ray")
    assert len(list(folder.glob("killed-*"))) > 1
    assert len(list(folder.glob("alone/part-*"))) == 39
    assert content(folder / "out") == content(folder / "alone")


@pytest.mark.processes
def test_ray_adds_vectors_to_tables(cluster, tiny_weights):
    table = pa.table({"id": range(len(SENTENCES)), "tokens": SENTENCES})
    expected = Embedder(str(tiny_weights))(table)
    settings = {"fn_constructor_args": [str(tiny_weights)], "batch_format": "pyarrow"}
    settings |= {"batch_size": 4, "concurrency": 1}
    rows = cluster.data.from_arrow(table).map_batches(Embedder, **settings)
    found = sorted(rows.iter_rows(), key=lambda row: row["id"])
    columns = {"tokens": [list(row["tokens"]) for row in found]}
    columns["vectors"] = [[list(vector) for vector in row["vectors"]] for row in found]
    assert_same(pa.table(columns), expected)
