"""Models by URL: `read_weights`, `pretrained`, `info`, `convert`, `download` take one."""

import json
import socket
import zipfile

import pytest
import spacy

import spacy_elmo
import spacy_elmo.cli
from spacy_elmo.weights import find_named, read_weights, safetensors_file
from spacy_elmo.weights.download import DownloadError
from spacy_elmo.weights.named import NAMED

from helpers import reference_manylangs
from helpers.commands import run_elmo
from helpers.conversions import assert_same_vectors
from helpers.models import check_refused, tiny_bilm, write_allennlp


@pytest.fixture
def origin(tmp_path):
    """A model in three formats: a file of each, by the end of its name."""
    safetensors_file.write(tiny_bilm(3), tmp_path / "x.safetensors")
    hdf5 = write_allennlp(tiny_bilm(3), tmp_path / "hdf5")
    sizes = reference_manylangs.sizes_of()
    tensors = reference_manylangs.random_tensors(sizes)
    folder = reference_manylangs.write_folder(tmp_path / "fi", sizes, tensors)
    with zipfile.ZipFile(tmp_path / "fi.zip", "w") as archive:
        for path in folder.iterdir():
            archive.write(path, path.name)
    return {"safetensors": tmp_path / "x.safetensors", "hdf5": hdf5, "zip": tmp_path / "fi.zip"}


def publish(server, file, name):
    """RETURNS (str): The URL of a file; options stand beside it."""
    server.files[f"/m/{name}"] = file.read_bytes()
    options = file.with_name("options.json")
    if options.is_file():
        server.files["/m/options.json"] = options.read_bytes()
    return f"{server.url}/m/{name}"


def run(*arguments, status=0):
    return run_elmo(*arguments, status=status).stdout


def paths(server):
    return [path for path, _ in server.requests]


@pytest.mark.parametrize("kind", ["safetensors", "hdf5", "zip"])
def test_every_use_of_a_url(server, origin, tmp_path, monkeypatch, kind):
    url = publish(server, origin[kind], f"model.{kind}")
    assert_same_vectors(url, origin[kind])
    config = spacy_elmo.pretrained(url)
    assert config["weights"] == url
    told = json.loads(run("info", url, "--json"))
    assert (told["urls"][-1], told["checksum"]) == (url, read_weights(origin[kind]).checksum())
    assert told["path"].startswith(str(tmp_path / "cache" / "url-"))
    assert told["provenance"]["urls"] == told["urls"]
    assert "name" not in told and "licence" not in told
    run("convert", url, tmp_path / "pipeline", "--lang", "fi")
    assert spacy.load(tmp_path / "pipeline").lang == "fi"
    assert_same_vectors(tmp_path / "pipeline", origin[kind])
    # Once for all of this, and then without the network.
    names = ("model_options.json", "modeloptions.json", "options.json")
    fetched = [f"/m/{name}" for name in names] if kind == "hdf5" else []
    assert paths(server) == [*fetched, f"/m/model.{kind}"]
    monkeypatch.setattr(socket.socket, "connect", lambda *_: 1 / 0)
    nlp = spacy.blank("fi")
    nlp.add_pipe("elmo", config=config)
    assert nlp("yksi kaksi")[0].vector.any()


def test_options_by_their_own_name_go_first(server, origin):
    url = publish(server, origin["hdf5"], "elmo_small_weights.hdf5")
    server.files["/m/elmo_small_options.json"] = server.files.pop("/m/options.json")
    assert_same_vectors(url, origin["hdf5"])
    assert paths(server) == ["/m/elmo_small_options.json", "/m/elmo_small_weights.hdf5"]


def test_options_that_are_nowhere(server, origin, tmp_path):
    url = publish(server, origin["hdf5"], "elmo_small_weights.hdf5")
    del server.files["/m/options.json"]
    with pytest.raises(DownloadError, match="m/options.json cannot be fetched: HTTP status 404"):
        read_weights(url)
    assert not list(tmp_path.glob("cache/*/*.hdf5"))


def test_what_to_fetch_for_a_url_that_cannot_be_reached(server, origin, tmp_path):
    url = publish(server, origin["hdf5"], "w.hdf5")
    server.close()
    with pytest.raises(DownloadError) as error:
        read_weights(url)
    folder = find_named(url).folder
    ways = f"put {server.url}/m/w_options.json (or options.json) at {folder / 'w_options.json'}; "
    assert f"{ways}put {url} at {folder / 'w.hdf5'}" in str(error.value)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "w.hdf5").write_bytes(origin["hdf5"].read_bytes())
    # By any of the names, so that what was fetched with an earlier version stays.
    for name in ("w_options.json", "woptions.json", "options.json"):
        (folder / name).write_bytes(origin["hdf5"].with_name("options.json").read_bytes())
        assert_same_vectors(url, origin["hdf5"])
        (folder / name).unlink()


def test_a_query_is_no_part_of_the_name(server, origin):
    publish(server, origin["safetensors"], "a.safetensors?download=true")
    url = f"{server.url}/m/a.safetensors?download=true"
    assert_same_vectors(url, origin["safetensors"])
    assert find_named(url).path.name == "a.safetensors"


def test_different_urls_have_different_places(server, origin):
    one = publish(server, origin["safetensors"], "a.safetensors")
    safetensors_file.write(tiny_bilm(4), origin["safetensors"])
    server.files["/other/a.safetensors"] = origin["safetensors"].read_bytes()
    two = f"{server.url}/other/a.safetensors"
    assert read_weights(one).checksum() == tiny_bilm(3).checksum()
    assert read_weights(two).checksum() == tiny_bilm(4).checksum()


def test_download_fetches_again(server, origin):
    url = publish(server, origin["safetensors"], "a.safetensors")
    assert "unknown" in " ".join(run("download", url).split())
    run("download", url, "--force")
    assert paths(server) == ["/m/a.safetensors"] * 2


@pytest.mark.parametrize("kind", ["safetensors", "hdf5", "zip"])
def test_what_is_no_such_file_is_not_kept(server, origin, tmp_path, kind):
    url = publish(server, origin[kind], f"weights.{kind}")
    server.files[f"/m/weights.{kind}"] = b"<html>Not found</html>"
    output = " ".join(run("info", url, status=4).split())
    assert f"is not a .{kind} file" in output
    assert "Traceback" not in output
    assert not list(tmp_path.glob(f"cache/*/*.{kind}"))


def test_urls_that_are_refused_before_anything_is_fetched(server):
    for url, message in (
        ("http://example.org/weights.hdf5", "only downloaded from https"),
        ("ftp://example.org/weights.hdf5", "only downloaded from https"),
        ("https://example.org/weights.bin", "must end in .safetensors, .hdf5, .h5 or .zip"),
        ("https://example.org/", "must end in .safetensors"),
    ):
        check_refused(lambda: spacy_elmo.pretrained(url), url, message)  # noqa: B023
    assert not server.requests


def test_the_url_of_a_published_model_is_that_model():
    german = NAMED["german"]
    assert find_named(german.files[-1].url) is german
    assert find_named("https://example.org/weights.hdf5") != german
