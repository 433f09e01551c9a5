import re
import shutil
import socket
import threading
from pathlib import Path

import numpy as np
import pytest
import spacy

import spacy_elmo
from spacy_elmo.weights import find_named, language_of_weights, locate, read_weights
from spacy_elmo.weights.download import DownloadError
from spacy_elmo.weights.named import NAMED, NamedModel, cache_folder, get_named, obtain
from spacy_elmo.weights.published_file import PublishedFile

from helpers import reference
from helpers.models import check_refused, tiny_bilm, tiny_options


@pytest.fixture
def server(server, tmp_path, monkeypatch):
    """Serves the model "tiny", which has a name."""
    origin = tmp_path / "origin"
    origin.mkdir()
    reference.write_hdf5(origin, tiny_options(), reference.random_datasets(tiny_options(), 3))
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


def same(bilm, seed=3):
    return np.array_equal(
        bilm.arrays()["stacks.1.0.bias"], tiny_bilm(seed).arrays()["stacks.1.0.bias"]
    )


def test_downloaded_once_and_then_without_the_network(server, tmp_path, no_network):
    assert same(read_weights("tiny"))
    assert [path for path, _ in server.requests] == ["/t_options.json", "/t_weights.hdf5"]
    assert (tmp_path / "cache" / "tiny" / "t_weights.hdf5").is_file()
    no_network()
    assert same(read_weights("tiny"))
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
    assert same(read_weights("tiny"))


def test_only_what_is_missing_is_fetched(server, tmp_path):
    folder = tmp_path / "cache" / "tiny"
    folder.mkdir(parents=True)
    (folder / "t_options.json").write_bytes(server.files["/t_options.json"])
    server.script = [{"status": 404}]
    with pytest.raises(DownloadError) as error:
        read_weights("tiny")
    assert "t_weights.hdf5 at" in str(error.value)
    assert "t_options" not in str(error.value)
    assert same(read_weights("tiny"))
    assert [path for path, _ in server.requests] == ["/t_weights.hdf5"] * 2


def test_something_on_disk_of_that_name_goes_first(server, tmp_path):
    datasets = reference.random_datasets(tiny_options(), 5)
    path = reference.write_hdf5(tmp_path, tiny_options(), datasets)
    path.rename(tmp_path / "tiny_weights.hdf5")  # "tiny" is the beginning of the names
    assert find_named("tiny") is None
    assert same(read_weights("tiny"), 5)
    (tmp_path / "tiny_weights.hdf5").unlink()
    reference.write_hdf5(tmp_path / "tiny", tiny_options(), datasets)
    assert same(read_weights("tiny"), 5)
    assert not server.requests


def test_two_at_once_download_once(server):
    server.script = [{"pause": 0.05}, {"pause": 0.05}]
    found: list = []
    threads = [
        threading.Thread(target=lambda: found.append(obtain(NAMED["tiny"]))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [NAMED["tiny"].path] * 3
    assert len(server.requests) == 2


def test_downloaded_again_if_asked(server):
    obtain(NAMED["tiny"])
    obtain(NAMED["tiny"], force=True)
    assert len(server.requests) == 4
    server.script = [{"status": 404}]
    with pytest.raises(DownloadError):
        obtain(NAMED["tiny"], force=True)
    assert same(read_weights("tiny"))  # the old one


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


@pytest.mark.parametrize(
    ("name", "number"),
    # The corners of the table in ELMoForManyLangs' README, and where it leaves its order.
    [("ar", 136), ("de", 142), ("en", 144), ("fr", 150), ("nl", 164), ("nb", 165), ("zh", 179)],
)
def test_numbers_of_manylangs(name, number):
    (file,) = NAMED[f"manylangs-{name}"].files
    assert file.url == f"http://vectors.nlpl.eu/repository/11/{number}.zip"


def test_addresses_of_allennlp():
    base = "https://allennlp.s3.amazonaws.com/models/elmo/2x4096_512_2048cnn_2xhighway_5.5B"
    assert [file.url for file in NAMED["original-5.5B"].files] == [
        f"{base}/elmo_2x4096_512_2048cnn_2xhighway_5.5B_options.json",
        f"{base}/elmo_2x4096_512_2048cnn_2xhighway_5.5B_weights.hdf5",
    ]


def test_unknown_name():
    with pytest.raises(ValueError, match="no model named 'orignal'.*Did you mean original"):
        get_named("orignal")


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
    assert same(read_weights("tiny_fr"))
    assert language_of_weights("tiny_fr") == "fr"
    config = spacy_elmo.pretrained("tiny_fr")
    assert (config["weights"], config["model"]["lstm_dim"]) == ("tiny_fr", 12)
    check_refused(lambda: get_named("tiny_fr"), "installed package. It needs no download")
    shutil.copytree(package / "pipeline", "tiny_fr")
    assert locate("tiny_fr") == Path("tiny_fr")
