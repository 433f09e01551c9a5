import json
import re

import h5py
import numpy as np
import pytest
import torch

from spacy_elmo.weights import allennlp, read_weights

import reference
from models import check_layers, tiny_bilm, tiny_options, write_allennlp

VARIANTS = [
    {},
    {"n_layers": 1},
    {"n_layers": 3, "n_highway": 2},
    {"n_highway": 0, "filters": [[1, 2], [3, 3]]},
    {"dim": 6, "projection_dim": 6, "activation": "tanh"},
    {"cell_clip": None, "proj_clip": None, "use_skip_connections": False},
]
CELL = "RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell"


@pytest.fixture
def data():
    return reference.random_datasets(tiny_options())


def write(folder, data, **changes):
    """Changes that are None take a dataset away."""
    kept = {name: values for name, values in {**data, **changes}.items() if values is not None}
    return reference.write_hdf5(folder, tiny_options(), kept)


def fails(path, *parts):
    with pytest.raises(ValueError, match=re.escape(str(parts[0]))) as error:
        read_weights(path)
    for part in parts[1:]:
        assert str(part) in str(error.value)


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
    assert again.state_dict().keys() == bilm.state_dict().keys()
    for name, values in bilm.state_dict().items():
        assert torch.equal(values, again.state_dict()[name]), name


def test_a_model_that_is_read_is_frozen(tmp_path, data):
    bilm = read_weights(write(tmp_path, data))
    assert not bilm.training
    assert not any(weight.requires_grad for weight in bilm.parameters())
    assert all(weight.dtype == torch.float32 for weight in bilm.parameters())
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


def test_what_is_no_part_of_the_model_is_ignored(tmp_path, data):
    path = write(tmp_path, data, **{"softmax/W": np.zeros((9, 5)), "softmax/b": np.zeros(9)})
    assert read_weights(path).config.n_layers == 2


@pytest.mark.parametrize("kind", ["float64", "float16"])
def test_other_floats_are_read(tmp_path, data, kind):
    path = write(tmp_path, data)
    with h5py.File(path, "a") as file:
        del file["CNN_proj/b_proj"]
        file["CNN_proj/b_proj"] = np.arange(5, dtype=kind) / 4
    bias = read_weights(path).encoder.projection.bias
    assert bias.dtype == torch.float32
    assert bias.tolist() == [0, 0.25, 0.5, 0.75, 1]


# Broken files


def test_truncated_file(tmp_path, data):
    path = write(tmp_path, data)
    content = path.read_bytes()
    for size in (0, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        fails(path, path, "not a readable HDF5")


@pytest.mark.parametrize("name", ["char_embed", "CNN/b_cnn_1", "CNN_proj/W_proj", f"{CELL}/W_P_0"])
def test_missing_dataset(tmp_path, data, name):
    path = write(tmp_path, data, **{name: None})
    fails(path, path, f"'{name}' is missing", "options.json", data[name].shape)


@pytest.mark.parametrize(
    "name", ["char_embed", "CNN/W_cnn_2", "CNN_high_0/W_carry", f"{CELL}/W_0", f"{CELL}/B"]
)
def test_wrong_shape(tmp_path, data, name):
    wrong = data[name][:-1]
    path = write(tmp_path, data, **{name: wrong})
    fails(path, path, f"'{name}'", wrong.shape, "options.json", data[name].shape)


def test_transposed_dataset(tmp_path, data):
    path = write(tmp_path, data, **{"CNN_proj/W_proj": data["CNN_proj/W_proj"].T})
    fails(path, path, "'CNN_proj/W_proj'", (5, 18), (18, 5))


@pytest.mark.parametrize(
    ("section", "key", "value", "named"),
    [
        ("lstm", "n_layers", 1, "Cell1/LSTMCell"),
        ("lstm", "n_layers", 3, "Cell2/LSTMCell"),
        ("lstm", "dim", 13, "LSTMCell"),
        ("lstm", "projection_dim", 6, "CNN_proj"),
        ("char_cnn", "n_highway", 0, "CNN_high_0"),
        ("char_cnn", "n_highway", 2, "CNN_high_1"),
        ("char_cnn", "filters", [[1, 4], [2, 6]], "CNN/"),
        ("char_cnn", "filters", [[1, 4], [2, 6], [3, 8], [4, 2]], "CNN"),
        ("char_cnn", "embedding", {"dim": 5}, "char_embed"),
    ],
)
def test_options_that_do_not_fit(tmp_path, data, section, key, value, named):
    path = write(tmp_path, data)
    options = tiny_options()
    options[section][key] = value
    (tmp_path / "options.json").write_text(json.dumps(options), "utf8")
    fails(path, path, named, "(", "options.json")


def test_layer_too_many(tmp_path, data):
    name = "RNN_0/RNN/MultiRNNCell/Cell2/LSTMCell/B"
    path = write(tmp_path, data, **{name: np.zeros(48, "float32")})
    fails(path, path, f"'{name}' (48,)", "options.json")


def test_integers(tmp_path, data):
    path = write(tmp_path, data)
    with h5py.File(path, "a") as file:
        del file["CNN_proj/b_proj"]
        file["CNN_proj/b_proj"] = np.zeros(5, "int32")
    fails(path, path, "'CNN_proj/b_proj'", "int32")


@pytest.mark.parametrize("content", [b"{", b"", b"[]", b"{}", b"\xff\xfe", b'"lstm"', b"null"])
def test_bad_options(tmp_path, data, content):
    path = write(tmp_path, data)
    (tmp_path / "options.json").write_bytes(content)
    fails(path, tmp_path / "options.json")


def test_no_options(tmp_path, data):
    path = write(tmp_path, data)
    (tmp_path / "options.json").unlink()
    for place in (path, tmp_path):
        fails(place, path, "options.json")


def test_a_group_in_place_of_a_dataset(tmp_path, data):
    path = write(tmp_path, data, **{"CNN/b_cnn_0": None, "CNN/b_cnn_0/x": np.zeros(4)})
    fails(path, path, "CNN/b_cnn_0")


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
