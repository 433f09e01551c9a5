"""Where frozen features are kept: in memory, or in a file for other runs, too."""

import logging
import multiprocessing
import os
import shutil
import sqlite3

import numpy as np
import pytest

from spacy_elmo.embedding import features_file
from spacy_elmo.embedding.features import MemoryFeatures, make_memory
from spacy_elmo.embedding.features_file import DiskFeatures, make_disk

from helpers.components import examples
from helpers.kept_features import components, disk, fresh
from helpers.killed import in_child, killed_at_each_step


def shapes(layers):
    return [values.shape for values in layers]


def random_layers(n=5, seed=0):
    generator = np.random.default_rng(seed)
    layers = [generator.normal(size=(3, i, 4)).astype("float32") for i in range(n)]
    return [bytes([seed, i]) * 16 for i in range(n)], layers


@pytest.mark.parametrize(
    "make",
    [lambda path: DiskFeatures(path, 10, "float32"), lambda path: MemoryFeatures(10, "float32")],
)
def test_stores_keep_what_they_get(make, tmp_path):
    """Empty Docs and unknown keys included."""
    cache = make(tmp_path / "features")
    keys, layers = random_layers()
    cache.add(keys, layers)
    cache.add(keys, layers)
    found = cache.get([b"unknown", *keys], [(3, 1, 4), *shapes(layers)])
    assert found[0] is None
    for got, wanted in zip(found[1:], layers):
        np.testing.assert_array_equal(got, wanted)
        got += 1.0  # it may be written to
    np.testing.assert_array_equal(cache.get(keys[4:], shapes(layers[4:]))[0], layers[4])


def test_file_serves_another_run(make_nlp, tmp_path, computed):
    for run in range(2):
        nlp = make_nlp(features=disk(tmp_path / "features.sqlite"))
        components(nlp)
        batch = examples(nlp)
        sgd = nlp.initialize(lambda batch=batch: batch)
        computed.clear()
        nlp.update(fresh(batch), sgd=sgd)
        assert len(computed) == (4 if run == 0 else 0)


def test_dtypes_in_one_file(tmp_path):
    keys, layers = random_layers()
    for dtype in ("float32", "float16"):
        cache = DiskFeatures(tmp_path / "features", 10, dtype)
        assert cache.get(keys, shapes(layers)) == [None] * 5
        cache.add(keys, layers)
        found = cache.get(keys, shapes(layers))
        np.testing.assert_allclose(found[4], layers[4], rtol=2**-11)


@pytest.mark.parametrize("content", [b"some other file " * 100, b"SQLite format 3\0" + b"x" * 5000])
def test_a_file_that_is_no_such_file(tmp_path, content):
    """It is named, and left as it is."""
    path = tmp_path / "features.sqlite"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"features\.sqlite.*delete it or give another path"):
        DiskFeatures(path, 10, "float32").get([b"key"], [(3, 1, 4)])
    assert path.read_bytes() == content


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="file/features: cannot be opened as a cache"):
        DiskFeatures(tmp_path / "file" / "features", 10, "float32").get([b"key"], [(3, 1, 4)])


FLIPPED = "CAST(substr(data, 1, 20) || x'7e' || substr(data, 22) AS BLOB)"
# What is changed, and which of five entries, of 0 to 4 tokens of 48 bytes, are whole then.
DAMAGES = {
    "cut": ("UPDATE features SET data = substr(data, 1, 7)", [0]),
    "a byte": (f"UPDATE features SET data = {FLIPPED} WHERE length(data) > 60", [0, 1]),
    "of another": (
        "UPDATE features SET data = (SELECT data FROM features WHERE length(data) = 52)",
        [1],
    ),
    "no bytes": ("UPDATE features SET data = 'text'", []),
}


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_entry_is_computed_anew(tmp_path, caplog, how):
    """And then kept in its place. It is said once, with the way out."""
    keys, layers = random_layers()
    cache = DiskFeatures(tmp_path / "features", 10, "float32")
    cache.add(keys, layers)
    cache.close()
    change, whole = DAMAGES[how]
    with sqlite3.connect(tmp_path / "features") as connection:
        connection.execute(change)
    connection.close()
    for _ in range(2):
        found = cache.get(keys, shapes(layers))
        assert [i for i in range(5) if found[i] is not None] == whole
    for i in whole:
        np.testing.assert_array_equal(found[i], layers[i])
    (record,) = caplog.records
    assert "features is damaged (a checksum is wrong). Layers that cannot be read" in record.message
    cache.add(keys, layers)
    for got, wanted in zip(cache.get(keys, shapes(layers)), layers):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("moment", ["before", "while it is open"])
