"""ELMoForManyLangs' folders, written: what `convert` makes of models with such an encoder."""

import codecs
import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from spacy_elmo.frozen.softmax import FrozenSoftmax
from spacy_elmo.frozen.vocabulary import InputVocabulary, Vocabulary
from spacy_elmo.weights import manylangs, read_weights, safetensors_file
from spacy_elmo.weights.bundle import ModelBundle
from spacy_elmo.weights.convert import LossError, convert
from spacy_elmo.weights.formats import describe, read_bundle
from spacy_elmo.weights.pipeline_folder import PipelineFolder
from spacy_elmo.weights.vocabulary_files import dic_content, read_dic

from helpers import reference_manylangs as reference
from helpers.conversions import assert_same_vectors
from helpers.golden import MANYLANGS
from helpers.models import check_refused, tiny_bilm

VARIANTS = [
    {},
    {"word_dim": 0},
    {"char_dim": 0},
    {"char_dim": 0, "word_dim": 6},
    {"filters": [[2, 1]], "word_dim": 5, "n_highway": 0},
    {"n_layers": 1, "activation": "tanh", "n_highway": 0},
    {"n_layers": 3, "cell_clip": None, "proj_clip": 0, "max_characters_per_token": 7},
    {"dim": 6, "proj_clip": 0.5},
]


def to_manylangs(source, target, **settings):
    return convert(source, target, format="manylangs", **settings)[1]


@pytest.fixture
def source(tmp_path):
    return reference.write_random(tmp_path / "source")


def state_dicts(folder):
    return {
        f"{name} {key}": tensor.numpy()
        for name in ("token_embedder.pkl", "encoder.pkl")
        for key, tensor in torch.load(folder / name, weights_only=True).items()
    }


def dictionary(path):
    """As the original program reads it."""
    entries = {}
    with codecs.open(str(path), "r", encoding="utf-8") as lines:
        for line in lines:
            token, _, number = line.strip().rpartition("\t")
            entries[token or "\u3000"] = int(number)
    return entries


@pytest.mark.parametrize("changes", VARIANTS)
def test_the_files_are_those_of_the_original(tmp_path, changes):
    source = reference.write_random(tmp_path / "source", **changes)
    for before, name, settings in (
        (source, "p", {"lang": "fi"}),
        (tmp_path / "p", "a.safetensors", {}),
        (tmp_path / "a.safetensors", "b", {"format": "manylangs"}),
        (tmp_path / "b", "c", {"format": "manylangs"}),
    ):
        assert convert(before, tmp_path / name, **settings)[1] == []
        assert_same_vectors(tmp_path / name, source)
        assert read_weights(tmp_path / name).checksum() == read_weights(source).checksum()
    names = [sorted(path.name for path in folder.iterdir()) for folder in (tmp_path / "b", source)]
    assert names[0] == names[1] == [file["name"] for file in describe(source)["files"]]
    theirs, ours = state_dicts(source), state_dicts(tmp_path / "b")
    assert ours.keys() == theirs.keys()
    for name, values in theirs.items():
        assert ours[name].dtype == np.float32
        # A bit of a forget bias may have been lost when the 1 in it was taken off.
        np.testing.assert_allclose(ours[name], values, rtol=0, atol=2**-22, err_msg=name)
        if not name.endswith("state_linearity.bias"):
            np.testing.assert_array_equal(ours[name], values, err_msg=name)
    for path in source.glob("*.dic"):
        assert dictionary(tmp_path / "b" / path.name) == dictionary(path)
    config = json.loads((tmp_path / "b" / "config.json").read_text("utf8"))
    sizes = json.loads((tmp_path / "b" / config["config_path"]).read_text("utf8"))
    assert {"classifier", "dropout"} < sizes.keys()  # their program asks for these
    wanted = reference.sizes_of(**changes)
    if not wanted["token_embedder"]["char_dim"]:
        wanted["token_embedder"].update(filters=[], n_highway=0)
    wanted["encoder"]["proj_clip"] = wanted["encoder"]["proj_clip"] or None
    assert {name: sizes[name] for name in wanted} == wanted


def test_fixture(tmp_path):
    assert to_manylangs(MANYLANGS, tmp_path / "a") == []
    assert_same_vectors(tmp_path / "a", MANYLANGS)


def test_pipelines_languages_and_provenance(tmp_path, source):
    patch = {"corpus": {"name": "é"}}
    convert(source, tmp_path / "fi", lang="fi")
    assert to_manylangs(tmp_path / "fi", tmp_path / "b", provenance=patch) == []
    convert(tmp_path / "b", tmp_path / "again")
    content = read_bundle(tmp_path / "again")
    assert (content.lang, content.provenance["corpus"]) == ("fi", {"name": "é"})
    assert_same_vectors(tmp_path / "again", source)
    assert read_bundle(source).lang is None


