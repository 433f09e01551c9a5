"""Folders of ELMoForManyLangs, read and written, against the original's output and against
numpy."""

import codecs
import json
import os
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from spacy_elmo.bilm.model import BiLM
from spacy_elmo.language_model.frozen import read_language_model
from spacy_elmo.model.vocabulary import InputVocabulary
from spacy_elmo.weights import manylangs, read_weights, safetensors_file
from spacy_elmo.weights.convert import LossError, convert
from spacy_elmo.weights.formats import describe, read_bundle
from spacy_elmo.weights.sizes import read_sizes
from spacy_elmo.weights.vocabulary_files import dic_content, read_dic

from helpers import reference_manylangs as reference
from helpers.commands import run_elmo
from helpers.conversions import assert_same_vectors
from helpers.golden import MANYLANGS, read_manylangs
from helpers.models import check_layers, check_refused, tiny_bilm

SENTENCES = [
    ["The", "cat", "sat", "."],
    [],
    ["the"],
    ["漢", "é😀", "unknown", "t" * 10, "t" * 11, "cat" * 9, "", "\u3000", "\t"],
    ["<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "a", "lone\ud800surrogate"],
]
VARIANTS = [
    *({}, {"word_dim": 0}, {"char_dim": 0}),
    {"char_dim": 0, "word_dim": 6},  # as wide as what it is projected to
    {"filters": [[2, 1]], "word_dim": 5, "n_highway": 0},  # the same, with characters
    {"n_layers": 1, "activation": "tanh", "n_highway": 1},
    {"n_layers": 3, "cell_clip": None, "proj_clip": 0, "max_characters_per_token": 7},
    {"cell_clip": 0.7, "proj_clip": 0.5, "filters": [[1, 3], [12, 4]]},
    {"dim": 6, "proj_clip": 0.5},  # a projection that is square
]


@pytest.fixture
def folder(tmp_path):
    return reference.write_random(tmp_path / "some.model")


def fails(path, *parts):
    return check_refused(lambda: read_weights(path), *parts)


# Numbers


@pytest.mark.conversions
def test_layers_equal_those_of_the_original(tmp_path):
    """The fixture has all layers, computed by the original program."""
    sentences, expected = read_manylangs()
    bilm = read_weights(MANYLANGS)
    assert sum(map(len, sentences)) == 20
    check_layers(bilm.embed(sentences)[0], expected)
    with torch.no_grad():
        check_layers(BiLM.from_frozen(bilm).embed(sentences)[0], expected)
    assert convert(MANYLANGS, tmp_path / "a", format="manylangs")[1] == []
    assert_same_vectors(tmp_path / "a", MANYLANGS)


def check_model(bilm, sizes, tensors):
    """Check a model against numpy, frozen and as a module that trains."""
    expected = reference.layers(sizes, tensors, SENTENCES)
    check_layers(bilm.embed(SENTENCES)[0], expected)
    trained = BiLM.from_frozen(bilm).embed(SENTENCES)[0]
    check_layers([layers.detach() for layers in trained], expected)


def state_dicts(folder):
    return {
        f"{name} {key}": tensor.numpy()
        for name in ("token_embedder.pkl", "encoder.pkl")
        for key, tensor in torch.load(folder / name, weights_only=True).items()
    }


def dictionary(path):
    """Read a dictionary as the original program does."""
    entries = {}
    with codecs.open(str(path), "r", encoding="utf-8") as lines:
        for line in lines:
            token, _, number = line.strip().rpartition("\t")
            entries[token or "\u3000"] = int(number)
    return entries


@pytest.mark.conversions
@pytest.mark.parametrize("changes", VARIANTS)
def test_every_kind_is_read_and_written(tmp_path, changes):
    """Its layers are those of numpy, and the written files are those of the original."""
    sizes = reference.sizes_of(**changes)
    tensors = reference.random_tensors(sizes, seed=3)
    source, written = reference.write_folder(tmp_path / "source", sizes, tensors), tmp_path / "b"
    check_model(read_weights(source), sizes, tensors)
    for before, name, settings in (
        (source, "p", {"lang": "fi"}),
        (tmp_path / "p", "a.safetensors", {}),
        (tmp_path / "a.safetensors", "b", {"format": "manylangs"}),
        (written, "c", {"format": "manylangs"}),
    ):
        assert convert(before, tmp_path / name, **settings)[1] == []
        assert_same_vectors(tmp_path / name, source)
        assert read_weights(tmp_path / name).checksum() == read_weights(source).checksum()
    files = [file["name"] for file in describe(source)["files"]]
    assert sorted(os.listdir(written)) == sorted(os.listdir(source)) == files
    theirs, ours = state_dicts(source), state_dicts(written)
    assert ours.keys() == theirs.keys()
    for name, values in theirs.items():
        assert ours[name].dtype == np.float32
        # A bit of a forget bias may have been lost when the 1 in it was taken off.
        atol = 2**-22 if name.endswith("state_linearity.bias") else 0
        np.testing.assert_allclose(ours[name], values, rtol=0, atol=atol, err_msg=name)
    for path in source.glob("*.dic"):
        assert dictionary(written / path.name) == dictionary(path)
    config = json.loads((written / "config.json").read_text("utf8"))
    found = json.loads((written / config["config_path"]).read_text("utf8"))
    assert {"classifier", "dropout"} < found.keys()  # their program asks for these
    if not sizes["token_embedder"]["char_dim"]:
        sizes["token_embedder"].update(filters=[], n_highway=0)
    sizes["encoder"]["proj_clip"] = sizes["encoder"]["proj_clip"] or None
    assert {name: found[name] for name in sizes} == sizes


def test_white_space_characters_and_windows_line_ends_are_read(folder):
    """The original looks up the last of two white-space characters."""
    lines = [f"{entry}\t{i}" for i, entry in enumerate(reference.CHARACTERS)]
    lines[4] = "\u2003\t4"  # in front of U+3000, and stripped as well
    (folder / "char.dic").write_bytes("\r\n".join(lines).encode())
    vocabulary = read_weights(folder).vocabularies.characters
    assert vocabulary["\u3000"] == reference.CHARACTERS.index("\u3000")
    assert (len(vocabulary), vocabulary.strings[4]) == (22, None)
    assert "d" not in vocabulary


def test_pickles_of_old_pytorch_are_read(tmp_path):
    new = reference.write_random(tmp_path / "new")
    old = reference.write_random(tmp_path / "old", old_pickles=True)
    assert_same_vectors(old, new)
    state = torch.load(old / "encoder.pkl", weights_only=True)
    doubles = {name: torch.nn.Parameter(value.double()) for name, value in state.items()}
    torch.save(doubles, old / "encoder.pkl")
    assert_same_vectors(old, new)
    assert {str(weight.dtype) for weight in read_weights(old).arrays().values()} == {"float32"}


@pytest.mark.usefixtures("all_precisions")
@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_lower_precisions_are_near_float32(folder, precision):
    bilm = read_weights(folder)
    lower = bilm.replace(precision=precision)
    exact, low = (np.hstack(each.embed(SENTENCES)[0]).mean(axis=0) for each in (bilm, lower))
    errors = np.linalg.norm(low - exact, axis=1) / np.linalg.norm(exact, axis=1)
    assert errors.min() > 0 and errors.max() < 0.2


# Where things are


def test_a_folder_can_be_named_in_every_way(folder, monkeypatch):
    monkeypatch.chdir(folder)
    files = folder / "encoder.pkl", folder / "token_embedder.pkl"
    for place in (str(folder), *files, ".", "encoder.pkl"):
        assert_same_vectors(place, folder)


def config_path(folder, path, place):
    """Move the file of sizes to a place, and name a path in the config."""
    (folder / "configs").mkdir()
    (folder / "sizes.json").rename(place)
    (folder / "config.json").write_text(json.dumps({"config_path": path}), "utf8")


PATHS = r"C:\models\sizes.json ../../nowhere/sizes.json configs/sizes.json /x/configs/sizes.json"


@pytest.mark.parametrize("named", PATHS.split())
def test_sizes_are_found_by_the_path_in_the_config(folder, named):
    stands = "configs/sizes.json" if "configs" in named else "sizes.json"
    config_path(folder, named, folder / stands)
    assert read_weights(folder).config.lstm_dim == 20


@pytest.mark.parametrize("way", ["../mine.json", "configs/../../mine.json", "{}/mine.json"])
def test_sizes_outside_of_the_folder_are_not_opened(folder, tmp_path, way):
    config_path(folder, way.format(tmp_path), tmp_path / "mine.json")
    fails(folder, "published sizes", "is not in", "copy it there")
    shutil.copy(tmp_path / "mine.json", folder)
    assert read_weights(folder).config.lstm_dim == 20


def test_published_sizes_replace_a_missing_file(folder, monkeypatch):
    """FORMATS.md, section 2, lists these sizes."""
    sizes = manylangs.PUBLIC_SIZES
    filters = [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]]
    assert (sizes["lstm_dim"], sizes["projection_dim"], sizes["filters"]) == (4096, 512, filters)
    (folder / "sizes.json").unlink()
    message = fails(folder, "published sizes", "/home/somebody/models/sizes.json", "is not in")
    assert "(2048, 4096)" in message or "token_embedder.pkl" in message
    sizes = read_sizes(reference.sizes_of(), manylangs.PLACES)
    monkeypatch.setattr(manylangs, "PUBLIC_SIZES", sizes)
    assert read_weights(folder).config.lstm_dim == 20


