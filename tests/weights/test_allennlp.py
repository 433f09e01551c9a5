"""Weights of bilm-tf and AllenNLP, against numpy, golden files that TensorFlow computed, and the
numbers in AllenNLP's own tests if they are beside the checkout. Models have one or two layers and
directions, characters, word ids, ready-made vectors, and a softmax."""

import json
import os

import h5py
import numpy as np
import pytest
from safetensors.numpy import load_file

from spacy_elmo.bilm.model import BiLM
from spacy_elmo.frozen.encoder import FrozenEncoder
from spacy_elmo.model.config import BiLMConfig
from spacy_elmo.weights import read_weights, safetensors_file
from spacy_elmo.weights.convert import convert
from spacy_elmo.weights.readers import make_allennlp_reader
from spacy_elmo.weights.sizes import from_options

from helpers import models, reference
from helpers.conversions import assert_same_vectors
from helpers.golden import BILM_TF, BILM_TF_MODELS, read_batches, read_bilm_tf
from helpers.rounding import check_close
from helpers.runs import assert_same_arrays

needs_allennlp = pytest.mark.skipif(not models.ALLENNLP.is_dir(), reason="needs its fixtures")
WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", ".", "日本語", "x" * 60]
WORD_OPTIONS = {"lstm": models.tiny_options()["lstm"]}
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
    """Check two calls of the frozen model and of a module that trains."""
    state = expected_state = None
    for sentences in (models.SENTENCES, models.SENTENCES[::-1]):
        expected, expected_state = reference.layers(options, data, sentences, expected_state, words)
        layers, state = bilm.embed(sentences, state)
        models.check_layers(layers, expected)
        models.check_state(state, expected_state)
    trained = BiLM.from_frozen(bilm).embed(sentences)[0]
    expected = reference.layers(options, data, sentences, words=words)[0]
    models.check_layers([layers.detach() for layers in trained], expected)


@pytest.mark.parametrize("changes", VARIANTS)
def test_written_files_are_read_bit_by_bit(tmp_path, changes):
    """Files are in safetensors, and in the layout of bilm-tf."""
    bilm, folder = models.tiny_bilm(**changes), tmp_path / "new" / "folder"
    models.write_allennlp(bilm, folder)
    assert sorted(os.listdir(folder)) == ["options.json", "weights.hdf5"]
    options = json.loads((folder / "options.json").read_text("utf8"))
    assert options == models.tiny_options(**changes)
    data = reference.random_datasets(options)
    assert_same_arrays(reference.read_hdf5(folder / "weights.hdf5"), data)
    file, provenance = tmp_path / "a.safetensors", {"corpus": "é", "nested": {"a": [1.5, None]}}
    safetensors_file.write(bilm.replace(provenance=provenance), file)
    assert_same_arrays(load_file(file), bilm.arrays())
    for path, wanted in ((folder, {"source": "weights.hdf5"}), (file, provenance)):
        again = read_weights(path)
        assert (again.config, again.provenance) == (bilm.config, wanted)
        assert_same_arrays(again.arrays(), bilm.arrays())


@pytest.mark.parametrize("n_characters", [261, 262, None])
@pytest.mark.parametrize("n_more", [0, 1])
def test_tables_of_261_and_262_characters_are_read(tmp_path, n_characters, n_more):
    options = models.tiny_options(n_characters=n_characters)
    if n_characters is None:
        del options["char_cnn"]["n_characters"]
    data = reference.random_datasets(options)
    table = np.pad(data["char_embed"], ((0, n_more), (0, 0)), constant_values=7)
    path = reference.write_hdf5(tmp_path, options, {**data, "char_embed": table})
    expected, _ = reference.layers(options, data, models.SENTENCES)
    models.check_layers(read_weights(path).embed(models.SENTENCES)[0], expected)


@pytest.mark.parametrize("kind", ["float64", "float16"])
def test_other_floats_and_compressed_datasets_are_read(tmp_path, kind):
    path = models.write_tiny(tmp_path)
    data = {**reference.read_hdf5(path), "CNN_proj/b_proj": np.arange(5, dtype=kind) / 4}
    with h5py.File(path, "w") as file:
        for name, values in data.items():
            file.create_dataset(name, data=values, compression="gzip", shuffle=True)
    bilm = read_weights(path)
    assert {weight.dtype.name for weight in bilm.arrays().values()} == {"float32"}
    check_model(bilm, models.tiny_options(), data)


def test_values_that_were_never_written_are_zeros(tmp_path):
    """The file has no value for them, so HDF5 leaves the memory as it is."""
    path, name = models.write_tiny(tmp_path), "CNN_proj/b_proj"
    with h5py.File(path, "a") as file:
        shape = file[name].shape
        del file[name]
        settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        settings.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        space = h5py.h5s.create_simple(shape)
        h5py.h5d.create(file.id, name.encode(), h5py.h5t.NATIVE_FLOAT, space, settings)
    for again in range(10):  # memory of a dropped array, which is not zeros
        used = np.full(shape, again + 1, "float32")
        del used
        assert not read_weights(path).arrays()["encoder.projection.bias"].any()


