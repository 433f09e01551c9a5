"""Archives, special files, links and pickles that attack the reader. `make fuzz` has thousands
more."""

import json
import os
import pickle
import re
import zipfile

import h5py
import numpy as np
import pytest
import torch

from spacy_elmo.weights import read_weights
from spacy_elmo.weights.archives import MAX_ENTRIES, opened_path, read_bytes
from spacy_elmo.weights.attribution import write_attribution
from spacy_elmo.weights.convert import convert
from spacy_elmo.weights.formats import read_bundle
from spacy_elmo.weights.readers import make_allennlp_reader

from helpers.commands import run_python
from helpers.conversions import assert_same_vectors, write_source, write_zip
from helpers.models import check_refused, tiny_options, write_tiny, write_word_ids
from helpers.prepared import content
from helpers.reference_manylangs import write_random

NAMES = [*("//a", "/a", "a//b", "../a", "a/../b", "./a"), "a/" * 40 + "b", "x/" * 30_000 + "y"]
# In a process of its own, which can be ended: some of these were read without end.
SCRIPT = """
import sys
from spacy_elmo.weights import read_weights
for path in sys.argv[1:]:
    try:
        read_weights(path)
    except ValueError as error:
        print(error)
"""


def fails(path, *parts):
    return check_refused(lambda: read_weights(path), *parts)


def errors_of(paths):
    """Return a line for each path: the error of reading it."""
    found = run_python("-c", SCRIPT, *paths).splitlines()
    assert len(found) == len(paths)
    return found


