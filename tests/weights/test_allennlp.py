"""What bilm-tf and AllenNLP write, and what is written for them: one layer, one direction, word
ids, ready-made vectors, a softmax."""

import json

import h5py
import numpy as np
import pytest

from spacy_elmo.frozen.config import BiLMConfig
from spacy_elmo.frozen.encoder import FrozenEncoder
from spacy_elmo.frozen.model import FrozenBiLM
from spacy_elmo.weights import read_weights, safetensors_file
from spacy_elmo.weights.convert import convert
from spacy_elmo.weights.formats import read_bundle
from spacy_elmo.weights.readers import make_allennlp_reader
from spacy_elmo.weights.sizes import from_options

from helpers import reference
from helpers.conversions import assert_same_vectors
from helpers.models import (
    ALLENNLP,
    CHANGED,
    ONE_DIRECTION,
    SENTENCES,
    check_layers,
    check_refused,
    check_state,
    renamed,
    tiny_bilm,
    tiny_options,
    write_allennlp,
    write_tiny,
)
from helpers.runs import assert_same_arrays
from helpers.softmaxes import WORDS as PREDICTED
from helpers.softmaxes import bytes_model

WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", ".", "日本語", "x" * 60]
WORD_OPTIONS = {"lstm": tiny_options()["lstm"]}
WORD_DATA = reference.random_datasets(WORD_OPTIONS, n_words=len(WORDS))
VARIANTS = [
    {},
    {"n_layers": 1},
    {"n_layers": 3, "n_highway": 2},
    {"n_highway": 0, "filters": [[1, 2], [3, 3]]},
    {"dim": 6, "projection_dim": 6, "activation": "tanh"},
    {"cell_clip": None, "proj_clip": None, "use_skip_connections": False},
]


def check_model(bilm, options, data, words=None):
    """Over two calls, frozen and as a module that trains."""
    state = expected_state = None
    for sentences in (SENTENCES, SENTENCES[::-1]):
        expected, expected_state = reference.layers(options, data, sentences, expected_state, words)
        layers, state = bilm.embed(sentences, state)
        check_layers(layers, expected)
        check_state(state, expected_state)
    trained = bilm.thaw().embed(sentences)[0]
    expected = reference.layers(options, data, sentences, words=words)[0]
    check_layers([layers.detach() for layers in trained], expected)


@pytest.mark.parametrize("changes", VARIANTS)
def test_written_files_have_the_layout_of_bilm_tf(tmp_path, changes):
    bilm, folder = tiny_bilm(**changes), tmp_path / "new" / "folder"
    write_allennlp(bilm, folder)
    assert sorted(file.name for file in folder.iterdir()) == ["options.json", "weights.hdf5"]
    options = json.loads((folder / "options.json").read_text("utf8"))
    assert options == tiny_options(**changes)
    found = reference.read_hdf5(folder / "weights.hdf5")
    assert_same_arrays(found, reference.random_datasets(options))
    again = read_weights(folder)
    assert isinstance(again, FrozenBiLM)
    assert (again.config, again.provenance) == (bilm.config, {"source": "weights.hdf5"})
    assert_same_arrays(again.arrays(), bilm.arrays())


@pytest.mark.parametrize("n_characters", [261, 262, None])
@pytest.mark.parametrize("extra_row", [False, True])
def test_either_number_of_characters(tmp_path, n_characters, extra_row):
    options = tiny_options(n_characters=n_characters)
    if n_characters is None:
        del options["char_cnn"]["n_characters"]
    data = reference.random_datasets(options)
    table = data["char_embed"]
    rows = np.vstack([table, np.full_like(table[:1], 7)]) if extra_row else table
    path = reference.write_hdf5(tmp_path, options, {**data, "char_embed": rows})
    expected, _ = reference.layers(options, data, [["naïve", "x" * 40]])
    check_layers(read_weights(path).embed([["naïve", "x" * 40]])[0], expected)


@pytest.mark.parametrize("kind", ["float64", "float16"])
def test_other_floats_are_read(tmp_path, kind):
    path = write_tiny(tmp_path)
    with h5py.File(path, "a") as file:
        del file["CNN_proj/b_proj"]
        file["CNN_proj/b_proj"] = np.arange(5, dtype=kind) / 4
    bias = read_weights(path).arrays()["encoder.projection.bias"]
    assert bias.dtype == "float32"
    assert bias.tolist() == [0, 0.25, 0.5, 0.75, 1]


def test_packed_datasets_are_read(tmp_path):
    path = write_tiny(tmp_path)
    data = reference.read_hdf5(path)
    with h5py.File(path, "w") as file:
        for name, values in data.items():
            file.create_dataset(name, data=values, compression="gzip", shuffle=True)
    check_model(read_weights(path), tiny_options(), data)


def test_options_are_read_field_by_field():
    options = {
        "lstm": {"dim": 7, "projection_dim": 6, "n_layers": 3, "cell_clip": 2.5, "x": 1},
        "char_cnn": {
            "embedding": {"dim": 9},
            "filters": [[2, 5], [4, 3]],
            "activation": "tanh",
            "max_characters_per_token": 11,
            "n_characters": 261,
        },
        "unknown": {"dim": 5},
    }
    assert from_options(options) == BiLMConfig(**CHANGED)