# Projections


def without_projections(tensors, name="state_projection"):
    embedder, stacks = tensors
    return embedder, {key: values for key, values in stacks.items() if name not in key}


def test_projections_can_be_missing(tmp_path):
    """This requires P = D. No output is clipped in their place."""
    sizes = reference.sizes_of(dim=6, proj_clip=0.2)
    tensors = without_projections(reference.random_tensors(sizes, seed=3))
    bilm = read_weights(reference.write_folder(tmp_path / "m", sizes, tensors))
    check_model(bilm, sizes, tensors)
    assert not bilm.config.square_projection
    for without, named in (
        ("backward_layer_1", "'backward_layer_1.state_projection.weight' is mis"),
        ("forward_layer_0", "'forward_layer_1.state_projection.weight'"),
    ):
        name = f"{without}.state_projection"
        tensors = without_projections(reference.random_tensors(sizes), name)
        fails(reference.write_folder(tmp_path / without, sizes, tensors), named)


def test_a_byte_order_mark_can_be_a_character_of_the_model(folder):
    lines = (folder / "char.dic").read_text("utf8").replace("h\t", "\ufeff\t").splitlines()
    lines.sort(key=lambda line: line[0] != "\ufeff")
    assert lines[0][:2] == "\ufeff\t"
    (folder / "char.dic").write_text("".join(f"{line}\n" for line in lines), "utf8")
    assert "\ufeff" in read_weights(folder).vocabularies.characters


