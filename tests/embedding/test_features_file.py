"""Caches of frozen features, in memory or in a file that later runs read: damage, limits, kills."""

import contextlib
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

from helpers.killed import in_child, killed_at_each_step


def random_layers(n=5, seed=0):
    """Return keys, and layers of 0, 1, 2... tokens of 48 bytes each."""
    generator = np.random.default_rng(seed)
    layers = [generator.normal(size=(3, i, 4)).astype("float32") for i in range(n)]
    return [bytes([seed, i]) * 16 for i in range(n)], layers


KEYS, LAYERS = random_layers()


def write(path, keys, layers, size=10):
    cache = DiskFeatures(path, size, "float32")
    for key, values in zip(keys, layers):
        cache.add([key], [values])
    cache.close()
    return cache


def kept(cache, keys=KEYS, layers=LAYERS):
    """Return the numbers of the layers that the cache has. They must be right."""
    found = cache.get(keys, [values.shape for values in layers])
    numbers = [i for i, values in enumerate(found) if values is not None]
    for i in numbers:
        np.testing.assert_array_equal(found[i], layers[i])
        found[i] += 1.0  # it may be written to
    return numbers


def execute(path, statement):
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(statement).fetchall()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "folder" / "features"


@pytest.fixture
def cache(path):
    """Return a cache in a file, with the layers."""
    cache = DiskFeatures(path, 10, "float32")
    cache.add(KEYS, LAYERS)
    return cache


def test_caches_return_the_layers_they_were_given(cache):
    """Some Docs are empty, and some keys are unknown."""
    for store in (cache, MemoryFeatures(10, "float32")):
        for _ in range(2):
            store.add(KEYS, LAYERS)
        for _ in range(2):
            assert kept(store, [b"unknown", *KEYS], [LAYERS[1], *LAYERS]) == [1, 2, 3, 4, 5]
        assert kept(store, KEYS[4:], LAYERS[4:]) == [0]


def test_one_file_keeps_layers_of_both_dtypes(cache, path):
    other, rounded = DiskFeatures(path, 10, "float16"), [v.astype("float16") for v in LAYERS]
    assert kept(other) == []
    other.add(KEYS, LAYERS)
    assert kept(other, layers=rounded) == kept(cache) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("content", [b"some other file " * 100, b"SQLite format 3\0" + b"x" * 5000])
def test_another_file_is_named_and_stays_as_it_is(tmp_path, content):
    path = tmp_path / "features.sqlite"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"features\.sqlite.*delete it or give another path"):
        kept(DiskFeatures(path, 10, "float32"))
    assert path.read_bytes() == content
    with pytest.raises(ValueError, match="sqlite/features: cannot be opened as a cache"):
        kept(DiskFeatures(path / "features", 10, "float32"))


FLIPPED = "CAST(substr(data, 1, 20) || x'7e' || substr(data, 22) AS BLOB)"
OF_ANOTHER = "(SELECT data FROM features WHERE length(data) = 52)"


# What the data of entries become, and which of five are whole then.
DAMAGES = [
    ("substr(data, 1, 7)", [0]),
    (f"{FLIPPED} WHERE length(data) > 60", [0, 1]),
    (OF_ANOTHER, [1]),
    ("'text'", []),
]


@pytest.mark.parametrize(("data", "whole"), DAMAGES)
def test_a_damaged_entry_is_computed_again(cache, path, caplog, data, whole):
    """The new layers replace it. One message names the damage, and what to do."""
    cache.close()
    execute(path, f"UPDATE features SET data = {data}")
    assert kept(cache) == kept(cache) == whole
    (record,) = caplog.records
    assert "features is damaged (a checksum is wrong). Layers that cannot be read" in record.message
    cache.add(KEYS, LAYERS)
    assert kept(cache) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("moment", ["before", "while it is open"])
