"""bilm-tf's checkpoints, with a module in TensorFlow's place that serves the fixture's arrays
under the names of bilm-tf's variables."""

import json
import shutil
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import h5py
import numpy as np
import pytest

from spacy_elmo.language_model.frozen import read_language_model
from spacy_elmo.weights import read_weights
from spacy_elmo.weights.checkpoint_file import hdf5_name
from spacy_elmo.weights.convert import convert
from spacy_elmo.weights.formats import describe

from helpers import reference
from helpers.conversions import assert_same_vectors
from helpers.golden import BILM_TF
from helpers.models import (
    ONE_DIRECTION,
    SENTENCES,
    check_layers,
    check_refused,
    renamed,
    tiny_options,
)

WORDS = ["<S>", "</S>", "<UNK>", "the"]
# As TensorFlow 1.2 and bilm-tf's scopes give them: by their dumped names.
VARIABLES = [
    ("/RNN/", "/rnn/"),
    ("MultiRNNCell/Cell", "multi_rnn_cell/cell_"),
    ("LSTMCell", "lstm_cell"),
    ("W_P_0", "projection/kernel"),
    ("/W_0", "/kernel"),
    ("/B", "/bias"),
]


def variables(data):
    """With those of the optimizer, and of the run."""
    names = {f"lm/{name}": values for name, values in renamed(data, VARIABLES).items()}
    slots = {f"{name}/Adagrad": np.full_like(values, 7) for name, values in names.items()}
    return {**names, **slots, "global_step": np.array(3, dtype="int64")}


def arrays_of(path):
    names: list[str] = []
    with h5py.File(path) as file:
        file.visit(names.append)
        return {name: file[name][()] for name in names if isinstance(file[name], h5py.Dataset)}


class Reader:
    def __init__(self, arrays):
        self.arrays = arrays

    def get_variable_to_shape_map(self):
        return {name: list(values.shape) for name, values in self.arrays.items()}

    def get_variable_to_dtype_map(self):
        return {
            name: SimpleNamespace(is_floating=values.dtype.kind == "f")
            for name, values in self.arrays.items()
        }

    def get_tensor(self, name):
        return self.arrays[name]


@pytest.fixture
def tensorflow(monkeypatch):
    """What it has: checkpoints by their prefix."""
    checkpoints = {}

    def load_checkpoint(prefix):
        if prefix not in checkpoints:
            raise RuntimeError(f"Unable to open table file {prefix}\nand more")
        return Reader(checkpoints[prefix])

    module = ModuleType("tensorflow")
    module.__spec__ = ModuleSpec("tensorflow", None)
    module.train = SimpleNamespace(load_checkpoint=load_checkpoint)
    monkeypatch.setitem(sys.modules, "tensorflow", module)
    return checkpoints


def put(folder, data, tensorflow=None, number=12):
    """RETURNS: The prefix of the checkpoint."""
    folder.mkdir(exist_ok=True)
    prefix = folder / f"model.ckpt-{number}"
    for ending in (".index", ".meta", ".data-00000-of-00001"):
        prefix.with_name(prefix.name + ending).write_bytes(b"")
    if tensorflow is not None:
        tensorflow[str(prefix)] = variables(data)
    return prefix


@pytest.mark.parametrize("name", ["plain", "skip"])
def test_as_its_dump(tmp_path, tensorflow, name):
    prefix = put(tmp_path / "m", arrays_of(BILM_TF / name / "weights.hdf5"), tensorflow)
    shutil.copy(BILM_TF / name / "options.json", tmp_path / "m")
    for path in (prefix, tmp_path / "m", prefix.with_name(f"{prefix.name}.index")):
        assert_same_vectors(path, BILM_TF / name)
    told = describe(prefix)
    assert (told["format"], told["softmax"]) == ("checkpoint", None)
    assert [file["name"] for file in told["files"]][-1] == "options.json"
    convert(prefix, tmp_path / "weights.hdf5")
    assert_same_vectors(tmp_path / "weights.hdf5", BILM_TF / name)


@pytest.mark.parametrize("kind", ["one direction", "one layer", "no projection"])
def test_other_models(tmp_path, tensorflow, kind):
    changes = {"one layer": {"n_layers": 1}, "no projection": {"projection_dim": 12}}
    options = tiny_options(**changes.get(kind, {}))
    if kind == "one direction":
        options["bidirectional"] = False
    data = reference.random_datasets(options, seed=4)
    dumped = data
    if kind == "one direction":
        dumped = renamed(data, ONE_DIRECTION)
    elif kind == "one layer":
        dumped = renamed(data, [("MultiRNNCell/Cell0/", "")])
    prefix = put(tmp_path / "m", dumped, tensorflow)
    (tmp_path / "m" / "options.json").write_text(json.dumps(options))
    expected, _ = reference.layers(options, data, SENTENCES)
    check_layers(read_weights(prefix).embed(SENTENCES)[0], expected)