# Written


def to_manylangs(source, target, **settings):
    return convert(source, target, format="manylangs", **settings)[1]


@pytest.mark.conversions
def test_pipelines_keep_language_and_provenance(tmp_path, folder):
    patch = {"corpus": {"name": "é"}}
    convert(folder, tmp_path / "fi", lang="fi")
    assert to_manylangs(tmp_path / "fi", tmp_path / "b", provenance=patch) == []
    convert(tmp_path / "b", tmp_path / "again")
    content = read_bundle(tmp_path / "again")
    assert (content.lang, content.provenance["corpus"]) == ("fi", {"name": "é"})
    assert_same_vectors(tmp_path / "again", folder)
    assert read_bundle(folder).lang is None


@pytest.mark.conversions
def test_forget_biases_that_lose_bits_are_a_loss(tmp_path, folder):
    module = BiLM.from_frozen(read_weights(folder)).requires_grad_(False)
    bias = module.stacks[1][0].bias
    bias[40], bias[41], bias[0] = 1e-9, 0.25, 1e-9  # The last is no forget gate; 1 + 1e-9 is 1.
    safetensors_file.write(module.freeze(), tmp_path / "a.safetensors")
    with pytest.raises(LossError, match="1 weights change in float32, by up to 1e-09"):
        to_manylangs(tmp_path / "a.safetensors", tmp_path / "b")
    assert not (tmp_path / "b").exists()
    assert len(to_manylangs(tmp_path / "a.safetensors", tmp_path / "b", allow_loss=True)) == 1
    got = read_weights(tmp_path / "b").arrays()["stacks.1.0.bias"]
    assert got[40] == 0
    bias[40] = 0
    np.testing.assert_array_equal(got, bias)


def test_models_of_other_kinds_are_refused(tmp_path, folder):
    config = read_weights(folder).config
    for other, *message in (
        (tiny_bilm().config, "cannot store", "UTF-8 bytes", "NAME.safetensors"),
        (replace(config, bidirectional=False), "one direction"),
        (replace(config, use_skip_connections=False), "no skip connections"),
        (replace(config, lstm_dim=6), "LSTMs without projection"),
    ):
        check_refused(lambda: manylangs.to_sizes(other), *message)  # noqa: B023
    manylangs.to_sizes(replace(config, use_skip_connections=False, n_layers=1))


def test_dictionaries_are_written_as_the_original_reads_them(tmp_path):
    path = tmp_path / "word.dic"
    strings = ["<oov>", "\u3000", None, "a b", "naïve ", "😀", None, "5", "a"]
    path.write_text(dic_content(InputVocabulary(strings), path.name), "utf8")
    assert list(read_dic(path, 9, "x").strings) == strings
    entries = dictionary(path)
    assert entries == {s: i for i, s in enumerate(strings) if s is not None}
    wrong = [" a", "a\tb", "a\nb", "", "\u00a0", "half\ud800", "a\rb", "a\u2028b", "a\x85"]
    for strings, *named in (
        *(([token], "word.dic", repr(token)) for token in wrong),
        (wrong, *map(repr, wrong[:5]), ", 4 others"),
        ([None], "last id has none"),
    ):
        vocabulary = InputVocabulary(["<oov>", *strings])
        check_refused(lambda: dic_content(vocabulary, "word.dic"), *named)  # noqa: B023


