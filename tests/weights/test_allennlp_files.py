"""Softmax and vocabulary as they were published: the marks anywhere, in files of other names."""

import gzip
import json
import shutil
from functools import partial

import h5py
import numpy as np
import pytest

from spacy_elmo.language_model import perplexity as module
from spacy_elmo.language_model.frozen import read_language_model
from spacy_elmo.language_model.model import LanguageModel
from spacy_elmo.pretraining.initial_model import share_table
from spacy_elmo.weights import read_weights
from spacy_elmo.weights.convert import convert
from spacy_elmo.weights.formats import describe, read_bundle

from helpers import reference
from helpers.commands import run_elmo, shown_by
from helpers.conversions import write_zip
from helpers.models import SENTENCES, check_layers, check_refused, write_tiny
from helpers.prepared import content
from helpers.softmaxes import MODELS, WORDS, losses_of, read_words

TEXT = ["the cat sat .", "dogs <UNK> naïve"]
# Places of WORDS in a file: as bilm-tf's own vocabularies begin, and two others.
ORDERS = [[1, 0, 2, 3, 4, 5, 6, 7], [3, 4, 2, 5, 0, 6, 7, 1], [7, 6, 5, 4, 3, 2, 1, 0]]
NAME = "elmo_2x1024_128_2048cnn_1xhighway"


def reordered(datasets, order):
    tables = ("softmax/W", "softmax/b", "embedding")
    return {name: v[order] if name in tables else v for name, v in datasets.items()}


def write(folder, kind="bytes", order=ORDERS[0]):
    """A model whose rows stand in another order than those of `MODELS`."""
    options, datasets = MODELS[kind]()
    words = [WORDS[i] for i in order]
    return reference.write_hdf5(folder, options, reordered(datasets, order), words)


def publish(folder):
    """The files of a model as AllenNLP published them: the softmax stands beside the weights."""
    path = write(folder)
    with (
        h5py.File(path, "a") as file,
        h5py.File(folder / f"{NAME}_softmax_weights.hdf5", "w") as softmax,
    ):
        for name in ("softmax/W", "softmax/b"):
            softmax[name] = file[name][()]
        del file["softmax"]
    for name in ("weights.hdf5", "options.json"):
        (folder / name).rename(folder / f"{NAME}_{name}")
    (folder / "vocab.txt").rename(folder / "vocab-2016-09-10.txt")
    return folder / f"{NAME}_weights.hdf5"


def check_softmax(prediction):
    """Each word of `MODELS` has the probability that its row gives it."""
    softmax, vocabulary = prediction
    _, datasets = MODELS["bytes"]()
    assert vocabulary.words == WORDS
    np.testing.assert_array_equal(softmax.arrays()["weight"], datasets["softmax/W"])
    np.testing.assert_array_equal(softmax.arrays()["bias"], datasets["softmax/b"])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["bytes", "words"])
@pytest.mark.parametrize("order", ORDERS)
def test_marks_anywhere_in_the_vocabulary(tmp_path, monkeypatch, kind, order):
    monkeypatch.setattr(module, "perplexity", partial(module.perplexity, n_streams=1))
    path = write(tmp_path / "m", kind, order)
    (tmp_path / "text.txt").write_text("\n".join(TEXT), "utf8")
    options, datasets = MODELS[kind]()
    losses = losses_of(options, datasets, [line.split() for line in TEXT])
    convert(path, tmp_path / "a" / "weights.hdf5")
    convert(path, tmp_path / "b.safetensors")
    for source in (path, tmp_path / "a", tmp_path / "b.safetensors"):
        shown = run_elmo("perplexity", source, tmp_path / "text.txt", "--json").stdout
        means = {"forward": np.mean(losses[0]), "backward": np.mean(losses[1])}
        for direction, mean in means.items():
            got = json.loads(shown)["total"][direction]
            assert got == pytest.approx(np.exp(mean), rel=1e-5)
        expected = reference.layers(options, datasets, SENTENCES, words=read_words(options))[0]
        check_layers(read_weights(source).embed(SENTENCES)[0], expected)


