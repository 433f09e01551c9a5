"""Files that want more than to be read. Thousands of others: `make fuzz`."""

import pickle
import re
import shutil
import zipfile

import h5py
import pytest
import torch

from spacy_elmo.weights import read_weights
from spacy_elmo.weights.state_dict_file import read_state_dict

from helpers import reference, reference_manylangs
from helpers.models import check_refused, tiny_options


@pytest.fixture
def folder(tmp_path):
    """A model of ELMoForManyLangs."""
    sizes = reference_manylangs.sizes_of()
    tensors = reference_manylangs.random_tensors(sizes)
    return reference_manylangs.write_folder(tmp_path / "some.model", sizes, tensors)


def write(folder, options, data, **changes):
    """Changes that are None take a dataset away."""
    kept = {name: values for name, values in {**data, **changes}.items() if values is not None}
    return reference.write_hdf5(folder, options, kept)


def fails(path, *parts):
    return check_refused(lambda: read_weights(path), *parts)


# Pickles and archives


class Hostile:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


class Greedy:
    def __reduce__(self):
        return bytearray, (10**11,)


@pytest.mark.parametrize("name", ["token_embedder.pkl", "encoder.pkl"])
@pytest.mark.parametrize("old_pickles", [False, True])
@pytest.mark.parametrize("place", ["state", "instead"])
def test_hostile_pickle_raises_and_runs_nothing(folder, tmp_path, name, old_pickles, place):
    trace = tmp_path / "it ran"
    state = torch.load(folder / name, weights_only=True)
    state["more"] = Hostile(trace)
    hostile = state if place == "state" else Hostile(trace)
    torch.save(hostile, folder / name, _use_new_zipfile_serialization=not old_pickles)
    fails(folder, folder / name, "open", "No code from this file was run")
    assert not trace.exists()
    torch.load(folder / name, weights_only=False)  # it would have
    assert trace.exists()


def test_hostile_pickle_without_pytorchs_own_frame(folder, tmp_path):
    trace = tmp_path / "it ran"
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        (folder / "encoder.pkl").write_bytes(pickle.dumps(Hostile(trace), protocol))
        fails(folder, folder / "encoder.pkl")
    assert not trace.exists()


@pytest.mark.parametrize("old_pickles", [False, True])
def test_pickle_that_asks_for_memory(folder, old_pickles):
    """Of what `weights_only` would allow."""
    place = folder / "encoder.pkl"
    torch.save({"a": Greedy()}, place, _use_new_zipfile_serialization=not old_pickles)
    fails(folder, place, "bytearray", "No code from this file was run")


def test_tensors_of_one_storage_take_it_once(tmp_path):
    """A small file may name one storage a thousand times: float32 copies would take gigabytes."""
    shared = torch.zeros(1000, dtype=torch.float16)
    torch.save({f"tensor {i}": shared.view(10, 100) for i in range(50)}, tmp_path / "a.pkl")
    tensors = read_state_dict(tmp_path / "a.pkl")
    assert len(tensors) == 50
    assert len({tensor.untyped_storage().data_ptr() for tensor in tensors.values()}) == 1
    assert tensors.read("tensor 7").dtype == "float32"


def test_advice_of_pytorch_is_not_passed_on(folder):
    (folder / "encoder.pkl").write_bytes(b"\x80\x02K\x01.")
    message = fails(folder, folder / "encoder.pkl", "not a readable state dict")
    assert "weights_only" not in message
    assert len(message.split("\n")) == 1


def test_archives_that_are_traps(folder, tmp_path):
    place = tmp_path / "a.zip"
    place.write_bytes(b"PK\x03\x04 nothing")
    fails(place, place, "not a readable zip archive")
    for name, kind, named in (
        ("token_embedder.pkl", zipfile.ZIP_DEFLATED, "claims to contain 30,000,000 bytes"),
        ("token_embedder.pkl", zipfile.ZIP_LZMA, "not supported"),
    ):
        with zipfile.ZipFile(place, "w", kind) as archive:
            for file in folder.iterdir():
                if file.name != name:
                    archive.write(file, file.name, zipfile.ZIP_STORED)
            archive.writestr(name, bytes(30_000_000))
        fails(place, f"a.zip/{name}", named)
    shutil.make_archive(str(tmp_path / "b"), "zip", folder)
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        start = archive.getinfo("encoder.pkl").header_offset
    content = bytearray((tmp_path / "b.zip").read_bytes())
    content[start + 100] ^= 1
    (tmp_path / "b.zip").write_bytes(content)
    message = fails(tmp_path / "b.zip", "b.zip/encoder.pkl")
    assert re.search("CRC|decompress", message)


# HDF5


def test_dataset_that_claims_what_is_not_there(tmp_path):
    options = tiny_options(dim=100_000)
    data = reference.random_datasets(tiny_options())
    path = write(tmp_path, options, data)
    with h5py.File(path, "a") as file:
        for name in [name for name in data if name.endswith("LSTMCell/W_0")]:
            del file[name]
            file.create_dataset(name, (10, 400_000), "float32")
    fails(path, path, "claims to contain", "but the file has")


def test_names_that_are_no_text(tmp_path):
    options = tiny_options()
    path = write(tmp_path, options, reference.random_datasets(options))
    with h5py.File(path, "a") as file:
        file[b"more\xff"] = 1.0
    assert read_weights(path).config.n_layers == 2
    with h5py.File(path, "a") as file:
        file[b"CNN/\xff"] = 1.0
    fails(path, r"CNN/\\xff", "does not belong to the model")


def test_dataset_of_another_file(tmp_path):
    options = tiny_options()
    data = reference.random_datasets(options)
    (tmp_path / "secret").write_bytes(bytes(20))
    name = "CNN_proj/b_proj"
    path = write(tmp_path, options, data, **{name: None})
    with h5py.File(path, "a") as file:
        file.create_dataset(name, (5,), "float32", external=[(tmp_path / "secret", 0, 20)])
    fails(path, path, f"'{name}' is in another file")
    path = write(tmp_path, options, data, **{name: None})
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = data[name]
    with h5py.File(path, "a") as file:
        file[name] = h5py.ExternalLink("other.h5", "x")
    fails(path, path, f"'{name}' is missing")
    path = write(tmp_path, options, data, **{name: None})
    virtual = h5py.VirtualLayout((5,), "float32")
    virtual[:] = h5py.VirtualSource(tmp_path / "other.h5", "x", shape=(5,))
    with h5py.File(path, "a") as file:
        file.create_virtual_dataset(name, virtual)
    fails(path, path, f"'{name}' is in another file")