# `classifier.pkl`, of each kind

WIDTH, N_WORDS, CORRECTION = 6, len(reference.WORDS), 3
SIZES = reference.sizes_of()
TENSORS = reference.random_tensors(SIZES, seed=3)
IDS = {word: i for i, word in enumerate(reference.WORDS)}


def classifier(kind, seed=8):
    rng = np.random.default_rng(seed)
    shapes = {
        "softmax": {"hidden2tag.weight": (N_WORDS, WIDTH), "hidden2tag.bias": (N_WORDS,)},
        # The second one does not use its `oov_column`.
        "sampled_softmax": {"column_emb.weight": (N_WORDS, WIDTH)}
        | {"column_bias.weight": (N_WORDS, 1), "oov_column": (WIDTH, 1)},
        "cnn_softmax": {"M": (WIDTH, CORRECTION), "corr.weight": (N_WORDS, CORRECTION)}
        | {"oov_column": (WIDTH, 1)},
    }[kind]
    return {name: rng.normal(0, 1, shape).astype("float32") for name, shape in shapes.items()}


def write_classifier(folder, tensors):
    reference.write_folder(folder, SIZES, TENSORS)
    state = {name: torch.from_numpy(values) for name, values in tensors.items()}
    # It is a part of their layer, too.
    state |= {f"token_embedder.{k}": torch.from_numpy(v) for k, v in TENSORS[0].items()}
    torch.save(state, folder / "classifier.pkl")
    return folder


def loss(kind, tensors, context, word):
    """Compute the negative log-likelihood among all words but padding, in float64."""
    data = {name: values.astype("float64") for name, values in tensors.items()}
    if kind == "softmax":
        scores = data["hidden2tag.weight"] @ context + data["hidden2tag.bias"]
    elif kind == "sampled_softmax":
        scores = data["column_emb.weight"] @ context + data["column_bias.weight"][:, 0]
    else:
        columns = [reference.token_vector(SIZES, TENSORS[0], word) for word in reference.WORDS]
        columns[IDS["<oov>"]] = data["oov_column"][:, 0]
        scores = (np.array(columns) + data["corr.weight"] @ data["M"].T) @ context
    some = [scores[row] for other, row in IDS.items() if other != "<pad>"]
    return np.log(np.exp(some).sum()) - scores[IDS[word]]


@pytest.mark.commands
@pytest.mark.parametrize("kind", ["softmax", "sampled_softmax", "cnn_softmax"])
def test_the_perplexity_equals_the_formula(tmp_path, kind):
    tensors = classifier(kind)
    folder = write_classifier(tmp_path / "m", tensors)
    words = ["The", "cat", "unseen", "."]
    (tmp_path / "text.txt").write_text(" ".join(words) + "\n")
    (layers,) = reference.layers(SIZES, TENSORS, [words], keep_marks=True)
    forward, backward = np.split(layers[-1], 2, axis=1)
    marked = ["<bos>", "The", "cat", "<oov>", ".", "<eos>"]
    pairs = zip(forward, marked[1:]), zip(backward[1:], marked)
    losses = [np.mean([loss(kind, tensors, *each) for each in pair]) for pair in pairs]
    figures = json.loads(run_elmo("perplexity", folder, tmp_path / "text.txt", "--json").stdout)
    (figures,) = figures["files"].values()
    found = [figures["forward"], figures["backward"]]
    assert found == pytest.approx(np.exp(losses), rel=1e-4)
    vocabulary = read_language_model(folder).vocabulary.words
    assert vocabulary == ["<S>", "</S>", "<UNK>", *reference.WORDS[4:]]


@pytest.mark.parametrize(
    ("kind", "change", "named"),
    [
        ("cnn_softmax", {"M": np.zeros((5, 3))}, "'M' has shape (5, 3)"),
        ("cnn_softmax", {"oov_column": None}, "'oov_column' is missing"),
        ("cnn_softmax", {"corr.weight": np.zeros((4, 3))}, "word.dic"),
        ("cnn_softmax", {"corr.weight": None}, "unknown kind of classifier. Known kinds are cnn_"),
        ("softmax", {"hidden2tag.bias": np.full(N_WORDS, np.nan)}, "not finite"),
    ],
)
def test_malformed_classifiers_are_refused(tmp_path, kind, change, named):
    tensors = {**classifier(kind), **change}
    tensors = {name: values for name, values in tensors.items() if values is not None}
    folder = write_classifier(tmp_path / "m", tensors)
    check_refused(lambda: read_language_model(folder), named)
    read_weights(folder)  # the layers need none of it
    (folder / "classifier.pkl").unlink()
    check_refused(lambda: read_language_model(folder), "has no classifier.pkl")