def test_every_command_takes_such_a_model(tmp_path):
    path, usual = write(tmp_path / "a"), write(tmp_path / "b", order=range(len(WORDS)))
    assert json.loads(run_elmo("info", path, "--json").stdout)["softmax"]["words"] == 8
    for command in (
        ("substitutes", "--sentence", "The cat sat .", "--token", "cat"),
        ("sample", "--n", "2", "--max-tokens", "9"),
    ):
        name, *options = command
        assert shown_by(name, path, *options) == shown_by(name, usual, *options)
    shown_by("convert", path, tmp_path / "a.safetensors", "--no-softmax")


def test_shared_table_of_a_vocabulary_in_another_order(tmp_path):
    bundle = read_bundle(write(tmp_path, "words"))
    softmax, vocabulary = bundle.prediction
    model = LanguageModel(bundle.bilm.thaw(), softmax.thaw(), vocabulary)
    share_table(model)
    assert model.bilm.encoder.words.weight is model.softmax.weight


def test_rows_that_no_word_reaches(tmp_path):
    """bilm-tf strips lines and uses the last row of a word."""
    options, datasets = MODELS["bytes"]()
    lines = ["the ", "</S>", "cat ", "<S>", "<UNK>", "sat", "cat", "the"]
    path = reference.write_hdf5(tmp_path, options, datasets, lines)
    softmax, vocabulary = read_bundle(path).prediction
    assert vocabulary.words == ["<S>", "</S>", "<UNK>", "sat", "cat", "the"]
    rows = [3, 1, 4, 5, 6, 7]
    np.testing.assert_array_equal(softmax.arrays()["weight"], datasets["softmax/W"][rows])
    np.testing.assert_array_equal(softmax.arrays()["bias"], datasets["softmax/b"][rows])


@pytest.mark.parametrize("place", ["inside", "beside"])
@pytest.mark.parametrize("vocabulary", ["none", "of another softmax"])
def test_a_softmax_that_is_not_wanted_is_not_read(tmp_path, place, vocabulary):
    path = write(tmp_path / "m") if place == "inside" else publish(tmp_path / "m")
    (words,) = path.parent.glob("vocab*")
    words.unlink() if vocabulary == "none" else words.write_text("the\n", "utf8")
    _, lost = convert(path, tmp_path / "a.safetensors", keep_softmax=False)
    assert lost == [] and read_bundle(tmp_path / "a.safetensors").prediction is None


def test_softmax_in_a_file_of_its_own(tmp_path):
    path = publish(tmp_path / "m")
    packed = write_zip(tmp_path / "m.zip", content(path.parent))
    for source in (path, path.parent, path.parent / NAME, packed):
        check_softmax(read_bundle(source).prediction)
    names = [file["name"] for file in describe(path)["files"]]
    assert set(names) == {file.name for file in path.parent.iterdir()}
    (path.parent / "vocab-2016-09-10.txt").rename(tmp_path / "elsewhere.txt")
    assert read_bundle(path).missing == "vocab.txt"


def test_weights_whose_name_is_that_of_a_softmax(tmp_path):
    path = write(tmp_path)
    path.rename(tmp_path / "model_with_softmax_weights.hdf5")
    check_softmax(read_bundle(tmp_path).prediction)


def test_softmax_that_belongs_to_other_weights(tmp_path):
    path = publish(tmp_path)
    softmax = tmp_path / f"{NAME}_softmax_weights.hdf5"
    with h5py.File(softmax, "a") as file:
        del file["softmax/W"]
        file["softmax/W"] = np.zeros((8, 6), "float32")
    check_refused(lambda: read_bundle(path), softmax, "(8, 6)", "(8, 5)")
    assert read_weights(path).config.projection_dim == 5


