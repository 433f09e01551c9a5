import re
import shutil
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import spacy

import spacy_elmo
from spacy_elmo.files.remote import PublishedFile
from spacy_elmo.weights import (
    find_named,
    is_available,
    language_of_weights,
    locate,
    named,
    read_weights,
    safetensors_file,
)
from spacy_elmo.weights.download import DownloadError
from spacy_elmo.weights.named import NAMED, NamedModel, cache_folder, get_named, obtain

from helpers.models import check_refused, tiny_bilm, write_tiny


@pytest.fixture
def server(server, tmp_path, monkeypatch):
    """Serves the model "tiny", which has a name."""
    origin = tmp_path / "origin"
    write_tiny(origin, 3)
    files = []
    for name in ("options.json", "weights.hdf5"):
        server.files[f"/t_{name}"] = (origin / name).read_bytes()
        files.append(PublishedFile(f"{server.url}/t_{name}"))
    model = NamedModel("tiny", "allennlp", "en", "MIT", tuple(files))
    monkeypatch.setitem(NAMED, "tiny", model)
    return server


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*_):
        raise AssertionError("the network was touched")

    return lambda: monkeypatch.setattr(socket.socket, "connect", refuse)


def same(path, seed=0):
    return read_weights(path).checksum() == tiny_bilm(seed).checksum()


def test_downloaded_once_and_then_without_the_network(server, tmp_path, no_network):
    assert same("tiny", 3)
    assert [path for path, _ in server.requests] == ["/t_options.json", "/t_weights.hdf5"]
    assert (tmp_path / "cache" / "tiny" / "t_weights.hdf5").is_file()
    no_network()
    assert same("tiny", 3)
    config = spacy_elmo.pretrained("tiny")
    assert (config["weights"], config["model"]["lstm_dim"]) == ("tiny", 12)
    assert len(server.requests) == 2


def test_offline_it_says_what_to_do(server, tmp_path, no_network):
    server.close()
    with pytest.raises(DownloadError, match="cannot be reached") as error:
        read_weights("tiny")
    assert error.value.__suppress_context__  # one traceback, not one of each library
    message = str(error.value)
    for name in ("t_options.json", "t_weights.hdf5"):
        path = tmp_path / "cache" / "tiny" / name
        assert f"put {server.url}/{name} at {path}" in message
        path.write_bytes(server.files[f"/{name}"])  # by hand, as it says
    no_network()
    assert same("tiny", 3)


def test_only_what_is_missing_is_fetched(server, tmp_path):
    folder = tmp_path / "cache" / "tiny"
    folder.mkdir(parents=True)
    (folder / "t_options.json").write_bytes(server.files["/t_options.json"])
    server.script = [{"status": 404}]
    with pytest.raises(DownloadError) as error:
        read_weights("tiny")
    assert "t_weights.hdf5 at" in str(error.value)
    assert "t_options" not in str(error.value)
    assert same("tiny", 3)
    assert [path for path, _ in server.requests] == ["/t_weights.hdf5"] * 2


def test_something_on_disk_of_that_name_goes_first(server, tmp_path):
    # "tiny" is the beginning of the names.
    write_tiny(tmp_path, 5).rename(tmp_path / "tiny_weights.hdf5")
    assert find_named("tiny") is None
    assert same("tiny", 5)
    (tmp_path / "tiny_weights.hdf5").unlink()
    write_tiny(tmp_path / "tiny", 5)
    assert same("tiny", 5)
    assert not server.requests


def test_two_at_once_download_once(server):
    server.script = [{"pause": 0.05}, {"pause": 0.05}]
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(obtain, [NAMED["tiny"]] * 3))
    assert found == [NAMED["tiny"].path] * 3
    assert len(server.requests) == 2


