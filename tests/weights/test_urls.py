"""Models by URL: `read_weights`, `pretrained`, `info`, `convert`, `download` take one."""

import json
import shutil
import socket
from pathlib import Path

import pytest
import spacy

import spacy_elmo
import spacy_elmo.cli
from spacy_elmo.weights import find_named, read_weights, safetensors_file
from spacy_elmo.weights.download import DownloadError
from spacy_elmo.weights.named import NAMED

from helpers import reference_manylangs
from helpers.commands import run_elmo, shown_by
from helpers.conversions import assert_same_vectors
from helpers.models import check_refused, tiny_bilm, write_allennlp


@pytest.fixture
def origin(tmp_path):
    """A model in three formats: a file of each, by the end of its name."""
    safetensors_file.write(tiny_bilm(3), tmp_path / "x.safetensors")
    hdf5 = write_allennlp(tiny_bilm(3), tmp_path / "hdf5")
    reference_manylangs.write_random(tmp_path / "fi")
    packed = shutil.make_archive(str(tmp_path / "fi"), "zip", tmp_path / "fi")
    return {"safetensors": tmp_path / "x.safetensors", "hdf5": hdf5, "zip": Path(packed)}


def publish(server, file, name):
    """RETURNS (str): The URL of a file; options stand beside it."""
    server.files[f"/m/{name}"] = file.read_bytes()
    options = file.with_name("options.json")
    if options.is_file():
        server.files["/m/options.json"] = options.read_bytes()
    return f"{server.url}/m/{name}"


def run(*arguments):
    return run_elmo(*arguments).stdout


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


def test_options_by_their_own_name_go_first(server, origin, tmp_path):
    url = publish(server, origin["hdf5"], "elmo_small_weights.hdf5")
    options = server.files.pop("/m/options.json")
    with pytest.raises(DownloadError, match="m/options.json cannot be fetched: HTTP status 404"):
        read_weights(url)
    assert not list(tmp_path.glob("cache/*/*.hdf5"))
    server.requests.clear()
    server.files["/m/elmo_small_options.json"] = options
    assert_same_vectors(url, origin["hdf5"])
    assert paths(server) == ["/m/elmo_small_options.json", "/m/elmo_small_weights.hdf5"]


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


def test_every_url_has_a_place_of_its_own(server, origin):
    """A query is a part of the URL, but not of the name."""
    one = publish(server, origin["safetensors"], "a.safetensors?download=true")
    safetensors_file.write(tiny_bilm(4), origin["safetensors"])
    two = publish(server, origin["safetensors"], "a.safetensors")
    for url, seed in ((one, 3), (two, 4)):
        assert read_weights(url).checksum() == tiny_bilm(seed).checksum()
        assert find_named(url).path.name == "a.safetensors"


def test_download_fetches_again(server, origin):
    url = publish(server, origin["safetensors"], "a.safetensors")
    assert "unknown" in run("download", url)
    run("download", url, "--force")
    assert paths(server) == ["/m/a.safetensors"] * 2


@pytest.mark.parametrize("kind", ["safetensors", "hdf5", "zip"])
def test_what_is_no_such_file_is_not_kept(server, origin, tmp_path, kind):
    url = publish(server, origin[kind], f"weights.{kind}")
    server.files[f"/m/weights.{kind}"] = b"<html>Not found</html>"
    output = shown_by("info", url, status=4)
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