def test_options_that_may_be_absent():
    options = tiny_options()
    for key in ("n_layers", "cell_clip", "proj_clip", "use_skip_connections"):
        del options["lstm"][key]
    del options["char_cnn"]["n_highway"]
    config = from_options(options)
    assert (config.n_layers, config.cell_clip, config.proj_clip) == (1, None, None)
    assert (config.use_skip_connections, config.n_highway) == (False, 0)


# Layers and directions

ALONE = ("MultiRNNCell/Cell0/", "")


@pytest.mark.parametrize(
    ("both", "changes", "names"),
    [
        (True, {"n_layers": 1}, [ALONE]),
        (False, {}, ONE_DIRECTION),
        (False, {"n_layers": 1}, ONE_DIRECTION),
        (False, {"n_layers": 1}, [*ONE_DIRECTION, ALONE]),
        (False, {"n_layers": 3, "dim": 6, "projection_dim": 6}, ONE_DIRECTION),
    ],
)
@pytest.mark.parametrize("said", [True, False])
def test_one_layer_and_one_direction(tmp_path, both, changes, names, said):
    """As bilm-tf names the weights of these."""
    options = {**tiny_options(**changes), "bidirectional": both}
    data = reference.random_datasets(options)
    written, dumped = {**options, "bidirectional": both if said else None}, renamed(data, names)
    assert ("RNN_1/RNN/LSTMCell/W_P_0" in dumped) == both
    bilm = read_weights(reference.write_hdf5(tmp_path, written, dumped))
    assert (bilm.config.bidirectional, len(bilm.thaw().stacks)) == (both, 1 + both)
    assert bilm.config.width == (1 + both) * bilm.config.projection_dim
    check_model(bilm, options, data)
    warm = reference.layers(options, data, [[]])[1]
    expected = reference.layers(options, data, SENTENCES, warm * len(SENTENCES))[0]
    check_layers(bilm.embed(SENTENCES, "warm")[0], expected)


# Words in place of characters


def test_word_ids(tmp_path):
    bilm = read_weights(reference.write_hdf5(tmp_path, WORD_OPTIONS, WORD_DATA, WORDS))
    assert (bilm.config.n_words, bilm.config.n_characters) == (8, 0)
    check_model(bilm, WORD_OPTIONS, WORD_DATA, WORDS)
    known = bilm.token_vectors(["cat", "x" * 60, "<S>", "dog", "", "</S>"])
    rows = [WORDS.index(word) for word in ("cat", "x" * 60, "<S>", "<UNK>", "<UNK>", "</S>")]
    np.testing.assert_array_equal(known, WORD_DATA["embedding"][rows])


@pytest.mark.parametrize("kind", ["words", "one direction"])
def test_converted_and_back(tmp_path, kind):
    options, data = WORD_OPTIONS, WORD_DATA
    if kind == "one direction":
        options = {**tiny_options(), "bidirectional": False}
        data = renamed(reference.random_datasets(options), ONE_DIRECTION)
    words = WORDS if kind == "words" else None
    source = previous = reference.write_hdf5(tmp_path / "source", options, data, words)
    for name in ("a.safetensors", "weights.hdf5", "folder", "b.safetensors"):
        _, lost = convert(previous, tmp_path / name, lang="en")
        assert not lost
        previous = tmp_path / name
        assert_same_vectors(previous, source)
    assert_same_arrays(reference.read_hdf5(tmp_path / "weights.hdf5"), data)
    assert json.loads((tmp_path / "options.json").read_text("utf8")) == options
    assert not words or (tmp_path / "vocab.txt").read_text("utf8").split() == words


def test_vocabulary_as_bilm_tf_reads_it(tmp_path):
    """Lines are stripped, one line is no word, and of equal words the last one counts."""
    lines = ["<S>", "</S> ", "<UNK>", "!!!MAXTERMID", "cat\r", "the", "cat", ".", "</s>"]
    bilm = read_weights(reference.write_hdf5(tmp_path, WORD_OPTIONS, WORD_DATA, lines))
    vectors = bilm.token_vectors(["cat", "the", "."])
    np.testing.assert_array_equal(vectors, WORD_DATA["embedding"][[5, 4, 6]])
    write_allennlp(bilm, tmp_path / "again")
    again = read_weights(tmp_path / "again")
    np.testing.assert_array_equal(again.token_vectors(["cat", "the", "."]), vectors)


def test_vocabulary_of_another_name(tmp_path):
    reference.write_hdf5(tmp_path, WORD_OPTIONS, WORD_DATA, WORDS)
    for name in ("weights.hdf5", "options.json", "vocab.txt"):
        (tmp_path / name).rename(tmp_path / f"small_{name}")
    check_model(read_weights(tmp_path / "small"), WORD_OPTIONS, WORD_DATA, WORDS)
    (tmp_path / "small_vocab.txt").rename(tmp_path / "words.txt")
    path = tmp_path / "small_weights.hdf5"
    check_refused(
        lambda: read_weights(path), path, "the vocabulary of", "small_vocab.txt", "'embedding'"
    )
    reader = make_allennlp_reader(str(path), vocabulary=str(tmp_path / "words.txt"))
    check_model(reader(), WORD_OPTIONS, WORD_DATA, WORDS)