def test_damaged_pages(tmp_path, caplog, moment):
    """Every page but the first holds noise: no error of SQLite's own, and nothing wrong."""
    path = tmp_path / "features"
    keys, layers = random_layers(60)
    cache = DiskFeatures(path, 10, "float32")
    cache.add(keys, layers)
    cache.close()
    if moment == "while it is open":
        cache.get(keys[:1], shapes(layers[:1]))
        cache._connection.execute("PRAGMA cache_size = 1")  # pages that it has not read before
    data = path.read_bytes()
    path.write_bytes(data[:4096] + np.random.default_rng(0).bytes(len(data) - 4096))
    if moment == "before":
        with pytest.raises(ValueError, match=r"features .*(malformed|corrupt).*delete it or give"):
            cache.get(keys, shapes(layers))
        return
    found = cache.get(keys, shapes(layers))
    assert any(values is None for values in found)
    for got, wanted in zip(found, layers):
        assert got is None or np.array_equal(got, wanted)
    cache.add(keys, layers)
    assert "features is damaged (" in caplog.records[0].message


def test_a_file_without_checksums_is_filled_anew(tmp_path, caplog):
    """As the first version wrote it; a table of another program's is left as it is."""
    old, other = tmp_path / "features", tmp_path / "other"
    for path, columns in ((old, "key, data"), (other, "a, b")):
        with sqlite3.connect(path) as connection:
            connection.execute(f"CREATE TABLE features ({columns})")
            connection.execute("INSERT INTO features VALUES (?, ?)", (b"float32key", bytes(48)))
        connection.close()
    keys, layers = random_layers()
    for _ in range(2):
        cache = DiskFeatures(old, 10, "float32")
        cache.add(keys, layers)
        assert all(values is not None for values in cache.get(keys, shapes(layers)))
        cache.close()
    (record,) = caplog.records
    assert "features was written by an earlier version, without checksums" in record.message
    with pytest.raises(ValueError, match="belongs to another program"):
        DiskFeatures(other, 10, "float32").get(keys, shapes(layers))
    with sqlite3.connect(other) as connection:
        assert connection.execute("SELECT count(*) FROM features").fetchone() == (1,)
    connection.close()


def test_a_file_is_filled_up_to_its_size(tmp_path):
    """Entry by entry, and by the next run, too."""
    keys, layers = random_layers(60)
    for half in (slice(0, 30), slice(30, 60)):
        cache = DiskFeatures(tmp_path / "features", 0.02, "float32")
        for key, values in zip(keys[half], layers[half]):
            cache.add([key], [values])
        found = [values is not None for values in cache.get(keys, shapes(layers))]
        cache.close()
    # Each holds 48 bytes a token and 4 more; the first that finds no room ends the keeping.
    n_kept = max(n for n in range(60) if sum(48 * i + 4 for i in range(n)) <= 0.02 * 1024**2)
    assert 0 < n_kept < 30
    assert found == [i < n_kept for i in range(60)]


def test_layers_beyond_the_limit_of_sqlite_are_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(features_file, "LARGEST_BLOB", 100)
    keys, layers = random_layers()
    cache = DiskFeatures(tmp_path / "features", 10, "float32")
    cache.add(keys, layers)
    found = cache.get(keys, shapes(layers))
    assert [values is not None for values in found] == [True, True, True, False, False]