def test_downloaded_again_if_asked(server):
    obtain(NAMED["tiny"])
    obtain(NAMED["tiny"], force=True)
    assert len(server.requests) == 4
    server.script = [{"status": 404}]
    with pytest.raises(DownloadError):
        obtain(NAMED["tiny"], force=True)
    assert same("tiny", 3)  # the old one


def test_place_of_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SPACY_ELMO_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == tmp_path / ".cache" / "spacy-elmo"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert cache_folder() == tmp_path / "x" / "spacy-elmo"
    monkeypatch.setenv("SPACY_ELMO_CACHE", "~/models")
    assert cache_folder() == tmp_path / "models"
    assert NAMED["small"].path.parent == tmp_path / "models" / "small"


def test_cache_that_cannot_be_made(server, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("SPACY_ELMO_CACHE", str(tmp_path / "file"))
    with pytest.raises(OSError, match="Set SPACY_ELMO_CACHE to another folder"):
        read_weights("tiny")


def test_names():
    names = ["small", "medium", "original", "original-5.5B", "german", "manylangs-fr"]
    assert set(names) < set(NAMED)
    assert len([name for name in NAMED if name.startswith("manylangs-")]) == 44
    for name, model in NAMED.items():
        assert name == model.name
        assert model.licence and model.lang
        names_of_files = [file.name for file in model.files]
        assert len(set(names_of_files)) == len(names_of_files)
        kind = r"https://.*weights\.hdf5" if model.format == "allennlp" else r"http://.*\.zip"
        assert re.fullmatch(kind, model.files[-1].url)
    urls = [file.url for model in NAMED.values() for file in model.files]
    assert len(set(urls)) == len(urls)


def test_addresses():
    base = "https://allennlp.s3.amazonaws.com/models/elmo/2x4096_512_2048cnn_2xhighway_5.5B"
    assert [file.url for file in NAMED["original-5.5B"].files] == [
        f"{base}/elmo_2x4096_512_2048cnn_2xhighway_5.5B_options.json",
        f"{base}/elmo_2x4096_512_2048cnn_2xhighway_5.5B_weights.hdf5",
    ]
    # The corners of the table in ELMoForManyLangs' README, and where it leaves its order.
    corners = {"ar": 136, "de": 142, "en": 144, "fr": 150, "nl": 164, "nb": 165, "zh": 179}
    for name, number in corners.items():
        (file,) = NAMED[f"manylangs-{name}"].files
        assert file.url == f"http://vectors.nlpl.eu/repository/11/{number}.zip"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("en_smal", "en_small"),
        ("orignal", "original"),
        ("German", "german"),
        ("manylangs_fr", "-fr"),
    ],
)
def test_a_name_with_a_typo(name, meant, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    message = check_refused(lambda: read_weights(name), f"no weights at '{name}'. Did you mean")
    assert meant in message and len(message) < 120
    assert meant in check_refused(lambda: get_named(name), f"no model named '{name}'. Did you mean")


def test_the_bundled_model_is_not_downloaded():
    check_refused(lambda: get_named("en_small"), "part of this package")


def test_a_model_in_an_installed_package(tmp_path, monkeypatch, no_network):
    """Its pipeline is read without importing the package. A file of that name goes first."""
    package = tmp_path / "site" / "spacy_elmo_tiny_fr"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('imported')")
    nlp = spacy.blank("fr")
    nlp.add_pipe("elmo").set_bilm(tiny_bilm(3))
    nlp.to_disk(package / "pipeline")
    monkeypatch.chdir(tmp_path)
    check_refused(lambda: read_weights("tiny_fr"), "no weights at 'tiny_fr'")
    monkeypatch.syspath_prepend(package.parent)
    no_network()
    assert same("tiny_fr", 3)
    assert language_of_weights("tiny_fr") == "fr"
    config = spacy_elmo.pretrained("tiny_fr")
    assert (config["weights"], config["model"]["lstm_dim"]) == ("tiny_fr", 12)
    check_refused(lambda: get_named("tiny_fr"), "installed package. It needs no download")
    shutil.copytree(package / "pipeline", "tiny_fr")
    assert locate("tiny_fr") == Path("tiny_fr")


# Models on disk


def test_every_way_to_name_an_hdf5_model(tmp_path):
    path = write_tiny(tmp_path)
    assert same(str(path))
    assert same(tmp_path)
    for prefix in ("elmo_small_", "small."):
        for name in ("weights.hdf5", "options.json"):
            shutil.copy(tmp_path / name, tmp_path / (prefix + name))
        assert same(tmp_path / f"{prefix}weights.hdf5")
    assert same(tmp_path / "elmo_small_")
    assert same(tmp_path / "elmo_small")
    assert same(tmp_path / "small.")
    (tmp_path / "elmo_small_options.json").write_text("{}")  # its own goes before the general one
    with pytest.raises(ValueError, match="elmo_small_options"):
        read_weights(tmp_path / "elmo_small")


def test_other_suffix_and_one_file_of_another_name(tmp_path):
    write_tiny(tmp_path).rename(tmp_path / "model.h5")
    assert same(tmp_path)
    assert same(tmp_path / "model.h5")


def test_weights_go_before_other_hdf5_files(tmp_path):
    path = write_tiny(tmp_path)
    shutil.copy(path, tmp_path / "a_weights.hdf5")
    (tmp_path / "0_vectors.hdf5").write_bytes(b"")
    assert same(tmp_path)
    path.unlink()
    assert same(tmp_path)
    shutil.copy(tmp_path / "a_weights.hdf5", tmp_path / "b_weights.hdf5")
    with pytest.raises(ValueError, match=r"several weights: a_weights.hdf5, b_weights.hdf5"):
        read_weights(tmp_path)


def test_every_way_to_name_a_safetensors_model(tmp_path):
    safetensors_file.write(tiny_bilm(1), tmp_path / "x.safetensors")
    assert same(tmp_path / "x.safetensors", 1)
    assert same(tmp_path, 1)
    safetensors_file.write(tiny_bilm(2), tmp_path / "y.safetensors")
    with pytest.raises(ValueError, match=r"several models: x.safetensors, y.safetensors"):
        read_weights(tmp_path)
    assert same(str(tmp_path / "y.safetensors"), 2)


def test_pipeline_folder(tmp_path):
    (tmp_path / "config.cfg").touch()
    (tmp_path / "elmo").mkdir()
    safetensors_file.write(tiny_bilm(1), tmp_path / "elmo" / "model.safetensors")
    safetensors_file.write(tiny_bilm(2), tmp_path / "softmax.safetensors")
    assert same(tmp_path, 1)
    (tmp_path / "second").mkdir()
    shutil.copy(tmp_path / "elmo" / "model.safetensors", tmp_path / "second")
    with pytest.raises(ValueError, match=r"several models: elmo.model.safetensors, second"):
        read_weights(tmp_path)


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


def test_the_model_that_the_package_holds(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(named, "_BUNDLED_FILE", tmp_path / "bundled.safetensors")
    assert not is_available("en_small") and not is_available(None)
    with pytest.raises(ValueError, match="'en_small' is not in this version"):
        read_weights("en_small")
    safetensors_file.write(tiny_bilm(1), tmp_path / "bundled.safetensors")
    assert is_available("en_small") and is_available(tmp_path)
    assert same("en_small", 1)
    write_tiny(tmp_path / "en_small", seed=2)  # a path of that name goes first
    assert same("en_small", 2)


def test_file_that_another_process_is_writing(tmp_path):
    fcntl = pytest.importorskip("fcntl")
    path = write_tiny(tmp_path)
    with path.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # as HDF5 locks what it writes
        with pytest.raises(ValueError, match="another process is writing to this file") as error:
            read_weights(path)
    assert str(path) in str(error.value) and "not a readable" not in str(error.value)
    assert same(path)
