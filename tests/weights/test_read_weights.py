import shutil

import numpy as np
import pytest

from spacy_elmo.weights import is_available, named, read_weights, safetensors_file
from spacy_elmo.weights.formats import read_bundle

from helpers import reference
from helpers.models import tiny_bilm, tiny_options


def write_hdf5(folder, seed=0):
    return reference.write_hdf5(
        folder, tiny_options(), reference.random_datasets(tiny_options(), seed)
    )


def same(bilm, seed=0):
    return np.array_equal(
        bilm.arrays()["stacks.1.0.bias"], tiny_bilm(seed).arrays()["stacks.1.0.bias"]
    )


def test_every_way_to_name_an_hdf5_model(tmp_path):
    path = write_hdf5(tmp_path)
    assert same(read_weights(str(path)))
    assert same(read_weights(tmp_path))
    for prefix in ("elmo_small_", "small."):
        for name in ("weights.hdf5", "options.json"):
            shutil.copy(tmp_path / name, tmp_path / (prefix + name))
        assert same(read_weights(tmp_path / f"{prefix}weights.hdf5"))
    assert same(read_weights(tmp_path / "elmo_small_"))
    assert same(read_weights(tmp_path / "elmo_small"))
    assert same(read_weights(tmp_path / "small."))
    (tmp_path / "elmo_small_options.json").write_text("{}")  # its own goes before the general one
    with pytest.raises(ValueError, match="elmo_small_options"):
        read_weights(tmp_path / "elmo_small")


def test_other_suffix_and_one_file_of_another_name(tmp_path):
    write_hdf5(tmp_path).rename(tmp_path / "model.h5")
    assert same(read_weights(tmp_path))
    assert same(read_weights(tmp_path / "model.h5"))


def test_weights_go_before_other_hdf5_files(tmp_path):
    path = write_hdf5(tmp_path)
    shutil.copy(path, tmp_path / "a_weights.hdf5")
    (tmp_path / "0_vectors.hdf5").write_bytes(b"")
    assert same(read_weights(tmp_path))
    path.unlink()
    assert same(read_weights(tmp_path))
    shutil.copy(tmp_path / "a_weights.hdf5", tmp_path / "b_weights.hdf5")
    with pytest.raises(ValueError, match=r"several weights: a_weights.hdf5, b_weights.hdf5"):
        read_weights(tmp_path)


def test_every_way_to_name_a_safetensors_model(tmp_path):
    safetensors_file.write(tiny_bilm(1), tmp_path / "x.safetensors")
    assert same(read_weights(tmp_path / "x.safetensors"), 1)
    assert same(read_weights(tmp_path), 1)
    safetensors_file.write(tiny_bilm(2), tmp_path / "y.safetensors")
    with pytest.raises(ValueError, match=r"several models: x.safetensors, y.safetensors"):
        read_weights(tmp_path)
    assert same(read_weights(str(tmp_path / "y.safetensors")), 2)


def test_pipeline_folder(tmp_path):
    (tmp_path / "config.cfg").touch()
    (tmp_path / "elmo").mkdir()
    safetensors_file.write(tiny_bilm(1), tmp_path / "elmo" / "model.safetensors")
    safetensors_file.write(tiny_bilm(2), tmp_path / "softmax.safetensors")
    assert same(read_weights(tmp_path), 1)
    (tmp_path / "second").mkdir()
    shutil.copy(tmp_path / "elmo" / "model.safetensors", tmp_path / "second")
    with pytest.raises(ValueError, match=r"several models: elmo.model.safetensors, second"):
        read_weights(tmp_path)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("[nlp]\nlang = 3", r"\[nlp\] lang must be a string, got 3"),
        ("[nlp]\npipeline = 3", "pipeline must be a list of strings, got 3"),
        ("[nlp]\npipeline = [[1]]", r"a list of strings, got \[\[1\]\]"),
        ('[nlp]\npipeline = "elmo"', "a list of strings, got 'elmo'"),
        ("[components]\nelmo = 3", "elmo must be a section, got 3"),
        ("[nlp]\n[nlp]", "not a readable config: .*already exists"),
        ("[nlp", "not a readable config"),
    ],
)
def test_config_of_other_types(tmp_path, config, message):
    """Where it stands is named, in place of where it failed."""
    (tmp_path / "config.cfg").write_text(config, "utf8")
    safetensors_file.write(tiny_bilm(), tmp_path / "elmo" / "model.safetensors")
    with pytest.raises(ValueError, match=rf"config\.cfg: .*{message}"):
        read_bundle(tmp_path)


def test_nothing_there(tmp_path):
    with pytest.raises(ValueError, match=r"no weights at '.*missing'.*\[components.elmo\]"):
        read_weights(tmp_path / "missing")


@pytest.mark.parametrize("name", ["model.pkl", "notes.txt"])
def test_something_else_there(tmp_path, name):
    (tmp_path / name).write_bytes(b"x")
    for place in (tmp_path, tmp_path / name):
        with pytest.raises(ValueError, match="not a model that spacy-elmo can read") as error:
            read_weights(place)
        assert str(place) in str(error.value)


def test_name_of_a_model_that_the_package_lacks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(named, "_BUNDLED_FILE", tmp_path / "nowhere.safetensors")
    assert not is_available("en_small")
    with pytest.raises(ValueError, match="'en_small' is not in this version"):
        read_weights("en_small")


def test_name_of_a_model_that_the_package_holds(tmp_path, monkeypatch):
    safetensors_file.write(tiny_bilm(1), tmp_path / "bundled.safetensors")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(named, "_BUNDLED_FILE", tmp_path / "bundled.safetensors")
    assert is_available("en_small")
    assert same(read_weights("en_small"), 1)
    write_hdf5(tmp_path / "en_small", seed=2)  # a path of that name goes first
    assert same(read_weights("en_small"), 2)


def test_is_available(tmp_path):
    assert is_available(tmp_path)
    assert not is_available(None)


def test_file_that_another_process_is_writing(tmp_path):
    fcntl = pytest.importorskip("fcntl")
    path = write_hdf5(tmp_path)
    with path.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # as HDF5 locks what it writes
        with pytest.raises(ValueError, match="another process is writing to this file") as error:
            read_weights(path)
    assert str(path) in str(error.value) and "not a readable" not in str(error.value)
    assert same(read_weights(path))