@pytest.mark.parametrize("packing", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("inside", ["", "193/"])
@pytest.mark.parametrize("write", [write_word_ids, write_random])
def test_zip_archives_are_read(tmp_path, write, inside, packing):
    """NLPL's repository packs models in this way."""
    source = write(tmp_path / "m")
    files = {inside + name: data for name, data in content(tmp_path / "m").items()}
    more = {f"{inside}README": b"meta.json is missing", "__MACOSX/x": b""}
    path = write_zip(tmp_path / "193.zip", {**files, **more}, packing)
    assert_same_vectors(path, source)
    if write is write_word_ids:
        assert make_allennlp_reader(path)().provenance == {"source": "weights.hdf5"}
    assert sorted(os.listdir(tmp_path)) == ["193.zip", "m"]


@pytest.mark.parametrize("names", [["0", "1", "sentence_to_index"], ["17"]])
def test_vectors_are_not_weights(tmp_path, names):
    """The file is the output of AllenNLP's command `elmo`."""
    path = tmp_path / "elmo_layers.hdf5"
    with h5py.File(path, "w") as file:
        for name in names:
            if name.isdecimal():
                file.create_dataset(name, data=np.zeros((3, 4, 10), "f"))
            else:
                file.create_dataset(name, (1,), dtype=h5py.string_dtype())
    fails(path, path, "contains vectors of sentences")


OPTIONS = json.dumps(tiny_options()).encode()
ZEROS = {"weights.hdf5": bytes(30_000_000), "options.json": OPTIONS}
ARCHIVES = [
    ({}, "STORED", "not a model that spacy-elmo can read"),
    ({str(i): b"" for i in range(MAX_ENTRIES + 1)}, "STORED", "10,001 entries"),
    ({"weights.hdf5": b""}, "STORED", "/weights.hdf5: the options file is missing"),
    ({"weights.hdf5": b"", "options.json": OPTIONS}, "STORED", "weights.hdf5: not a readable HDF5"),
    ({"weights.hdf5": b"", "options.json": bytes(3_000_000)}, "STORED", "contain 3,000,000 bytes"),
    (ZEROS, "DEFLATED", "/weights.hdf5: ", "claims to contain 30,000,000 bytes"),
    (ZEROS, "LZMA", "the compression is not supported. Unpack the archive"),
]


@pytest.mark.parametrize("case", ARCHIVES, ids=map(str, range(len(ARCHIVES))))
def test_hostile_archives_are_refused(tmp_path, case):
    files, packing, *named = case
    path = write_zip(tmp_path / "a.zip", files, getattr(zipfile, f"ZIP_{packing}"))
    fails(path, path, *named)


def test_damaged_archives_are_refused(tmp_path):
    files = content(write_random(tmp_path / "m"))
    path = write_zip(tmp_path / "a.zip", files, zipfile.ZIP_DEFLATED)
    with zipfile.ZipFile(path) as archive:
        place = archive.getinfo("encoder.pkl").header_offset + 100
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    assert re.search("CRC|decompress", fails(path, "a.zip/encoder.pkl"))
    path.write_bytes(b"PK\x03\x04 nothing")
    fails(path, path, "not a readable zip archive")


@pytest.mark.processes
def test_archives_with_hostile_names_are_refused(tmp_path):
    paths = [
        write_zip(tmp_path / f"{i}.zip", {"options.json": b"", name: b""})
        for i, name in enumerate(NAMES)
    ]
    for path, message in zip(paths, errors_of(paths)):
        assert message.startswith(f"{path}: the entry ")
        assert len(message) < len(str(path)) + 200


def test_folders_in_an_archive_are_skipped(tmp_path):
    path = write_zip(tmp_path / "a.zip", dict.fromkeys(["model/", "model/a/", "model/a/b"], b""))
    with opened_path(path) as folder:
        assert [item.name for item in folder.iterdir()] == ["a"]


@pytest.mark.processes
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFOs")
def test_special_files_are_refused(tmp_path):
    paths = []
    for name in ("pipe.safetensors", "weights.hdf5", "options.json", "char.dic"):
        folder = tmp_path / name.replace(".", "-")
        folder.mkdir()
        os.mkfifo(folder / name)
        os.symlink("/dev/zero", folder / "vocab.txt")
        if name == "options.json":
            (folder / "weights.hdf5").write_bytes(b"")
        for file in (folder / name, folder / "vocab.txt"):
            check_refused(lambda: read_bytes(file, 1), "not a regular file")  # noqa: B023
        paths += [folder, folder / name]
    assert all(str(path) in message for path, message in zip(paths, errors_of(paths)))


# Pickles. `test_state_dict_file.py` has more.


class Hostile:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.mark.parametrize("old_pickles", [False, True])
@pytest.mark.parametrize("place", ["state", "instead"])
def test_a_hostile_pickle_is_an_error_and_runs_nothing(tmp_path, old_pickles, place):
    trace, file = tmp_path / "it ran", write_random(tmp_path / "m") / "encoder.pkl"
    hostile = {"more": Hostile(trace)} if place == "state" else Hostile(trace)
    torch.save(hostile, file, _use_new_zipfile_serialization=not old_pickles)
    fails(file.parent, file, "open", "No code from this file was run")
    assert not trace.exists()
    torch.load(file, weights_only=False)  # it would have
    assert trace.exists()


def test_a_pickle_without_pytorchs_frame_runs_nothing(tmp_path):
    trace, file = tmp_path / "it ran", write_random(tmp_path / "m") / "encoder.pkl"
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        file.write_bytes(pickle.dumps(Hostile(trace), protocol))
        message = fails(file.parent, file)
        assert "weights_only" not in message and "\n" not in message  # PyTorch's advice
    assert not trace.exists()


# Links

# A model, and its files that are not the weights.
LINKED = {
    "safetensors": ("a.safetensors", ["a.softmax.safetensors", "a-ATTRIBUTION.md"]),
    "pipeline": ("", ["config.cfg", "meta.json", "softmax.safetensors", "vocab.txt"]),
    "allennlp": ("a.hdf5", ["a_options.json", "a_vocab.txt"]),
    "manylangs": ("", ["config.json", "sizes.json", "char.dic", "word.dic", "token_embedder.pkl"]),
}
SIDES = [(format, side) for format, (_, sides) in LINKED.items() for side in sides]


def write_linked(folder, format):
    """Write a model of this format in its own folder, with all files that may be beside the
    weights."""
    if format == "manylangs":
        return write_random(folder)
    path = folder / LINKED[format][0]
    convert(write_source(folder.with_name("source")), path)
    return path


@pytest.mark.conversions
@pytest.mark.parametrize(("format", "side"), SIDES)
def test_side_files_are_not_read_through_links_that_leave_the_folder(tmp_path, format, side):
    path = write_linked(tmp_path / "model", format)
    file = tmp_path / "model" / side
    (tmp_path / "private").mkdir()
    if side.endswith(".md"):
        file.write_text("a key")
    file.rename(tmp_path / "private" / "key")
    file.symlink_to(tmp_path / "private" / "key")
    check_refused(lambda: read_bundle(path), file, "is a link to another folder")
    file.unlink()
    (tmp_path / "private" / "key").rename(tmp_path / "model" / "kept")
    file.symlink_to("kept")
    read_bundle(path)


@pytest.mark.conversions
def test_links_to_a_store_of_all_files_are_followed(tmp_path):
    """Some programs keep the files of all models in one folder, and link to them."""
    path = write_linked(tmp_path / "model", "safetensors")
    store = tmp_path / "store"
    store.mkdir()
    for number, file in enumerate(sorted(path.parent.iterdir())):
        file.rename(store / str(number))
        file.symlink_to(store / str(number))
    assert read_bundle(path).prediction is not None


def test_an_attribution_is_not_written_through_a_link(tmp_path):
    key = tmp_path / "key"
    key.write_text("private")
    (tmp_path / "LICENSES_SOURCES").symlink_to(key)
    with pytest.raises(ValueError, match="LICENSES_SOURCES is a link"):
        write_attribution({"attribution": "me"}, tmp_path / "LICENSES_SOURCES")
    assert key.read_text() == "private"


# HDF5. `test_malformed_files.py` has more.


def test_names_that_are_no_text_are_shown_escaped(tmp_path):
    path = write_tiny(tmp_path)
    with h5py.File(path, "a") as file:
        file[b"more\xff"] = 1.0
    assert read_weights(path).config.n_layers == 2
    with h5py.File(path, "a") as file:
        file[b"CNN/\xff"] = 1.0
    fails(path, r"CNN/\\xff", "does not belong to the model")
