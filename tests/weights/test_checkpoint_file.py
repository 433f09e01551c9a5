"""Checkpoints of bilm-tf, read with a module in place of TensorFlow that has the fixture's arrays
under the names of bilm-tf's variables."""

import json
import shutil
import sys
from importlib.machinery import ModuleSpec
from types import SimpleNamespace

import numpy as np
import pytest

from spacy_elmo.language_model.frozen import read_language_model
from spacy_elmo.weights import read_weights
from spacy_elmo.weights.convert import convert
from spacy_elmo.weights.formats import describe

from helpers import models, reference
from helpers.conversions import assert_same_vectors
from helpers.golden import BILM_TF
from helpers.runs import assert_same_arrays

WORDS = ["<S>", "</S>", "<UNK>", "the"]
# As TensorFlow 1.2 and bilm-tf's scopes give them: by their dumped names.
VARIABLES = [
    *(("/RNN/", "/rnn/"), ("MultiRNNCell/Cell", "multi_rnn_cell/cell_"), ("LSTMCell", "lstm_cell")),
    *(("W_P_0", "projection/kernel"), ("/W_0", "/kernel"), ("/B", "/bias")),
]


def variables(data):
    """Return the model's variables, and those of the optimizer and of the run."""
    names = {f"lm/{name}": values for name, values in models.renamed(data, VARIABLES).items()}
    slots = {f"{name}/Adagrad": np.full_like(values, 7) for name, values in names.items()}
    return {**names, **slots, "global_step": np.array(3, dtype="int64")}


def reader(arrays):
    kinds = {name: values.dtype.kind == "f" for name, values in arrays.items()}
    types = {name: SimpleNamespace(is_floating=is_float) for name, is_float in kinds.items()}
    return SimpleNamespace(
        get_variable_to_shape_map=lambda: {name: list(arrays[name].shape) for name in arrays},
        get_variable_to_dtype_map=lambda: types,
        get_tensor=arrays.__getitem__,
    )


@pytest.fixture
def tensorflow(monkeypatch):
    """Replace TensorFlow, and return its checkpoints by their prefix."""
    checkpoints = {}

    def load_checkpoint(prefix):
        if prefix not in checkpoints:
            raise RuntimeError(f"Unable to open table file {prefix}")
        return reader(checkpoints[prefix])

    train = SimpleNamespace(load_checkpoint=load_checkpoint)
    named = {"train": train, "__spec__": ModuleSpec("tensorflow", None)}
    monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace(**named))
    return checkpoints


def put(folder, data, tensorflow=None, options=None, number=12):
    """Write a checkpoint and its options, and return its prefix."""
    folder.mkdir(exist_ok=True)
    if options is not None:
        (folder / "options.json").write_text(json.dumps(options))
    prefix = folder / f"model.ckpt-{number}"
    for ending in (".index", ".meta", ".data-00000-of-00001"):
        prefix.with_name(prefix.name + ending).write_bytes(b"")
    if tensorflow is not None:
        tensorflow[str(prefix)] = variables(data)
    return prefix


@pytest.mark.conversions
@pytest.mark.parametrize("name", ["plain", "skip"])
def test_a_checkpoint_equals_its_dump(tmp_path, tensorflow, name):
    prefix = put(tmp_path / "m", reference.read_hdf5(BILM_TF / name / "weights.hdf5"), tensorflow)
    shutil.copy(BILM_TF / name / "options.json", tmp_path / "m")
    for path in (prefix, tmp_path / "m", prefix.with_name(f"{prefix.name}.index")):
        assert_same_vectors(path, BILM_TF / name)
    found = describe(prefix)
    assert (found["format"], found["softmax"]) == ("checkpoint", None)
    assert found["files"][-1]["name"] == "options.json"
    convert(prefix, tmp_path / "weights.hdf5")
    assert_same_vectors(tmp_path / "weights.hdf5", BILM_TF / name)


def test_models_of_other_sizes_are_read(tmp_path, tensorflow):
    for options, names in (
        ({**models.tiny_options(), "bidirectional": False}, models.ONE_DIRECTION),
        (models.tiny_options(n_layers=1), [("MultiRNNCell/Cell0/", "")]),
        (models.tiny_options(projection_dim=12), []),
    ):
        data = reference.random_datasets(options, seed=4)
        prefix = put(tmp_path / "m", models.renamed(data, names), tensorflow, options)
        expected, _ = reference.layers(options, data, models.SENTENCES)
        models.check_layers(read_weights(prefix).embed(models.SENTENCES)[0], expected)


@pytest.mark.parametrize("is_shared", [False, True])
def test_the_softmax_of_a_checkpoint_is_read(tmp_path, tensorflow, is_shared):
    """The dump has no softmax. A softmax that shares the embedding has only a bias."""
    options = {"lstm": models.tiny_options()["lstm"]} if is_shared else models.tiny_options()
    data = reference.random_datasets(options, seed=4, n_words=len(WORDS) if is_shared else 0)
    softmax = reference.random_softmax(options, len(WORDS))
    wanted = data["embedding"] if is_shared else softmax["softmax/W"]
    if is_shared:
        del softmax["softmax/W"]
    prefix = put(tmp_path / "m", {**data, **softmax}, tensorflow, options)
    (tmp_path / "m" / "vocab.txt").write_text("".join(f"{word}\n" for word in WORDS))
    model = read_language_model(prefix)
    assert_same_arrays(model.softmax.arrays(), {"weight": wanted, "bias": softmax["softmax/b"]})
    assert model.vocabulary.words == WORDS


def test_the_latest_checkpoint_of_a_folder_is_read(tmp_path, tensorflow):
    for number in (5, 10):
        data = reference.random_datasets(models.tiny_options(), seed=number)
        put(tmp_path / "m", data, tensorflow, models.tiny_options(), number)
    named = "several checkpoints", "model.ckpt-10"
    models.check_refused(lambda: read_weights(tmp_path / "m"), *named)
    note = 'model_checkpoint_path: "/somebody/run/model.ckpt-5"\nall_model_checkpoint_paths: "x"'
    (tmp_path / "m" / "checkpoint").write_text(note)
    assert_same_vectors(tmp_path / "m", tmp_path / "m" / "model.ckpt-5")


def test_without_tensorflow_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    prefix = put(tmp_path / "m", {})
    models.check_refused(lambda: read_weights(prefix), "the options file is missing")
    (tmp_path / "m" / "options.json").write_text(json.dumps(models.tiny_options()))
    named = "pip install tensorflow", f"dump_weights('{tmp_path / 'm'}', 'weights.hdf5')"
    for path in (prefix, tmp_path / "m"):
        with pytest.raises(ImportError) as error:
            read_weights(path)
        assert all(part in str(error.value) for part in (str(prefix), *named))
        assert "\n" not in str(error.value)


def test_broken_checkpoints_are_named(tmp_path, tensorflow):
    data = reference.random_datasets(models.tiny_options())
    prefix = put(tmp_path / "m", data, options=models.tiny_options())
    models.check_refused(lambda: read_weights(prefix), "TensorFlow cannot read", "table file")
    less = {name: values for name, values in variables(data).items() if "CNN_proj" not in name}
    whole = {**variables(data), "lm/char_embed": np.zeros((261, 4), "int32")}
    for arrays, message in (
        ({"global_step": np.array(1)}, f"{prefix}: not a checkpoint of bilm-tf"),
        (less, "variable 'CNN_proj/W_proj' is missing"),
        (whole, "variable 'lm/char_embed' does not contain floats"),
    ):
        tensorflow[str(prefix)] = arrays
        models.check_refused(lambda: read_weights(prefix), message)
