import json

import h5py
import numpy as np
import pytest

from spacy_elmo.frozen.model import FrozenBiLM
from spacy_elmo.weights import allennlp, read_weights
from spacy_elmo.weights.formats import read_bundle

from helpers import reference
from helpers.models import check_layers, check_refused, tiny_bilm, tiny_options, write_allennlp

VARIANTS = [
    {},
    {"n_layers": 1},
    {"n_layers": 3, "n_highway": 2},
    {"n_highway": 0, "filters": [[1, 2], [3, 3]]},
    {"dim": 6, "projection_dim": 6, "activation": "tanh"},
    {"cell_clip": None, "proj_clip": None, "use_skip_connections": False},
]


@pytest.fixture
def data():
    return reference.random_datasets(tiny_options())


def write(folder, data, **changes):
    """Changes that are None take a dataset away."""
    kept = {name: values for name, values in {**data, **changes}.items() if values is not None}
    return reference.write_hdf5(folder, tiny_options(), kept)


@pytest.mark.parametrize("changes", VARIANTS)
def test_written_files_have_the_layout_of_bilm_tf(tmp_path, changes):
    options = tiny_options(**changes)
    data = reference.random_datasets(options)
    write_allennlp(tiny_bilm(**changes), tmp_path / "new" / "folder")
    written = tmp_path / "new" / "folder"
    assert sorted(file.name for file in written.iterdir()) == ["options.json", "weights.hdf5"]
    assert json.loads((written / "options.json").read_text("utf8")) == options
    found = {}
    with h5py.File(written / "weights.hdf5") as file:
        file.visititems(
            lambda name, item: (
                found.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None
            )
        )
    assert found.keys() == data.keys()
    for name, values in data.items():
        assert found[name].dtype == np.float32
        np.testing.assert_array_equal(found[name], values)


@pytest.mark.parametrize("changes", VARIANTS)
def test_written_files_are_read_bit_by_bit(tmp_path, changes):
    bilm = tiny_bilm(**changes)
    write_allennlp(bilm, tmp_path)
    again = read_weights(tmp_path)
    assert again.config == bilm.config
    assert again.arrays().keys() == bilm.arrays().keys()
    for name, values in bilm.arrays().items():
        np.testing.assert_array_equal(again.arrays()[name], values, err_msg=name)


def test_a_model_that_is_read_is_frozen(tmp_path, data):
    bilm = read_weights(write(tmp_path, data))
    assert isinstance(bilm, FrozenBiLM)
    assert {str(weight.dtype) for weight in bilm.arrays().values()} == {"float32"}
    assert bilm.provenance == {"source": "weights.hdf5"}


@pytest.mark.parametrize("n_characters", [261, 262, None])
@pytest.mark.parametrize("extra_row", [False, True])
def test_either_number_of_characters(tmp_path, data, n_characters, extra_row):
    options = tiny_options(n_characters=n_characters)
    if n_characters is None:
        del options["char_cnn"]["n_characters"]
    table = data["char_embed"]
    rows = np.vstack([table, np.full_like(table[:1], 7)]) if extra_row else table
    path = reference.write_hdf5(tmp_path, options, {**data, "char_embed": rows})
    expected, _ = reference.layers(options, data, [["naïve", "x" * 40]])
    check_layers(read_weights(path).embed([["naïve", "x" * 40]])[0], expected)


@pytest.mark.parametrize("kind", ["float64", "float16"])
def test_other_floats_are_read(tmp_path, data, kind):
    path = write(tmp_path, data)
    with h5py.File(path, "a") as file:
        del file["CNN_proj/b_proj"]
        file["CNN_proj/b_proj"] = np.arange(5, dtype=kind) / 4
    bias = read_weights(path).arrays()["encoder.projection.bias"]
    assert bias.dtype == "float32"
    assert bias.tolist() == [0, 0.25, 0.5, 0.75, 1]


def test_writing_that_fails_leaves_the_old_weights(tmp_path, monkeypatch):
    write_allennlp(tiny_bilm(), tmp_path)
    before = (tmp_path / "weights.hdf5").read_bytes()

    def broken(config):
        yield from list(original(config))[:3]
        raise OSError("disk full")

    original = allennlp._layout
    other = tiny_bilm(seed=1)
    monkeypatch.setattr(allennlp, "_layout", broken)
    with pytest.raises(OSError, match="disk full"):
        write_allennlp(other, tmp_path)
    assert (tmp_path / "weights.hdf5").read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["options.json", "weights.hdf5"]


# The softmax, where the file has one

WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", ".", "日本語", "x" * 60]


def test_softmax(tmp_path):
    options = tiny_options()
    data = reference.random_datasets(options)
    rng = np.random.default_rng(0)
    weight, bias = rng.standard_normal((8, 5)).astype("float32"), np.arange(8, dtype="float32")
    path = reference.write_hdf5(
        tmp_path, options, {**data, "softmax/W": weight, "softmax/b": bias}, WORDS
    )
    softmax, vocabulary = read_bundle(path).prediction
    assert vocabulary.words == WORDS
    contexts, targets = rng.standard_normal((6, 5)), rng.integers(0, 8, size=6)
    logits = contexts @ weight.T.astype("float64") + bias
    log_norm = np.log(np.exp(logits).sum(axis=1))
    expected = (log_norm - logits[np.arange(6), targets]).sum()
    got = softmax.negative_log_likelihood(contexts.astype("float32"), targets)
    assert got == pytest.approx(expected, abs=1e-4)
    assert read_weights(path).config.n_words == 0  # of which it is no part


def test_no_softmax_and_half_of_one(tmp_path):
    options = tiny_options()
    data = reference.random_datasets(options)
    path = reference.write_hdf5(tmp_path, options, data, WORDS)

    def read():
        return read_bundle(path)

    assert (read().prediction, read().missing, read().extras) == (None, "softmax", [])

    reference.write_hdf5(tmp_path, options, {**data, "softmax/W": np.zeros((8, 5))}, WORDS)
    check_refused(read, path, "'softmax/b' is missing", "(8,)")
    reference.write_hdf5(tmp_path, options, {**data, "softmax/b": np.zeros(8)}, WORDS)
    check_refused(read, path, "'softmax/W' is missing")
    both = {"softmax/W": np.zeros((8, 6)), "softmax/b": np.zeros(8)}
    reference.write_hdf5(tmp_path, options, {**data, **both}, WORDS)
    check_refused(read, path, "'softmax/W'", "(8, 6)", "(8, 5)")
    both = {"softmax/W": np.zeros((7, 5)), "softmax/b": np.zeros(7)}
    reference.write_hdf5(tmp_path, options, {**data, **both}, WORDS)
    check_refused(read, "8 words, but dataset 'softmax/W'", "7 rows")
    (tmp_path / "vocab.txt").unlink()
    assert (read().prediction, read().missing) == (None, "vocab.txt")
    assert read().extras == ["the softmax, because its vocab.txt is missing"]


def test_softmax_of_a_model_of_words(tmp_path):
    options = {"lstm": tiny_options()["lstm"]}
    data = reference.random_datasets(options, n_words=8)
    both = {"softmax/W": np.ones((8, 5)), "softmax/b": np.zeros(8)}
    path = reference.write_hdf5(tmp_path, options, {**data, **both}, WORDS)
    softmax, _ = read_bundle(path).prediction
    assert softmax.arrays()["weight"].shape == (8, 5)