def test_options_are_read_field_by_field():
    lstm = {"dim": 7, "projection_dim": 6, "n_layers": 3, "cell_clip": 2.5, "x": 1}
    characters = {"filters": [[2, 5], [4, 3]], "activation": "tanh", "n_characters": 261}
    characters |= {"embedding": {"dim": 9}, "max_characters_per_token": 11}
    options = {"lstm": lstm, "char_cnn": characters, "unknown": {"dim": 5}}
    assert from_options(options) == BiLMConfig(**models.CHANGED)
    del lstm["n_layers"], lstm["cell_clip"]
    defaults = {"n_layers": 1, "cell_clip": None}  # models.CHANGED has the others
    assert from_options(options) == BiLMConfig(**{**models.CHANGED, **defaults})


# Layers and directions

ALONE = ("MultiRNNCell/Cell0/", "")


@pytest.mark.parametrize(
    ("both", "changes", "names"),
    [
        (True, {"n_layers": 1}, [ALONE]),
        (False, {}, models.ONE_DIRECTION),
        (False, {"n_layers": 1}, [*models.ONE_DIRECTION, ALONE]),
        (False, {"n_layers": 3, "dim": 6, "projection_dim": 6}, models.ONE_DIRECTION),
    ],
)
@pytest.mark.parametrize("said", [True, False])
def test_one_layer_and_one_direction_are_read(tmp_path, both, changes, names, said):
    """The names of the weights are those of bilm-tf."""
    options = {**models.tiny_options(**changes), "bidirectional": both}
    data = reference.random_datasets(options)
    dumped = models.renamed(data, names)
    written = {**options, "bidirectional": both if said else None}
    assert ("RNN_1/RNN/LSTMCell/W_P_0" in dumped) == both
    bilm = read_weights(reference.write_hdf5(tmp_path, written, dumped))
    assert (bilm.config.bidirectional, len(BiLM.from_frozen(bilm).stacks)) == (both, 1 + both)
    assert bilm.config.width == (1 + both) * bilm.config.projection_dim
    check_model(bilm, options, data)
    warm = reference.layers(options, data, [[]])[1]
    expected = reference.layers(options, data, models.SENTENCES, warm * len(models.SENTENCES))[0]
    models.check_layers(bilm.embed(models.SENTENCES, "warm")[0], expected)


# Words in place of characters


def test_models_of_word_ids_are_read(tmp_path):
    bilm = read_weights(reference.write_hdf5(tmp_path, WORD_OPTIONS, WORD_DATA, WORDS))
    assert (bilm.config.n_words, bilm.config.n_characters) == (8, 0)
    check_model(bilm, WORD_OPTIONS, WORD_DATA, WORDS)
    known = bilm.token_vectors(["cat", "x" * 60, "<S>", "dog", "", "</S>"])
    rows = [WORDS.index(word) for word in ("cat", "x" * 60, "<S>", "<UNK>", "<UNK>", "</S>")]
    np.testing.assert_array_equal(known, WORD_DATA["embedding"][rows])


@pytest.mark.conversions
@pytest.mark.parametrize("kind", ["words", "one direction"])
def test_models_are_converted_and_back(tmp_path, kind):
    options, data, words = WORD_OPTIONS, WORD_DATA, WORDS
    if kind == "one direction":
        options, words = {**models.tiny_options(), "bidirectional": False}, None
        data = models.renamed(reference.random_datasets(options), models.ONE_DIRECTION)
    source = previous = reference.write_hdf5(tmp_path / "source", options, data, words)
    for name in ("a.safetensors", "weights.hdf5", "folder", "b.safetensors"):
        assert convert(previous, tmp_path / name, lang="en")[1] == []
        previous = tmp_path / name
        assert_same_vectors(previous, source)
    assert_same_arrays(reference.read_hdf5(tmp_path / "weights.hdf5"), data)
    assert json.loads((tmp_path / "options.json").read_text("utf8")) == options
    assert not words or (tmp_path / "vocab.txt").read_text("utf8").split() == words


def test_a_vocabulary_with_another_name_is_found(tmp_path):
    reference.write_hdf5(tmp_path, WORD_OPTIONS, WORD_DATA, WORDS)
    for name in ("weights.hdf5", "options.json", "vocab.txt"):
        (tmp_path / name).rename(tmp_path / f"small_{name}")
    check_model(read_weights(tmp_path / "small"), WORD_OPTIONS, WORD_DATA, WORDS)
    (tmp_path / "small_vocab.txt").rename(tmp_path / "words.txt")
    path = tmp_path / "small_weights.hdf5"
    named = path, "the vocabulary of", "small_vocab.txt", "'embedding'"
    models.check_refused(lambda: read_weights(path), *named)
    bilm = make_allennlp_reader(str(path), vocabulary=str(tmp_path / "words.txt"))()
    check_model(bilm, WORD_OPTIONS, WORD_DATA, WORDS)