@pytest.mark.parametrize(
    "name", ["vocab.txt.gz", "elmo_vocab.txt.gz", "vocab-2016-09-10.txt.gz", "vocab-news-500.txt"]
)
def test_names_of_vocabularies(tmp_path, name):
    write(tmp_path)
    for file in ("weights.hdf5", "options.json"):
        (tmp_path / file).rename(tmp_path / f"elmo_{file}")
    words = (tmp_path / "vocab.txt").read_bytes()
    (tmp_path / "vocab.txt").unlink()
    (tmp_path / name).write_bytes(gzip.compress(words) if name.endswith(".gz") else words)
    check_softmax(read_bundle(tmp_path / "elmo").prediction)
    # Of two vocabularies only one with the usual name certainly belongs to the weights.
    (tmp_path / "vocab-other.txt").write_text("the\n", "utf8")
    assert (read_bundle(tmp_path / "elmo").prediction is None) == name.startswith("vocab-")


@pytest.mark.parametrize("file", ["options.json", "vocab.txt"])
def test_byte_order_mark(tmp_path, file):
    path = write(tmp_path, "words")
    before = read_language_model(path)
    (tmp_path / file).write_bytes(b"\xef\xbb\xbf" + (tmp_path / file).read_bytes())
    after = read_language_model(path)
    assert after.vocabulary.words == WORDS
    assert after.bilm.checksum() == before.bilm.checksum()


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("elmo.h5", ["elmo_options.json", "elmooptions.json", "options.json"]),
        ("elmo_weights.hdf5", ["elmo_options.json", "options.json"]),
        ("small.weights.hdf5", ["small.options.json", "options.json"]),
        ("weights.hdf5", ["options.json"]),
    ],
)
def test_where_options_are_expected(tmp_path, name, names):
    path = write_tiny(tmp_path).rename(tmp_path / name)
    options = (tmp_path / "options.json").rename(tmp_path / "elsewhere")
    message = check_refused(lambda: read_weights(path))
    assert message.endswith("Expected " + " or ".join(str(tmp_path / each) for each in names))
    for each in names:
        options = options.rename(tmp_path / each)
        read_weights(path)


def test_names_that_earlier_versions_wrote_beside_weights(tmp_path):
    write(tmp_path).rename(tmp_path / "c.hdf5")
    for name in ("options.json", "vocab.txt"):
        (tmp_path / name).rename(tmp_path / f"c{name}")
    (tmp_path / "options.json").write_text("{}", "utf8")  # of another model
    check_softmax(read_bundle(tmp_path / "c.hdf5").prediction)
    convert(tmp_path / "c.hdf5", tmp_path / "new" / "c.hdf5")
    written = sorted(file.name for file in (tmp_path / "new").iterdir())
    assert written == ["c.hdf5", "c_options.json", "c_vocab.txt"]


def test_module_of_tensorflow_hub(tmp_path):
    (tmp_path / "variables").mkdir()
    for name in ("saved_model.pb", "variables/variables.index"):
        (tmp_path / name).write_bytes(b"x")
    check_refused(lambda: read_weights(tmp_path), tmp_path, "TensorFlow Hub", "'original'")
    path = shutil.make_archive(str(tmp_path / "hub"), "zip", tmp_path, "saved_model.pb")
    check_refused(lambda: read_weights(path), path, "TensorFlow Hub", "'original'")


def test_hidden_files_of_macos(tmp_path):
    folder = tmp_path / "model"
    path = publish(folder)
    expected = read_bundle(path).bilm.embed(SENTENCES)[0]
    for name in content(folder):
        (folder / f"._{name}").write_bytes(b"\0")
    files = {f"model/{name}": data for name, data in content(folder).items()}
    more = {f"__MACOSX/model/._{name}": b"\0" for name in content(folder)}
    packed = write_zip(tmp_path / "model.zip", {".DS_Store": b"\0", **files, **more})
    for source in (folder, packed):
        bundle = read_bundle(source)
        check_layers(bundle.bilm.embed(SENTENCES)[0], expected)
        check_softmax(bundle.prediction)


@pytest.mark.parametrize("ending", [".tar.gz", ".tar", ".TGZ", ".tar.zst", ".7z"])
def test_archives_that_are_not_read(tmp_path, ending):
    path = tmp_path / f"elmo{ending}"
    path.write_bytes(b"x")
    check_refused(lambda: read_weights(path), path, "Unpack it")
