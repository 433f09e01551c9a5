"""Files of a published model: softmax and vocabulary under any names, with the marks anywhere, and
token vectors that are written in a file."""

import json
from functools import partial

import h5py
import numpy as np
import pytest

from spacy_elmo.language_model import perplexity as module
from spacy_elmo.weights import read_weights
from spacy_elmo.weights.convert import convert
from spacy_elmo.weights.formats import describe, read_bundle
from spacy_elmo.weights.readers import make_allennlp_reader

from helpers import reference
from helpers.commands import run_elmo
from helpers.conversions import write_zip
from helpers.gzipped import gzipped
from helpers.models import SENTENCES, check_layers, check_refused, tiny_options, write_tiny
from helpers.prepared import content
from helpers.reference_manylangs import write_random
from helpers.runs import assert_same_arrays
from helpers.softmaxes import MODELS, WORDS, losses_of, read_words

TEXT = ["the cat sat .", "dogs <UNK> naïve"]
# Places of WORDS in a file: as bilm-tf's own vocabularies begin, and two others.
ORDERS = [[1, 0, 2, 3, 4, 5, 6, 7], [3, 4, 2, 5, 0, 6, 7, 1], [7, 6, 5, 4, 3, 2, 1, 0]]
NAME = "elmo_2x1024_128_2048cnn_1xhighway"


def write(folder, kind="bytes", order=ORDERS[0]):
    """Write a model whose rows have another order than in `MODELS`."""
    options, datasets = MODELS[kind]()
    for name in datasets.keys() & {"softmax/W", "softmax/b", "embedding"}:
        datasets[name] = datasets[name][order]
    return reference.write_hdf5(folder, options, datasets, [WORDS[i] for i in order])


def publish(folder):
    """Write the files of a model as AllenNLP published them, with the softmax beside the
    weights."""
    path = write(folder)
    softmax = folder / f"{NAME}_softmax_weights.hdf5"
    with h5py.File(path, "a") as file, h5py.File(softmax, "w") as beside:
        file.copy("softmax", beside)
        del file["softmax"]
    for name in ("weights.hdf5", "options.json"):
        (folder / name).rename(folder / f"{NAME}_{name}")
    (folder / "vocab.txt").rename(folder / "vocab-2016-09-10.txt")
    return folder / f"{NAME}_weights.hdf5"


def check_softmax(prediction):
    """Check that each word of `MODELS` has the probability of its row."""
    softmax, vocabulary = prediction
    _, data = MODELS["bytes"]()
    assert vocabulary.words == WORDS
    assert_same_arrays(softmax.arrays(), {"weight": data["softmax/W"], "bias": data["softmax/b"]})


@pytest.mark.commands
@pytest.mark.conversions
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["bytes", "words"])
@pytest.mark.parametrize("order", ORDERS)
def test_marks_can_be_anywhere_in_the_vocabulary(tmp_path, monkeypatch, kind, order):
    monkeypatch.setattr(module, "perplexity", partial(module.perplexity, n_streams=1))
    path = write(tmp_path / "m", kind, order)
    (tmp_path / "text.txt").write_text("\n".join(TEXT), "utf8")
    options, datasets = MODELS[kind]()
    losses = losses_of(options, datasets, [line.split() for line in TEXT])
    convert(path, tmp_path / "a" / "weights.hdf5")
    convert(path, tmp_path / "b.safetensors")
    for source in (path, tmp_path / "a", tmp_path / "b.safetensors"):
        shown = run_elmo("perplexity", source, tmp_path / "text.txt", "--json").stdout
        found = [json.loads(shown)["total"][direction] for direction in ("forward", "backward")]
        assert found == pytest.approx(np.exp([np.mean(each) for each in losses]), rel=1e-5)
        expected = reference.layers(options, datasets, SENTENCES, words=read_words(options))[0]
        bundle = read_bundle(source)
        check_layers(bundle.bilm.embed(SENTENCES)[0], expected)
        read = bundle.bilm.vocabularies.words
        assert kind == "bytes" or list(read.strings) == bundle.prediction[1].words


@pytest.mark.conversions
def test_vocabularies_are_read_as_by_bilm_tf(tmp_path):
    """Lines are stripped, one line is no word, and the last of equal words counts. Rows without a
    word stay."""
    options, data = MODELS["words"]()
    lines = ["the ", "</S>", "!!!MAXTERMID", "cat\r", "<S>", "<UNK>", "sat", "cat", "the"]
    path = reference.write_hdf5(tmp_path, options, data, lines)
    words, rows = ["<S>", "</S>", "<UNK>", "sat", "cat", "the"], [3, 1, 4, 5, 6, 7]
    softmax, vocabulary = read_bundle(path).prediction
    assert vocabulary.words == words
    wanted = {"weight": data["softmax/W"][rows], "bias": data["softmax/b"][rows]}
    assert_same_arrays(softmax.arrays(), wanted)
    convert(path, tmp_path / "again" / "weights.hdf5", keep_softmax=False)
    for source in (path, tmp_path / "again"):
        vectors = read_weights(source).token_vectors(words)
        np.testing.assert_array_equal(vectors, data["embedding"][rows])


@pytest.mark.conversions
@pytest.mark.parametrize("place", ["inside", "beside"])
@pytest.mark.parametrize("vocabulary", ["none", "of another softmax"])
def test_a_softmax_that_is_not_needed_is_not_read(tmp_path, place, vocabulary):
    path = write(tmp_path / "m") if place == "inside" else publish(tmp_path / "m")
    (words,) = path.parent.glob("vocab*")
    words.unlink() if vocabulary == "none" else words.write_text("the\n", "utf8")
    _, lost = convert(path, tmp_path / "a.safetensors", keep_softmax=False)
    assert lost == [] and read_bundle(tmp_path / "a.safetensors").prediction is None


