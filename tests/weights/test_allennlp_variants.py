"""What bilm-tf writes besides the usual: one layer, one direction, word ids, ready-made
vectors, a softmax, archives."""

import json
import zipfile

import h5py
import numpy as np
import pytest

from spacy_elmo.frozen.encoder import FrozenEncoder
from spacy_elmo.weights import read_weights, safetensors_file
from spacy_elmo.weights.readers import make_allennlp_reader

from helpers import reference
from helpers.models import (
    ALLENNLP,
    ONE_DIRECTION,
    SENTENCES,
    check_layers,
    check_refused,
    check_state,
    renamed,
    tiny_options,
    write_allennlp,
)

WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", ".", "日本語", "x" * 60]


def write(folder, options, data, words=None, **changes):
    """Changes that are None take a dataset away."""
    kept = {name: values for name, values in {**data, **changes}.items() if values is not None}
    return reference.write_hdf5(folder, options, kept, words)


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


# Layers and directions


def one_direction(**changes):
    return {**tiny_options(**changes), "bidirectional": False}


ALONE = ("MultiRNNCell/Cell0/", "")


def test_one_layer_as_bilm_tf_names_it(tmp_path):
    options = tiny_options(n_layers=1)
    data = reference.random_datasets(options)
    dumped = renamed(data, [ALONE])
    assert "RNN_1/RNN/LSTMCell/W_P_0" in dumped
    check_model(read_weights(write(tmp_path, options, dumped)), options, data)


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({}, ONE_DIRECTION),
        ({"n_layers": 1}, ONE_DIRECTION),
        ({"n_layers": 1}, [*ONE_DIRECTION, ALONE]),
        ({"n_layers": 3, "dim": 6, "projection_dim": 6}, ONE_DIRECTION),
    ],
)
@pytest.mark.parametrize("said", [True, False])
def test_one_direction(tmp_path, changes, names, said):
    options = one_direction(**changes)
    data = reference.random_datasets(options)
    written = options if said else {**options, "bidirectional": None}
    bilm = read_weights(write(tmp_path, written, renamed(data, names)))
    assert (bilm.config.bidirectional, len(bilm.thaw().stacks)) == (False, 1)
    assert bilm.config.width == bilm.config.projection_dim
    check_model(bilm, options, data)
    warm = reference.layers(options, data, [[]])[1]
    expected = reference.layers(options, data, SENTENCES, warm * len(SENTENCES))[0]
    check_layers(bilm.embed(SENTENCES, "warm")[0], expected)


def test_one_direction_is_written_as_it_was(tmp_path):
    options = one_direction()
    dumped = renamed(reference.random_datasets(options), ONE_DIRECTION)
    bilm = read_weights(write(tmp_path, options, dumped))
    write_allennlp(bilm, tmp_path / "again")
    assert json.loads((tmp_path / "again" / "options.json").read_text("utf8")) == options
    with h5py.File(tmp_path / "again" / "weights.hdf5") as file:
        for name, values in dumped.items():
            np.testing.assert_array_equal(file[name][()], values)
    safetensors_file.write(bilm, tmp_path / "a.safetensors")
    again = read_weights(tmp_path / "a.safetensors")
    assert again.config == bilm.config
    check_layers(again.embed(SENTENCES)[0], bilm.embed(SENTENCES)[0], atol=0)


# Words in place of characters


def word_options(**changes):
    return {"lstm": tiny_options(**changes)["lstm"]}


def test_word_ids(tmp_path):
    options = word_options()
    data = reference.random_datasets(options, n_words=len(WORDS))
    bilm = read_weights(write(tmp_path, options, data, WORDS))
    assert (bilm.config.n_words, bilm.config.n_characters) == (8, 0)
    check_model(bilm, options, data, WORDS)
    known = bilm.token_vectors(["cat", "x" * 60, "<S>", "dog", "", "</S>"])
    rows = [WORDS.index(word) for word in ("cat", "x" * 60, "<S>", "<UNK>", "<UNK>", "</S>")]
    np.testing.assert_array_equal(known, data["embedding"][rows])


def test_word_ids_written_and_read_again(tmp_path):
    options = word_options(n_layers=1)
    data = reference.random_datasets(options, n_words=len(WORDS))
    bilm = read_weights(write(tmp_path, options, data, WORDS))
    write_allennlp(bilm, tmp_path / "again")
    assert json.loads((tmp_path / "again" / "options.json").read_text("utf8")) == options
    safetensors_file.write(bilm, tmp_path / "a.safetensors")
    for place in (tmp_path / "again", tmp_path / "a.safetensors"):
        again = read_weights(place)
        assert again.config == bilm.config
        check_layers(again.embed(SENTENCES)[0], bilm.embed(SENTENCES)[0], atol=0)


def test_vocabulary_as_bilm_tf_reads_it(tmp_path):
    """Lines are stripped, one line is no word, and of equal words the last one counts."""
    options = word_options()
    lines = ["<S>", "</S> ", "<UNK>", "!!!MAXTERMID", "cat\r", "the", "cat", ".", "</s>"]
    data = reference.random_datasets(options, n_words=8)
    bilm = read_weights(write(tmp_path, options, data, lines))
    vectors = bilm.token_vectors(["cat", "the", "."])
    np.testing.assert_array_equal(vectors, data["embedding"][[5, 4, 6]])
    write_allennlp(bilm, tmp_path / "again")
    again = read_weights(tmp_path / "again")
    np.testing.assert_array_equal(again.token_vectors(["cat", "the", "."]), vectors)