# Ready-made vectors


@pytest.fixture
def ready_made(tmp_path):
    """Write a model of characters, and vectors that differ from those of its CNN."""
    path, data = models.write_tiny(tmp_path), reference.random_datasets(WORD_OPTIONS, 1, 8)
    data = {**reference.read_hdf5(path), "embedding": data["embedding"]}
    write_vectors(path, data["embedding"], WORDS)
    return path, models.tiny_options(), data


def write_vectors(path, table, words):
    """Write vectors, and beside them a vocabulary whose last line has no end.

    RETURNS (Path): The file of the vectors.
    """
    folder = path.parent / "dump"
    folder.mkdir(exist_ok=True)
    with h5py.File(folder / "vectors.h5", "w") as file:
        file["embedding"] = table
    (folder / "vocab.txt").write_text("\n".join(words), "utf8")
    return folder / "vectors.h5"


def read_ready_made(path):
    return make_allennlp_reader(str(path), embeddings=str(path.parent / "dump" / "vectors.h5"))()


def test_ready_made_vectors_replace_known_words(ready_made, tmp_path, monkeypatch):
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


@pytest.mark.training
def test_gradients_reach_ready_made_vectors_and_characters(ready_made):
    bilm = BiLM.from_frozen(read_ready_made(ready_made[0]))
    bilm.token_vectors(["cat", "dog"]).sum().backward()
    assert bilm.encoder.words.weight.grad.abs().sum(dim=1).nonzero().tolist() == [[4]]
    characters = bilm.encoder.embedding.weight.grad.abs().sum(dim=1)
    assert characters[ord("d") + 1] > 0
    assert characters[ord("c") + 1] == 0


def test_ready_made_vectors_need_no_marks(ready_made):
    path, options, data = ready_made
    two = {**data, "embedding": data["embedding"][3:5]}
    write_vectors(path, two["embedding"], ["the", "cat"])
    check_model(read_ready_made(path), options, two, ["the", "cat"])
    place = write_vectors(path, np.zeros((8, 4), "float32"), WORDS)
    models.check_refused(lambda: read_ready_made(path), place, "(8, 4)", "options.json", "(8, 5)")
    place.unlink()
    models.check_refused(lambda: read_ready_made(path), place, "the file is missing")


@pytest.mark.parametrize("name", BILM_TF_MODELS)
@pytest.mark.parametrize("rows", [[0], [1], [2], [0, 1, 2]])
@pytest.mark.parametrize("trains", [False, True])
def test_three_streams_with_carried_state_equal_tensorflow(name, rows, trains):
    """All layers are compared. Streams run side by side or alone, frozen and as a module that
    trains."""
    bilm, state = read_weights(BILM_TF / name), None
    bilm = BiLM.from_frozen(bilm) if trains else bilm
    batches, expected = read_batches(), read_bilm_tf(name)
    assert len(batches) == len(expected) == 8
    for batch, wanted in zip(batches, expected):
        sentences, wanted = [batch[row] for row in rows], [wanted[row] for row in rows]
        layers, state = bilm.embed(sentences, state)
        if trains:
            assert layers[0].requires_grad
            state, layers = state.detach(), [values.detach() for values in layers]
        models.check_layers(layers, wanted, atol=2e-6)


# AllenNLP's


@needs_allennlp
@pytest.mark.parametrize("rows", [[0], [0, 1, 2]])
def test_ten_batches_with_carried_state_equal_allennlp(rows):
    """The expected vectors are a trained model's top layer."""
    bilm, state = read_weights(models.ALLENNLP / "lm_weights.hdf5"), None
    streams = json.loads((models.ALLENNLP / "sentences.json").read_text("utf8"))
    with h5py.File(models.ALLENNLP / "lm_embeddings_0.hdf5") as file:
        for number in range(10):
            layers, state = bilm.embed([streams[row][number].split() for row in rows], state)
            expected = np.concatenate(file[str(number)][:], axis=1)
            check_close(layers[0][-1], expected)


@needs_allennlp
def test_token_vectors_equal_those_of_allennlp():
    bilm = read_weights(models.ALLENNLP / "lm_weights.hdf5")
    words = (models.ALLENNLP / "vocab_test.txt").read_text("utf8").split()
    with h5py.File(models.ALLENNLP / "elmo_token_embeddings.hdf5") as file:
        expected = file["embedding"][:]
    assert expected.shape == (458, 16) == (len(words), 16)
    np.testing.assert_allclose(bilm.token_vectors(words), expected, rtol=0, atol=2e-6)
    (layers,), _ = bilm.embed([words])
    np.testing.assert_allclose(layers[0], np.tile(expected, 2), rtol=0, atol=2e-6)