def test_a_table_that_another_process_made_first_stays(tmp_path):
    """Both found none; the other has written since."""
    keys, layers = random_layers()
    cache = DiskFeatures(tmp_path / "features", 10, "float32")
    cache.add(keys, layers)
    with sqlite3.connect(cache.path) as connection:
        features_file._make_table(connection, cache.path)
    connection.close()
    assert all(values is not None for values in cache.get(keys, shapes(layers)))


def test_full_file_and_full_disk(tmp_path, caplog):
    """The limit, and a disk without room, end the keeping and nothing else."""
    keys, layers = random_layers(200)
    small = DiskFeatures(tmp_path / "small", 0.01, "float32")
    full = DiskFeatures(tmp_path / "full", 10, "float32")
    small.add(keys[:5], layers[:5])
    full.add(keys[:5], layers[:5])
    full._connection.execute("PRAGMA max_page_count = 10")  # what a full disk answers
    with caplog.at_level(logging.WARNING, logger="spacy"):
        for cache in (small, full):
            cache.add(keys[5:], layers[5:])
            cache.add(keys[5:], layers[5:])
            found = cache.get(keys, shapes(layers))
            assert all(values is not None for values in found[:5])
            assert all(values is None for values in found[5:])
    messages = [record.message for record in caplog.records]
    assert len(messages) == 2
    assert "0.01 MB in" in messages[0]
    assert "no more layers are stored in" in messages[1]


def _write_and_read(path, seed):
    cache = DiskFeatures(path, 10, "float32")
    keys, layers = random_layers(30, seed)
    for i in range(30):
        cache.add(keys[i : i + 1], layers[i : i + 1])
    cache.close()


def test_several_processes_write_one_file(tmp_path):
    """Forked while the file is open here, too."""
    cache = DiskFeatures(tmp_path / "features", 10, "float32")
    keys, layers = random_layers()
    cache.add(keys, layers)
    context = multiprocessing.get_context("fork")
    started = [context.Process(target=_write_and_read, args=(cache.path, s)) for s in (1, 2)]
    for process in started:
        process.start()
    for process in started:
        process.join(60)
        assert process.exitcode == 0
    for seed in (1, 2):
        keys, layers = random_layers(30, seed)
        for got, wanted in zip(cache.get(keys, shapes(layers)), layers):
            np.testing.assert_array_equal(got, wanted)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_killed_at_each_step(tmp_path):
    """What was kept before is there, and is right; the rest is kept by the next run."""
    keys, layers = random_layers(4)

    def keep():
        cache = DiskFeatures(tmp_path / "folder" / "features", 10, "float32")
        for i in range(4):
            cache.add(keys[i : i + 1], layers[i : i + 1])
        cache.close()

    def check(n_kept):
        cache = DiskFeatures(tmp_path / "folder" / "features", 10, "float32")
        found = cache.get(keys, shapes(layers))
        assert found[n_kept:] == [None] * (4 - n_kept)
        for got, wanted in zip(found[:n_kept], layers):
            np.testing.assert_array_equal(got, wanted)

    for step in killed_at_each_step(keep):
        # Before the entries the folder and the table are made.
        in_child(lambda step=step: check(max(step - 3, 0)))
        in_child(keep)
        in_child(lambda: check(4))
        shutil.rmtree(tmp_path / "folder")
    assert step == 6


@pytest.mark.parametrize("make", [make_memory, lambda **settings: make_disk("path", **settings)])
def test_impossible_settings(make):
    with pytest.raises(ValueError, match="size must be above 0 MB, got 0"):
        make(size=0)
    with pytest.raises(ValueError, match="dtype must be 'float32' or 'float16', got 'int8'"):
        make(dtype="int8")


def test_nothing_is_opened_before_it_is_needed(make_nlp, tmp_path):
    path = tmp_path / "folder" / "features.sqlite"
    nlp = make_nlp(features=disk(path))
    nlp("Only a prediction .")
    assert not path.parent.exists()
