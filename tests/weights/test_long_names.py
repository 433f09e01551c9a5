"""Names and values of any length in files: what is said of them is short."""

import json
import struct

import h5py
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from spacy_elmo.export.places import InputPiece
from spacy_elmo.export.text_input import column_number
from spacy_elmo.files.errors import named_errors
from spacy_elmo.weights import read_weights, safetensors_file
from spacy_elmo.weights.convert import LossError, convert
from spacy_elmo.weights.formats import read_bundle

from helpers import reference, reference_manylangs
from helpers.conversions import write_source
from helpers.models import tiny_bilm, tiny_options

LONG = "long" * 250_000
MOST = 1500  # characters of a message, the paths of this test included


def write_safetensors(folder):
    safetensors_file.write(tiny_bilm(), folder / "a.safetensors")
    return folder / "a.safetensors"


def change_header(path, change):
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + size :])


def tensor_name(folder):
    path = write_safetensors(folder)
    with_long = {**load_file(path), LONG: torch.zeros(2)}
    with open(path, "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        metadata = json.loads(file.read(size))["__metadata__"]
    save_file(with_long, path, metadata)
    return path


def tensor_type(folder):
    path = write_safetensors(folder)
    change_header(path, lambda header: header["stacks.0.0.bias"].update(dtype=LONG))
    return path


def tensor_shape(folder):
    path = write_safetensors(folder)
    ones = [1] * 200_000
    change_header(path, lambda header: header["stacks.0.0.bias"]["shape"].extend(ones))
    return path


def size_name(folder):
    path = write_safetensors(folder)
    config = json.dumps({LONG: 1})
    change_header(path, lambda header: header["__metadata__"].update(config=config))
    return path


def dataset_name(folder):
    datasets = reference.random_datasets(tiny_options())
    path = reference.write_hdf5(folder, tiny_options(), datasets)
    with h5py.File(path, "a") as file:
        file[f"CNN/{'x' * 60_000}"] = np.zeros(2)
    return path


def state_dict_name(folder):
    sizes = reference_manylangs.sizes_of()
    folder = reference_manylangs.write_folder(
        folder / "m", sizes, reference_manylangs.random_tensors(sizes)
    )
    state = torch.load(folder / "encoder.pkl", weights_only=True)
    state[LONG[:200_000]] = torch.zeros(2)
    torch.save(state, folder / "encoder.pkl")
    return folder


def first_word(folder):
    write_source(folder / "p")
    words = (folder / "p" / "vocab.txt").read_text("utf8").splitlines()
    (folder / "p" / "vocab.txt").write_text("\n".join([LONG, *words[1:]]) + "\n", "utf8")
    return folder / "p"


def word_twice(folder):
    write_source(folder / "p")
    words = (folder / "p" / "vocab.txt").read_text("utf8").splitlines()
    (folder / "p" / "vocab.txt").write_text(
        "\n".join([*words[:4], LONG[:10_000], LONG[:10_000]]) + "\n", "utf8"
    )
    return folder / "p"


MODELS = [
    tensor_name,
    tensor_type,
    tensor_shape,
    size_name,
    dataset_name,
    state_dict_name,
    first_word,
    word_twice,
]


@pytest.mark.parametrize("make", MODELS)
def test_errors_of_models(tmp_path, make):
    path = make(tmp_path)
    with pytest.raises(ValueError, match=r"safetensors|hdf5|pkl|vocab\.txt") as error:
        read_bundle(path)
    assert len(str(error.value)) < MOST
    assert "\n" not in str(error.value)


def test_words_that_do_not_fit_the_softmax(tmp_path):
    write_source(tmp_path / "p")
    path = tmp_path / "p" / "softmax.safetensors"
    save_file({**load_file(path), LONG: torch.zeros(2), "b": torch.zeros(1)}, path)
    with pytest.raises(ValueError, match="described by the 6 words of vocab.txt") as error:
        read_bundle(tmp_path / "p")
    assert len(str(error.value)) < MOST
    assert "\n" not in str(error.value)


def test_what_a_conversion_would_lose(tmp_path):
    path = reference.write_hdf5(tmp_path, tiny_options(), reference.random_datasets(tiny_options()))
    with h5py.File(path, "a") as file:
        for i in range(300):
            file[f"more/{'x' * 500}{i:03d}"] = np.zeros(1)
    with pytest.raises(LossError, match="datasets that do not belong .*, 295 others") as error:
        convert(path, tmp_path / "b.safetensors")
    assert len(str(error.value)) < MOST
    assert read_weights(path).config.n_layers == 2


def test_columns(tmp_path):
    names = "\t".join([LONG, *(f"name{i}" for i in range(10_000))])
    with pytest.raises(ValueError, match="no column 'text', but .*, 9,996 others") as error:
        column_number(InputPiece("a.tsv"), names.encode(), "text")
    assert len(str(error.value)) < MOST


def test_named_errors():
    with pytest.raises(ValueError, match=r"^a.txt: x{1000}\.\.\.$"), named_errors("a.txt"):
        raise ValueError("x" * 10**6)
    with pytest.raises(ValueError, match=r"^a.txt: x{1000}$"), named_errors("a.txt"):
        raise ValueError("x" * 1000)