# What is lost


def test_forget_biases_that_lose_bits(tmp_path, source):
    module = read_weights(source).thaw().requires_grad_(False)
    bias = module.stacks[1][0].bias
    bias[2 * 20] = 1e-9  # 1 + 1e-9 is 1
    bias[2 * 20 + 1] = 0.25
    bias[0] = 1e-9  # no forget gate
    safetensors_file.write(module.freeze(), tmp_path / "a.safetensors")
    with pytest.raises(LossError, match="1 weights change in float32, by up to 1e-09"):
        to_manylangs(tmp_path / "a.safetensors", tmp_path / "b")
    assert not (tmp_path / "b").exists()
    assert len(to_manylangs(tmp_path / "a.safetensors", tmp_path / "b", allow_loss=True)) == 1
    got = read_weights(tmp_path / "b").arrays()["stacks.1.0.bias"]
    assert got[40] == 0
    bias[40] = 0
    np.testing.assert_array_equal(got, bias)


def test_softmax_has_no_room(tmp_path, source):
    words = ["<S>", "</S>", "<UNK>", "the"]
    softmax = FrozenSoftmax({"weight": np.zeros((4, 6), "f4"), "bias": np.zeros(4, "f4")})
    prediction = softmax, Vocabulary(words)
    PipelineFolder.write(ModelBundle(read_weights(source), prediction, "fi"), tmp_path / "p")
    with pytest.raises(LossError, match="the softmax and its vocabulary of 4 words"):
        to_manylangs(tmp_path / "p", tmp_path / "b")
    assert to_manylangs(tmp_path / "p", tmp_path / "b", keep_softmax=False) == []
    assert_same_vectors(tmp_path / "b", source)


# What has no place


def test_models_of_other_kinds(tmp_path, source):
    config = read_weights(source).config
    for other, *message in (
        (tiny_bilm().config, "cannot store", "UTF-8 bytes", "NAME.safetensors"),
        (replace(config, bidirectional=False), "one direction"),
        (replace(config, use_skip_connections=False), "no skip connections"),
        (replace(config, lstm_dim=6), "LSTMs without projection"),
    ):
        check_refused(lambda: manylangs.to_sizes(other), *message)  # noqa: B023
    manylangs.to_sizes(replace(config, use_skip_connections=False, n_layers=1))


def test_half_precision(tmp_path, source):
    with pytest.raises(ValueError, match="float32"):
        to_manylangs(source, tmp_path / "b", dtype="float16", allow_loss=True)


def test_dictionaries(tmp_path):
    path = tmp_path / "word.dic"
    strings = ["<oov>", "\u3000", None, "a b", "naïve ", "😀", None, "5", "a"]
    path.write_text(dic_content(InputVocabulary(strings), path.name), "utf8")
    assert list(read_dic(path, 9, "x").strings) == strings
    entries = dictionary(path)
    assert entries == {s: i for i, s in enumerate(strings) if s is not None}
    wrong = [" a", "a\tb", "a\nb", "", "\u00a0", "half\ud800", "a\rb", "a\u2028b", "a\x85"]
    for token in wrong:
        vocabulary = InputVocabulary(["<oov>", token])
        check_refused(lambda: dic_content(vocabulary, "word.dic"), "word.dic", repr(token))  # noqa: B023
    check_refused(
        lambda: dic_content(InputVocabulary(["<oov>", *wrong]), "word.dic"),
        *map(repr, wrong[:5]),
        ", 4 others",
    )
    check_refused(lambda: dic_content(InputVocabulary(["a", None]), "word.dic"), "last id has none")


# What is there already


def test_nothing_is_overwritten_unasked_or_in_part(tmp_path, source, monkeypatch):
    other = reference.write_random(tmp_path / "other", n_layers=1)
    to_manylangs(other, tmp_path / "b")
    with pytest.raises(ValueError, match="exists already.*`force=True`"):
        to_manylangs(source, tmp_path / "b")

    def fail(*_, **__):
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(manylangs.srsly, "write_json", fail)
        for target in ("b", "new"):
            with pytest.raises(OSError, match="disk full"):
                to_manylangs(source, tmp_path / target, force=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b", "other", "source"]
    assert_same_vectors(tmp_path / "b", other)
    to_manylangs(source, tmp_path / "b", force=True)
    assert_same_vectors(tmp_path / "b", source)
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "love.txt").touch()
    with pytest.raises(ValueError, match="other files than a model of ELMoForManyLangs"):
        to_manylangs(source, tmp_path / "letters", force=True)
