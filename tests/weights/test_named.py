"""Models by name, by path and by URL: where they are looked for, and how they are downloaded."""

import json
import re
import shutil
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest
import spacy

import spacy_elmo
from spacy_elmo.files.remote import PublishedFile
from spacy_elmo.weights import find_named, is_available, language_of_weights, locate, read_weights
from spacy_elmo.weights.download import DownloadError
from spacy_elmo.weights.named import NAMED, NamedModel, cache_folder, get_named, obtain
from spacy_elmo.weights.safetensors_file import write

from helpers import reference_manylangs
from helpers.commands import run_elmo, shown_by
from helpers.conversions import assert_same_vectors
from helpers.models import check_refused, tiny_bilm, write_allennlp, write_tiny


@pytest.fixture
def server(server, tmp_path, monkeypatch):
    """Serve a model with the name "tiny"."""
    origin = tmp_path / "origin"
    write_tiny(origin, 3)
    names = "options.json", "weights.hdf5"
    server.files |= {f"/t_{name}": (origin / name).read_bytes() for name in names}
    files = tuple(PublishedFile(f"{server.url}/t_{name}") for name in names)
    monkeypatch.setitem(NAMED, "tiny", NamedModel("tiny", "allennlp", "en", "MIT", files))
    return server


@pytest.fixture
def no_network(monkeypatch):
    refuse = Mock(side_effect=AssertionError("the network was touched"))
    return lambda: monkeypatch.setattr(socket.socket, "connect", refuse)


def paths(server):
    return [path for path, _ in server.requests]


def same(path, seed=0):
    return read_weights(path).checksum() == tiny_bilm(seed).checksum()


def test_a_named_model_is_downloaded_once(server, tmp_path, no_network):
    """Only missing files are fetched. Later calls do not use the network."""
    server.script = [{}, {"status": 404}]
    with pytest.raises(DownloadError):
        read_weights("tiny")
    assert same("tiny", 3)
    assert paths(server) == ["/t_options.json"] + ["/t_weights.hdf5"] * 2
    assert (tmp_path / "cache" / "tiny" / "t_weights.hdf5").is_file()
    no_network()
    assert same("tiny", 3)
    config = spacy_elmo.pretrained("tiny")
    assert (config["weights"], config["model"]["lstm_dim"]) == ("tiny", 12)
    assert len(server.requests) == 3


def test_without_a_network_the_error_says_what_to_do(server, tmp_path, no_network):
    server.close()
    names = ["t_options.json", "t_weights.hdf5"]
    for missing in (names, names[1:]):
        with pytest.raises(DownloadError, match="cannot be reached") as error:
            read_weights("tiny")
        assert error.value.__suppress_context__  # one traceback, not one of each library
        for name in names:
            path = tmp_path / "cache" / "tiny" / name
            asked = f"put {server.url}/{name} at {path}" in str(error.value)
            assert asked == (name in missing)
        path = tmp_path / "cache" / "tiny" / missing[0]
        path.write_bytes(server.files[f"/{missing[0]}"])  # as the error advises
    no_network()
    assert same("tiny", 3)


def test_a_file_with_the_name_goes_first(server, tmp_path):
    # "tiny" is the beginning of the names.
    write_tiny(tmp_path, 5).rename(tmp_path / "tiny_weights.hdf5")
    assert find_named("tiny") is None
    assert same("tiny", 5)
    (tmp_path / "tiny_weights.hdf5").unlink()
    write_tiny(tmp_path / "tiny", 5)
    assert same("tiny", 5)
    assert not server.requests


@pytest.mark.threads
def test_threads_download_a_model_once_and_again_with_force(server):
    server.script = [{"pause": 0.05}, {"pause": 0.05}]
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(obtain, [NAMED["tiny"]] * 3))
    assert found == [NAMED["tiny"].path] * 3
    assert len(server.requests) == 2
    obtain(NAMED["tiny"], force=True)
    assert len(server.requests) == 4
    server.script = [{"status": 404}]
    with pytest.raises(DownloadError):
        obtain(NAMED["tiny"], force=True)
    assert same("tiny", 3)  # the old one