def test_damaged_pages_give_neither_errors_nor_wrong_layers(path, caplog, moment):
    """Every page but the first contains noise."""
    keys, layers = random_layers(60)
    cache = write(path, keys, layers)
    if moment == "while it is open":
        kept(cache, keys[:1], layers[:1])
        cache._connection.execute("PRAGMA cache_size = 1")  # pages that it has not read before
    data = path.read_bytes()
    path.write_bytes(data[:4096] + np.random.default_rng(0).bytes(len(data) - 4096))
    if moment == "before":
        with pytest.raises(ValueError, match=r"features .*(malformed|corrupt).*delete it or give"):
            kept(cache, keys, layers)
        return
    assert len(kept(cache, keys, layers)) < 60
    cache.add(keys, layers)
    assert "features is damaged (" in caplog.records[0].message


def test_a_table_of_another_program_stays_as_it_is(tmp_path):
    path = tmp_path / "other"
    execute(path, "CREATE TABLE features (a, b)")
    execute(path, "INSERT INTO features VALUES (1, 2)")
    with pytest.raises(ValueError, match="belongs to another program"):
        kept(DiskFeatures(path, 10, "float32"))
    assert execute(path, "SELECT * FROM features") == [(1, 2)]


def test_a_file_is_filled_up_to_its_size(path):
    """Entries are added one by one, also by the next run."""
    keys, layers = random_layers(60)
    for half in (slice(0, 30), slice(30, 60)):
        cache = write(path, keys[half], layers[half], size=0.02)
        found = kept(cache, keys, layers)
        cache.close()
    # Each holds 48 bytes a token and 4 more; the first that finds no room ends the keeping.
    n_kept = max(n for n in range(60) if sum(48 * i + 4 for i in range(n)) <= 0.02 * 1024**2)
    assert 0 < n_kept < 30
    assert found == list(range(n_kept))


def test_layers_beyond_the_limit_of_sqlite_are_not_kept(path, monkeypatch):
    monkeypatch.setattr(features_file, "LARGEST_BLOB", 100)
    assert kept(write(path, KEYS, LAYERS)) == [0, 1, 2]


def test_a_full_file_or_disk_only_ends_the_keeping(tmp_path, caplog):
    keys, layers = random_layers(200)
    small = DiskFeatures(tmp_path / "small", 0.01, "float32")
    full = DiskFeatures(tmp_path / "full", 10, "float32")
    with caplog.at_level(logging.WARNING, logger="spacy"):
        for cache in (small, full):
            cache.add(keys[:5], layers[:5])
            if cache is full:  # what a full disk answers
                cache._connection.execute("PRAGMA max_page_count = 10")
            for _ in range(2):
                cache.add(keys[5:], layers[5:])
            assert kept(cache, keys, layers) == [0, 1, 2, 3, 4]
    limited, without_room = caplog.records
    assert "0.01 MB in" in limited.message
    assert "no more layers are stored in" in without_room.message


@pytest.mark.processes
def test_several_processes_can_write_one_file(cache, path):
    """They are forked while the file is open here, too."""
    context = multiprocessing.get_context("fork")
    written = [random_layers(30, seed) for seed in (1, 2)]
    started = [context.Process(target=write, args=(path, *each)) for each in written]
    for process in started:
        process.start()
    for process in started:
        process.join(60)
        assert process.exitcode == 0
    for each in written:
        assert kept(cache, *each) == list(range(30))


@pytest.mark.processes
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_kill_at_any_step_loses_no_kept_layer(path):
    """The next run keeps the rest."""

    def check(n_kept):
        assert kept(DiskFeatures(path, 10, "float32"), KEYS[:4], LAYERS[:4]) == list(range(n_kept))

    for step in killed_at_each_step(lambda: write(path, KEYS[:4], LAYERS[:4])):
        # Before the entries the folder and the table are made.
        in_child(lambda step=step: check(max(step - 2, 0)))
        in_child(lambda: write(path, KEYS[:4], LAYERS[:4]))
        in_child(lambda: check(4))
        shutil.rmtree(path.parent)
    assert step == 5


@pytest.mark.parametrize("make", [make_memory, lambda **settings: make_disk("path", **settings)])
def test_impossible_settings_are_named(make):
    with pytest.raises(ValueError, match="size must be above 0 MB, got 0"):
        make(size=0)
    with pytest.raises(ValueError, match="dtype must be 'float32' or 'float16', got 'int8'"):
        make(dtype="int8")