def test_vocabulary_of_another_name(tmp_path):
    options = word_options()
    data = reference.random_datasets(options, n_words=len(WORDS))
    path = write(tmp_path, options, data, WORDS)
    for name in ("weights.hdf5", "options.json", "vocab.txt"):
        (tmp_path / name).rename(tmp_path / f"small_{name}")
    check_model(read_weights(tmp_path / "small"), options, data, WORDS)
    (tmp_path / "small_vocab.txt").rename(tmp_path / "words.txt")
    path = tmp_path / "small_weights.hdf5"
    check_refused(
        lambda: read_weights(path), path, "the vocabulary of", "small_vocab.txt", "'embedding'"
    )
    reader = make_allennlp_reader(str(path), vocabulary=str(tmp_path / "words.txt"))
    check_model(reader(), options, data, WORDS)


# Ready-made vectors


@pytest.fixture
def ready_made(tmp_path):
    """A model of characters, and vectors that are not those of its CNN, to tell them apart."""
    options = tiny_options()
    data = reference.random_datasets(options)
    path = write(tmp_path, options, data)
    (tmp_path / "dump").mkdir()
    table = np.random.default_rng(1).standard_normal((len(WORDS), 5)).astype("float32")
    with h5py.File(tmp_path / "dump" / "vectors.hdf5", "w") as file:
        file["embedding"] = table
    (tmp_path / "dump" / "vocab.txt").write_text("".join(f"{w}\n" for w in WORDS), "utf8")
    return path, options, {**data, "embedding": table}


def read_ready_made(path, **given):
    given = {"embeddings": path.parent / "dump" / "vectors.hdf5", **given}
    return make_allennlp_reader(str(path), **{k: str(v) for k, v in given.items()})()


def test_ready_made_vectors(ready_made, tmp_path):
    path, options, data = ready_made
    bilm = read_ready_made(path)
    assert (bilm.config.n_words, bilm.config.n_characters) == (8, 262)
    check_model(bilm, options, data, WORDS)
    safetensors_file.write(bilm, tmp_path / "a.safetensors")
    check_model(read_weights(tmp_path / "a.safetensors"), options, data, WORDS)


def test_known_words_are_not_spelled(ready_made, monkeypatch):
    path, _, data = ready_made
    bilm = read_ready_made(path)
    monkeypatch.setattr(FrozenEncoder, "_encode_characters", None)  # to call it is an error
    vectors = bilm.token_vectors(["the", "cat", "<UNK>"])
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
    with h5py.File(path.parent / "dump" / "vectors.hdf5", "w") as file:
        file["embedding"] = data["embedding"][3:5]
    words = path.parent / "words.txt"
    words.write_text("the\ncat", "utf8")
    two = {**data, "embedding": data["embedding"][3:5]}
    check_model(read_ready_made(path, vocabulary=words), options, two, ["the", "cat"])


def test_ready_made_vectors_that_do_not_fit(ready_made, tmp_path):
    path = ready_made[0]
    place = tmp_path / "dump" / "vectors.hdf5"
    with h5py.File(place, "w") as file:
        file["embedding"] = np.zeros((8, 4), "float32")
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


# Archives


@pytest.mark.parametrize("packing", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("inside", ["", "193/"])
def test_zip_archive(tmp_path, packing, inside):
    """As NLPL's repository packs bilm-tf's models."""
    options = word_options()
    data = reference.random_datasets(options, n_words=len(WORDS))
    (tmp_path / "m").mkdir()
    write(tmp_path / "m", options, data, WORDS).rename(tmp_path / "m" / "model.hdf5")
    with zipfile.ZipFile(tmp_path / "193.zip", "w", packing) as archive:
        for file in (tmp_path / "m").iterdir():
            archive.write(file, inside + file.name)
        archive.writestr(inside + "README", "meta.json is missing")
    for bilm in (read_weights(tmp_path / "193.zip"), make_allennlp_reader(tmp_path / "193.zip")()):
        check_model(bilm, options, data, WORDS)
        assert bilm.provenance == {"source": "model.hdf5"}
    assert sorted(file.name for file in tmp_path.iterdir()) == ["193.zip", "m"]


def test_zip_archive_that_holds_no_model(tmp_path):
    options = json.dumps(tiny_options())
    for content, message in (
        ({"weights.hdf5": ""}, "/weights.hdf5: the options file is missing"),
        ({"weights.hdf5": "", "options.json": options}, "/weights.hdf5: not a readable HDF5 file"),
        ({"notes.txt": ""}, "not a model that spacy-elmo can read"),
        ({}, "not a model that spacy-elmo can read"),
    ):
        with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
            for name, text in content.items():
                archive.writestr(name, text)
        check_refused(lambda: read_weights(tmp_path / "a.zip"), tmp_path / "a.zip", message)


def test_packed_datasets_are_read(tmp_path):
    options = tiny_options()
    data = reference.random_datasets(options)
    path = write(tmp_path, options, data)
    with h5py.File(path, "w") as file:
        for name, values in data.items():
            file.create_dataset(name, data=values, compression="gzip", shuffle=True)
    check_model(read_weights(path), options, data)