def test_the_cache_is_in_the_folder_that_the_environment_sets(monkeypatch, tmp_path):
    monkeypatch.delenv("SPACY_ELMO_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for name, value, place in (
        ("HOME", str(tmp_path), ".cache/spacy-elmo"),
        ("XDG_CACHE_HOME", str(tmp_path / "x"), "x/spacy-elmo"),
        ("SPACY_ELMO_CACHE", "~/models", "models"),
    ):
        monkeypatch.setenv(name, value)
        assert cache_folder() == tmp_path / place
        assert NAMED["small"].path.parent == tmp_path / place / "small"
    (tmp_path / "models").touch()
    with pytest.raises(OSError, match="Set SPACY_ELMO_CACHE to another folder"):
        read_weights("small")


def test_published_models_have_their_names_and_urls():
    assert {"small", "medium", "original", "original-5.5B", "german", "manylangs-fr"} < set(NAMED)
    assert sum(name.startswith("manylangs-") for name in NAMED) == 44
    for name, model in NAMED.items():
        assert name == model.name
        assert model.licence and model.lang
        kind = r"https://.*weights\.hdf5" if model.format == "allennlp" else r"http://.*\.zip"
        assert re.fullmatch(kind, model.files[-1].url)
    every = [file.url for model in NAMED.values() for file in model.files]
    assert len(set(every)) == len(every)
    name = "2x4096_512_2048cnn_2xhighway_5.5B"
    base = f"https://allennlp.s3.amazonaws.com/models/elmo/{name}/elmo_{name}"
    urls = [file.url for file in NAMED["original-5.5B"].files]
    assert urls == [f"{base}_options.json", f"{base}_weights.hdf5"]
    # The corners of the table in ELMoForManyLangs' README, and where it leaves its order.
    corners = {"ar": 136, "de": 142, "en": 144, "fr": 150, "nl": 164, "nb": 165, "zh": 179}
    for name, number in corners.items():
        (file,) = NAMED[f"manylangs-{name}"].files
        assert file.url == f"http://vectors.nlpl.eu/repository/11/{number}.zip"


TYPOS = {"en_smal": "en_small", "orignal": "original", "German": "german", "manylangs_fr": "-fr"}