def test_a_softmax_in_its_own_file_is_found_among_hidden_files_of_macos(tmp_path):
    path = publish(tmp_path / "m")
    files = content(path.parent)
    bundle = read_bundle(path)
    found = describe(path)
    assert {file["name"] for file in found["files"]} == files.keys()
    assert found["softmax"] == {"kind": "full", "words": 8}
    for name in files:
        path.with_name(f"._{name}").write_bytes(b"\0")
    inside = {f"model/{name}": data for name, data in content(path.parent).items()}
    more = {f"__MACOSX/model/._{name}": b"\0" for name in files}
    packed = write_zip(tmp_path / "m.zip", {".DS_Store": b"\0", **inside, **more})
    for source in (path, path.parent, path.parent / NAME, packed):
        again = read_bundle(source)
        check_softmax(again.prediction)
        assert again.bilm.checksum() == bundle.bilm.checksum()
    path.with_name("vocab-2016-09-10.txt").unlink()
    bundle = read_bundle(path)
    assert (bundle.prediction, bundle.missing) == (None, "vocab.txt")
    assert bundle.extras == ["the softmax, because its vocab.txt is missing"]


def test_weights_can_have_the_name_of_a_softmax(tmp_path):
    path = write(tmp_path)
    path.rename(tmp_path / "model_with_softmax_weights.hdf5")
    check_softmax(read_bundle(tmp_path).prediction)


@pytest.mark.parametrize(
    "name", ["vocab.txt.gz", "elmo_vocab.txt.gz", "vocab-2016-09-10.txt.gz", "vocab-news-500.txt"]
)
def test_vocabularies_with_published_names_are_found(tmp_path, name):
    write(tmp_path)
    for file in ("weights.hdf5", "options.json"):
        (tmp_path / file).rename(tmp_path / f"elmo_{file}")
    words = (tmp_path / "vocab.txt").read_bytes()
    (tmp_path / "vocab.txt").unlink()
    (tmp_path / name).write_bytes(gzipped(words) if name.endswith(".gz") else words)
    check_softmax(read_bundle(tmp_path / "elmo").prediction)
    # Of two vocabularies only one with the usual name certainly belongs to the weights.
    (tmp_path / "vocab-other.txt").write_text("the\n", "utf8")
    assert (read_bundle(tmp_path / "elmo").prediction is None) == name.startswith("vocab-")


@pytest.mark.parametrize("write", [partial(write, kind="words"), write_random])
def test_byte_order_marks_are_skipped(tmp_path, write):
    """Every text file of AllenNLP's and ELMoForManyLangs' models has one."""
    before = read_bundle(write(tmp_path))
    for file in (*tmp_path.glob("*.json"), *tmp_path.glob("*.txt"), *tmp_path.glob("*.dic")):
        file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    after = read_bundle(tmp_path)
    assert after.bilm.checksum() == before.bilm.checksum()
    assert not before.prediction or after.prediction[1].words == WORDS


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("elmo.h5", ["elmo_options.json", "elmooptions.json", "options.json"]),
        ("small.weights.hdf5", ["small.options.json", "options.json"]),
        ("weights.hdf5", ["options.json"]),
    ],
)
def test_a_missing_options_file_is_named_with_its_expected_names(tmp_path, name, names):
    path = write_tiny(tmp_path).rename(tmp_path / name)
    options = (tmp_path / "options.json").rename(tmp_path / "elsewhere")
    message = check_refused(lambda: read_weights(path))
    assert message.endswith("Expected " + " or ".join(str(tmp_path / each) for each in names))
    for each in names:
        options = options.rename(tmp_path / each)
        read_weights(path)


@pytest.mark.conversions
def test_names_that_earlier_versions_wrote_are_found(tmp_path):
    write(tmp_path).rename(tmp_path / "c.hdf5")
    for name in ("options.json", "vocab.txt"):
        (tmp_path / name).rename(tmp_path / f"c{name}")
    (tmp_path / "options.json").write_text("{}", "utf8")  # of another model
    check_softmax(read_bundle(tmp_path / "c.hdf5").prediction)
    convert(tmp_path / "c.hdf5", tmp_path / "new" / "c.hdf5")
    written = sorted(file.name for file in (tmp_path / "new").iterdir())
    assert written == ["c.hdf5", "c_options.json", "c_vocab.txt"]


DUMPED = ["<S>", "</S>", "<UNK>", "the", "naïve", "日本", "the", "a"]


def test_token_vectors_are_written_as_by_bilm_tf(tmp_path):
    """The file of its `dump_token_embeddings` has a row for each word of the vocabulary."""
    write_tiny(tmp_path)
    path, vocabulary = tmp_path / "weights.hdf5", tmp_path / "vocab.txt"
    vocabulary.write_text("".join(f"{word}\n" for word in DUMPED), "utf8")
    data = reference.read_hdf5(path)
    rows = [reference.token_vector(tiny_options(), data, word) for word in DUMPED]
    with h5py.File(tmp_path / "vectors.hdf5", "w") as file:
        file["embedding"] = np.array(rows, "float32")
    embeddings = str(tmp_path / "vectors.hdf5")
    bilm = make_allennlp_reader(path, embeddings=embeddings, vocabulary=str(vocabulary))()
    sentence = [["the", "naïve", "unheard"]]
    exact = read_weights(tmp_path).embed(sentence)[0][0]
    np.testing.assert_allclose(bilm.embed(sentence)[0][0], exact, rtol=0, atol=1e-5)
