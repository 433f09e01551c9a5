"""`spacy elmo convert`: what it prints, its exit codes, and nothing half-written."""

import json

import numpy as np
import pytest
import spacy
import torch

from spacy_elmo.weights import read_weights

from helpers.commands import shown_by
from helpers.full_disk import room_for
from helpers.golden import MANYLANGS
from helpers.models import tiny_bilm, write_safetensors
from helpers.prepared import content

pytestmark = [pytest.mark.commands, pytest.mark.conversions]


@pytest.fixture
def source(tmp_path):
    return write_safetensors(tmp_path / "x.safetensors", {"tokens": 3, "path": "/secret"})


def convert(*arguments, status=0):
    return shown_by("convert", *arguments, status=status)


def test_convert_prints_the_size_and_keeps_the_weights(tmp_path, source):
    output = convert(source, tmp_path / "weights.hdf5")
    n_weights = sum(weight.size for weight in tiny_bilm().arrays().values())
    assert f"{n_weights:,} parameters in float32" in output
    convert(tmp_path / "weights.hdf5", tmp_path / "a", "--lang", "fi")
    assert spacy.load(tmp_path / "a").lang == "fi"
    assert read_weights(tmp_path / "a").checksum() == tiny_bilm().checksum()


def test_loss_has_an_exit_code_of_its_own(tmp_path, source):
    target = tmp_path / "a.safetensors"
    output = convert(source, target, "--dtype", "bfloat16", status=3)
    assert "would lose: precision" in output
    assert "Nothing was written. Set --allow-loss to write it anyway" in output
    assert not target.exists()
    output = convert(source, target, "--dtype", "bfloat16", "--allow-loss")
    assert "Lost: precision" in output
    assert target.exists()


@pytest.mark.parametrize("name", ["weights.hdf5", "manylangs"])
def test_a_full_disk_leaves_the_old_file(tmp_path, source, name):
    """The limit is reached at the first dataset, in the middle, and at the last part."""
    target, options = tmp_path / name, ["--force"]
    if name == "manylangs":
        source, options = MANYLANGS, ["--force", "--format", "manylangs"]
    convert(source, target, *options)
    size = max(path.stat().st_size for path in (target, *target.glob("*.pkl")))
    before = content(tmp_path)
    for limit in (100, size // 2, size - 100):
        with room_for(limit):
            output = convert(source, target, *options, status=1)
        assert f"{name} cannot be written: File too large. Make room and run the same" in output
        assert content(tmp_path) == before
    with room_for(2 * size):
        convert(source, target, *options)
    assert content(tmp_path).keys() == before.keys()
    assert read_weights(target).checksum() == read_weights(source).checksum()


def test_provenance_is_changed_by_a_file(tmp_path, source):
    patch, target = tmp_path / "patch.json", tmp_path / "a.safetensors"
    patch.write_text(json.dumps({"licence": "CC0-1.0", "path": None}))
    convert(source, target, "--provenance", patch)
    assert read_weights(target).provenance == {"tokens": 3, "licence": "CC0-1.0"}
    for text in ("{", "[]"):
        patch.write_text(text)
        assert "patch.json" in convert(source, tmp_path / "b", "--provenance", patch, status=1)


def test_cove_is_converted(tmp_path):
    lstm = torch.nn.LSTM(4, 4, num_layers=2, bidirectional=True)
    torch.save(lstm.state_dict(), tmp_path / "wmtlstm.pth")
    nlp = spacy.blank("en")
    nlp.to_disk(tmp_path / "empty")
    nlp.vocab.set_vector("cat", np.arange(4, dtype="float32"))
    nlp.to_disk(tmp_path / "vectors")
    files = tmp_path / "wmtlstm.pth", tmp_path / "cove.safetensors"
    assert "has no word vectors" in convert(*files, "--vectors", tmp_path / "empty", status=1)
    convert(*files, "--vectors", tmp_path / "vectors")
    layers, _ = read_weights(files[1]).embed([["cat"]])
    expected = lstm(torch.arange(4.0)[None])[0].detach()
    np.testing.assert_allclose(layers[0][2], expected, atol=2e-6, rtol=0)
    assert "joined_directions" in convert(files[1], tmp_path / "cove.hdf5", status=1)
    assert "words" in convert(files[1], tmp_path / "theirs", "--format", "manylangs", status=1)