@pytest.mark.parametrize(("name", "meant"), TYPOS.items())
def test_a_name_with_a_typo_gets_a_suggestion(name, meant, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    message = check_refused(lambda: read_weights(name), f"no weights at '{name}'. Did you mean")
    assert meant in message and len(message) < 120
    assert meant in check_refused(lambda: get_named(name), f"no model named '{name}'. Did you mean")


@pytest.mark.pipelines
def test_a_model_in_an_installed_package_is_found(tmp_path, monkeypatch, no_network):
    """Its pipeline is read without importing the package. A file with the name goes first."""
    package = tmp_path / "site" / "spacy_elmo_tiny_fi"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('imported')")
    nlp = spacy.blank("fi")
    nlp.add_pipe("elmo").set_bilm(tiny_bilm(3))
    nlp.to_disk(package / "pipeline")
    monkeypatch.chdir(tmp_path)
    check_refused(lambda: read_weights("tiny_fi"), "no weights at 'tiny_fi'")
    monkeypatch.syspath_prepend(package.parent)
    no_network()
    assert same("tiny_fi", 3)
    assert language_of_weights("tiny_fi") == "fi"
    config = spacy_elmo.pretrained("tiny_fi")
    assert (config["weights"], config["model"]["lstm_dim"]) == ("tiny_fi", 12)
    check_refused(lambda: get_named("tiny_fi"), "installed package. It needs no download")
    shutil.copytree(package / "pipeline", "tiny_fi")
    assert locate("tiny_fi") == Path("tiny_fi")


# Models on disk


def test_an_hdf5_model_can_be_named_in_every_way(tmp_path):
    path = write_tiny(tmp_path)
    for prefix in ("elmo_small_", "small."):
        for name in ("weights.hdf5", "options.json"):
            shutil.copy(tmp_path / name, tmp_path / (prefix + name))
    names = ["elmo_small_weights.hdf5", "small.weights.hdf5", "elmo_small_", "elmo_small", "small."]
    assert all(same(place) for place in (str(path), tmp_path, *(tmp_path / name for name in names)))
    (tmp_path / "elmo_small_options.json").write_text("{}")  # its own goes before the general one
    with pytest.raises(ValueError, match="elmo_small_options"):
        read_weights(tmp_path / "elmo_small")


def test_weights_go_before_other_hdf5_files(tmp_path):
    path = write_tiny(tmp_path).rename(tmp_path / "model.h5")
    assert same(tmp_path) and same(path)
    path.rename(tmp_path / "weights.hdf5")
    shutil.copy(tmp_path / "weights.hdf5", tmp_path / "a_weights.hdf5")
    (tmp_path / "0_vectors.hdf5").write_bytes(b"")
    assert same(tmp_path)
    (tmp_path / "weights.hdf5").rename(tmp_path / "b_weights.hdf5")
    with pytest.raises(ValueError, match=r"several weights: a_weights.hdf5, b_weights.hdf5"):
        read_weights(tmp_path)
    (tmp_path / "b_weights.hdf5").unlink()
    assert same(tmp_path)


SAFETENSORS = [
    ("x.safetensors", "y.safetensors", "x.softmax.safetensors"),
    ("elmo/model.safetensors", "second/model.safetensors", "softmax.safetensors"),
]


@pytest.mark.parametrize("names", SAFETENSORS)
def test_a_safetensors_model_can_be_named_in_every_way(tmp_path, names):
    """The path is the file, or its folder, which may be a pipeline. A softmax beside it is no
    model."""
    one, two, softmax = (tmp_path / name for name in names)
    if one.parent != tmp_path:
        (tmp_path / "config.cfg").touch()
    for seed, path in ((0, softmax), (1, one), (2, two)):
        path.parent.mkdir(exist_ok=True)
        write(tiny_bilm(seed), path)
        assert seed == 0 or same(str(path), seed)
        assert seed != 1 or same(tmp_path, 1)
    with pytest.raises(ValueError, match=f"several models: {names[0]}, {names[1]}"):
        read_weights(tmp_path)


NO_MODEL = "not a model that spacy-elmo can read"
HUB = "is a module of TensorFlow Hub, which cannot be read. Use 'original'"
PACKED = [f"elmo{ending}" for ending in (".tar.gz", ".tar", ".TGZ", ".tar.zst", ".7z")]


@pytest.mark.parametrize(
    ("name", "of_folder", "of_file"),
    [
        *((name, NO_MODEL, NO_MODEL) for name in ("model.pkl", "notes.txt")),
        *((name, NO_MODEL, "Unpack it") for name in PACKED),
        ("saved_model.pb", HUB, NO_MODEL),
    ],
)
def test_other_files_are_no_model(tmp_path, name, of_folder, of_file):
    folder = tmp_path / "m"
    check_refused(lambda: read_weights(folder), "no weights at", folder, "Give a name from")
    folder.mkdir()
    (folder / name).write_bytes(b"x")
    packed = Path(shutil.make_archive(str(tmp_path / "m"), "zip", folder))
    for place, message in ((folder, of_folder), (folder / name, of_file), (packed, of_folder)):
        check_refused(lambda: read_weights(place), place, message)  # noqa: B023


def test_the_bundled_model_has_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("spacy_elmo.weights.named._BUNDLED_FILE", tmp_path / "bundled.safetensors")
    assert not is_available("en_small") and not is_available(None)
    check_refused(lambda: get_named("en_small"), "part of this package")
    with pytest.raises(ValueError, match="'en_small' is not in this version"):
        read_weights("en_small")
    write(tiny_bilm(1), tmp_path / "bundled.safetensors")
    assert is_available("en_small") and is_available(tmp_path)
    assert same("en_small", 1)
    write_tiny(tmp_path / "en_small", seed=2)  # a path of that name goes first
    assert same("en_small", 2)


def test_a_file_that_another_process_is_writing_is_refused(tmp_path):
    fcntl = pytest.importorskip("fcntl")
    path = write_tiny(tmp_path)
    with path.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # as HDF5 locks what it writes
        with pytest.raises(ValueError, match="another process is writing to this file") as error:
            read_weights(path)
    assert str(path) in str(error.value) and "not a readable" not in str(error.value)
    assert same(path)


@pytest.fixture
def origin(tmp_path):
    """Write a model in three formats, and return a file of each by the end of its name."""
    write(tiny_bilm(3), tmp_path / "x.safetensors")
    hdf5 = write_allennlp(tiny_bilm(3), tmp_path / "hdf5")
    reference_manylangs.write_random(tmp_path / "fi")
    packed = shutil.make_archive(str(tmp_path / "fi"), "zip", tmp_path / "fi")
    return {"safetensors": tmp_path / "x.safetensors", "hdf5": hdf5, "zip": Path(packed)}


def publish(server, file, name):
    """Serve a file and its options, and return the URL of the file."""
    server.files[f"/m/{name}"] = file.read_bytes()
    options = file.with_name("options.json")
    if options.is_file():
        server.files["/m/options.json"] = options.read_bytes()
    return f"{server.url}/m/{name}"


@pytest.mark.pipelines
@pytest.mark.commands
@pytest.mark.parametrize("kind", ["safetensors", "hdf5", "zip"])
def test_a_url_can_be_used_everywhere(server, origin, tmp_path, monkeypatch, kind):
    url = publish(server, origin[kind], f"model.{kind}")
    assert_same_vectors(url, origin[kind])
    config = spacy_elmo.pretrained(url)
    assert config["weights"] == url
    told = json.loads(run_elmo("info", url, "--json").stdout)
    assert (told["urls"][-1], told["checksum"]) == (url, read_weights(origin[kind]).checksum())
    assert told["path"].startswith(str(tmp_path / "cache" / "url-"))
    assert told["provenance"]["urls"] == told["urls"]
    assert "name" not in told and "licence" not in told
    run_elmo("convert", url, tmp_path / "pipeline", "--lang", "fi")
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


def test_an_unreachable_url_lists_the_files_to_fetch(server, origin, tmp_path):
    url = publish(server, origin["hdf5"], "w.hdf5")
    server.close()
    with pytest.raises(DownloadError) as error:
        read_weights(url)
    folder = find_named(url).folder
    ways = f"put {server.url}/m/w_options.json (or options.json) at {folder / 'w_options.json'}; "
    assert f"{ways}put {url} at {folder / 'w.hdf5'}" in str(error.value)
    (folder / "w.hdf5").write_bytes(origin["hdf5"].read_bytes())
    # The options can have any of the names that AllenNLP's files have.
    for name in ("w_options.json", "woptions.json", "options.json"):
        (folder / name).write_bytes(origin["hdf5"].with_name("options.json").read_bytes())
        assert_same_vectors(url, origin["hdf5"])
        (folder / name).unlink()


@pytest.mark.commands
def test_every_url_has_its_own_place(server, origin):
    """A query is a part of the URL, but not of the name. `--force` fetches again."""
    one = publish(server, origin["safetensors"], "a.safetensors?download=true")
    write(tiny_bilm(4), origin["safetensors"])
    two = publish(server, origin["safetensors"], "a.safetensors")
    for url, seed in ((one, 3), (two, 4)):
        assert "unknown" in shown_by("download", url)
        assert read_weights(url).checksum() == tiny_bilm(seed).checksum()
        assert find_named(url).path.name == "a.safetensors"
    run_elmo("download", two, "--force")
    assert paths(server) == ["/m/a.safetensors?download=true"] + ["/m/a.safetensors"] * 2


def test_wrong_urls_are_refused_before_a_download(server):
    for url, message in (
        ("http://example.org/weights.hdf5", "only downloaded from https"),
        ("https://example.org/weights.bin", "must end in .safetensors, .hdf5, .h5 or .zip"),
    ):
        check_refused(lambda: spacy_elmo.pretrained(url), url, message)  # noqa: B023
    assert not server.requests


def test_the_url_of_a_published_model_means_this_model():
    assert find_named(NAMED["german"].files[-1].url) is NAMED["german"]