def test_names_of_variables():
    """Those that bilm-tf's own tests and dump name."""
    for theirs, ours in (
        ("lm/char_embed", "char_embed"),
        ("lm/CNN_high_0/W_carry", "CNN_high_0/W_carry"),
        (
            "lm/RNN_1/rnn/multi_rnn_cell/cell_1/lstm_cell/projection/kernel",
            "RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell/W_P_0",
        ),
        (
            "lm/RNN_0/rnn/multi_rnn_cell/cell_0/lstm_cell/bias",
            "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/B",
        ),
        ("lm/RNN_0/rnn/lstm_cell/kernel", "RNN_0/RNN/LSTMCell/W_0"),
        (
            "lm/rnn/multi_rnn_cell/cell_0/lstm_cell/kernel",
            "rnn/MultiRNNCell/Cell0/LSTMCell/kernel",
        ),
    ):
        assert hdf5_name(theirs) == ours


@pytest.mark.parametrize("is_shared", [False, True])
def test_softmax(tmp_path, tensorflow, is_shared):
    """Which the dump leaves out; shared with the embedding, there is a bias alone."""
    options = tiny_options()
    if is_shared:
        del options["char_cnn"]
    data = reference.random_datasets(options, seed=4, n_words=len(WORDS) if is_shared else 0)
    softmax = reference.random_softmax(options, len(WORDS))
    if is_shared:
        softmax.pop("softmax/W")
    prefix = put(tmp_path / "m", {**data, **softmax}, tensorflow)
    (tmp_path / "m" / "options.json").write_text(json.dumps(options))
    (tmp_path / "m" / "vocab.txt").write_text("".join(f"{word}\n" for word in WORDS))
    model = read_language_model(prefix)
    wanted = data["embedding"] if is_shared else softmax["softmax/W"]
    found = model.softmax.arrays()
    np.testing.assert_array_equal(found["weight"], wanted)
    np.testing.assert_array_equal(found["bias"], softmax["softmax/b"])
    assert model.vocabulary.words == WORDS


def test_the_latest_of_a_folder(tmp_path, tensorflow):
    options = tiny_options()
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "options.json").write_text(json.dumps(options))
    for number in (5, 10):
        data = reference.random_datasets(options, seed=number)
        put(tmp_path / "m", data, tensorflow, number)
    check_refused(lambda: read_weights(tmp_path / "m"), "several checkpoints", "model.ckpt-10")
    note = (
        'model_checkpoint_path: "/home/somebody/run/model.ckpt-5"\nall_model_checkpoint_paths: "x"'
    )
    (tmp_path / "m" / "checkpoint").write_text(note)
    assert_same_vectors(tmp_path / "m", tmp_path / "m" / "model.ckpt-5")


def test_without_tensorflow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    prefix = put(tmp_path / "m", {})
    check_refused(lambda: read_weights(prefix), "the options file is missing")
    (tmp_path / "m" / "options.json").write_text(json.dumps(tiny_options()))
    for path in (prefix, tmp_path / "m"):
        message = check_refused(
            lambda path=path: read_weights(path),
            prefix,
            "pip install tensorflow",
            f"dump_weights('{tmp_path / 'm'}', 'weights.hdf5')",
        )
        assert "\n" not in message


def test_broken(tmp_path, tensorflow):
    options = tiny_options()
    data = reference.random_datasets(options)
    prefix = put(tmp_path / "m", data)
    (tmp_path / "m" / "options.json").write_text(json.dumps(options))
    refused = check_refused(lambda: read_weights(prefix), "TensorFlow cannot read", "table file")
    assert "\n" not in refused
    tensorflow[str(prefix)] = {"global_step": np.array(1)}
    check_refused(lambda: read_weights(prefix), prefix, "not a checkpoint of bilm-tf")
    less = {name: values for name, values in variables(data).items() if "CNN_proj" not in name}
    tensorflow[str(prefix)] = less
    check_refused(lambda: read_weights(prefix), "variable 'CNN_proj/W_proj' is missing")
    tensorflow[str(prefix)] = {**variables(data), "lm/char_embed": np.zeros((261, 4), "int32")}
    check_refused(lambda: read_weights(prefix), "variable 'lm/char_embed' does not contain floats")