# Ready-made vectors


def write_vectors(folder, table):
    with h5py.File(folder / "dump" / "vectors.hdf5", "w") as file:
        file["embedding"] = table
    return folder / "dump" / "vectors.hdf5"


@pytest.fixture
def ready_made(tmp_path):
    """A model of characters, and vectors that are not those of its CNN, to tell them apart."""
    path, table = write_tiny(tmp_path), reference.random_datasets(WORD_OPTIONS, 1, 8)["embedding"]
    (tmp_path / "dump").mkdir()
    write_vectors(tmp_path, table)
    (tmp_path / "dump" / "vocab.txt").write_text("".join(f"{w}\n" for w in WORDS), "utf8")
    return path, tiny_options(), {**reference.read_hdf5(path), "embedding": table}


def read_ready_made(path, **given):
    given = {"embeddings": path.parent / "dump" / "vectors.hdf5", **given}
    return make_allennlp_reader(str(path), **{k: str(v) for k, v in given.items()})()


def test_ready_made_vectors(ready_made, tmp_path, monkeypatch):
    path, options, data = ready_made
    bilm = read_ready_made(path)
    assert (bilm.config.n_words, bilm.config.n_characters) == (8, 262)
    check_model(bilm, options, data, WORDS)
    safetensors_file.write(bilm, tmp_path / "a.safetensors")
    check_model(read_weights(tmp_path / "a.safetensors"), options, data, WORDS)
    # Known words are not spelled: to do so is an error here.
    monkeypatch.setattr(FrozenEncoder, "_encode_characters", None)
    vectors = read_ready_made(path).token_vectors(["the", "cat", "<UNK>"])
    np.testing.assert_array_equal(vectors, data["embedding"][[3, 4, 2]])


def test_gradients_reach_ready_made_vectors_and_characters(ready_made):
    bilm = read_ready_made(ready_made[0]).thaw()
    bilm.token_vectors(["cat", "dog"]).sum().backward()
    assert bilm.encoder.words.weight.grad.abs().sum(dim=1).nonzero().tolist() == [[4]]
    characters = bilm.encoder.embedding.weight.grad.abs().sum(dim=1)
    assert characters[ord("d") + 1] > 0
    assert characters[ord("c") + 1] == 0


def test_ready_made_vectors_of_any_words(ready_made):
    """Those of the marks need not be there."""
    path, options, data = ready_made
    two = {**data, "embedding": data["embedding"][3:5]}
    write_vectors(path.parent, two["embedding"])
    words = path.parent / "words.txt"
    words.write_text("the\ncat", "utf8")
    check_model(read_ready_made(path, vocabulary=words), options, two, ["the", "cat"])


def test_ready_made_vectors_that_do_not_fit(ready_made, tmp_path):
    path = ready_made[0]
    place = write_vectors(tmp_path, np.zeros((8, 4), "float32"))
    check_refused(lambda: read_ready_made(path), place, "(8, 4)", "options.json", "(8, 5)")
    place.unlink()
    check_refused(lambda: read_ready_made(path), place, "cannot be read")


@pytest.mark.skipif(not ALLENNLP.is_dir(), reason="AllenNLP's fixtures are not there")
def test_ready_made_vectors_of_the_fixture():
    """Those that TensorFlow's CNN gave, so that nothing changes beyond rounding."""
    bilm = make_allennlp_reader(
        str(ALLENNLP / "lm_weights.hdf5"),
        embeddings=str(ALLENNLP / "elmo_token_embeddings.hdf5"),
        vocabulary=str(ALLENNLP / "vocab_test.txt"),
    )()
    assert bilm.config.n_words == 458
    exact = read_weights(ALLENNLP / "lm_weights.hdf5")
    sentences = json.loads((ALLENNLP / "sentences.json").read_text("utf8"))[0]
    split = [sentence.split() for sentence in sentences]
    known = set(bilm.vocabularies.words.strings)
    assert set(split[0]) <= known and "unheard-of" not in known
    split[0].append("unheard-of")
    check_layers(bilm.embed(split)[0], exact.embed(split)[0])


# The softmax, where the file has one


def test_no_softmax_and_no_vocabulary(tmp_path):
    options, data = bytes_model()
    path = reference.write_hdf5(tmp_path, options, data, PREDICTED)
    assert read_weights(path).config.n_words == 0  # of which the softmax is no part
    (tmp_path / "vocab.txt").unlink()
    bundle = read_bundle(path)
    assert (bundle.prediction, bundle.missing) == (None, "vocab.txt")
    assert bundle.extras == ["the softmax, because its vocab.txt is missing"]
    bundle = read_bundle(write_tiny(tmp_path))
    assert (bundle.prediction, bundle.missing, bundle.extras) == (None, "softmax", [])
