"""ELMoForManyLangs' folders, against its own output and against numpy."""

import json
import shutil

import numpy as np
import pytest
import torch

from spacy_elmo.language_model.frozen import read_language_model
from spacy_elmo.weights import manylangs, read_weights
from spacy_elmo.weights.formats import read_bundle
from spacy_elmo.weights.sizes import read_sizes

from helpers import reference_manylangs as reference
from helpers.commands import run_elmo
from helpers.conversions import assert_same_vectors
from helpers.golden import MANYLANGS, read_manylangs
from helpers.models import check_layers, check_refused

SENTENCES = [
    ["The", "cat", "sat", "."],
    [],
    ["the"],
    ["漢", "é😀", "unknown", "t" * 10, "t" * 11, "cat" * 9, "", "\u3000", "\t"],
    ["<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "a", "lone\ud800surrogate"],
]
VARIANTS = [
    {},
    {"word_dim": 0},
    {"char_dim": 0},
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


def test_fixture():
    """All layers, as the original program gave them."""
    sentences, expected = read_manylangs()
    bilm = read_weights(MANYLANGS)
    assert sum(map(len, sentences)) == 20
    check_layers(bilm.embed(sentences)[0], expected, atol=1e-6)
    trained = bilm.thaw().embed(sentences)[0]
    check_layers([layers.detach() for layers in trained], expected, atol=1e-6)


@pytest.mark.parametrize("changes", VARIANTS)
def test_against_numpy(tmp_path, changes):
    sizes = reference.sizes_of(**changes)
    tensors = reference.random_tensors(sizes, seed=3)
    bilm = read_weights(reference.write_folder(tmp_path / "m", sizes, tensors))
    expected = reference.layers(sizes, tensors, SENTENCES)
    check_layers(bilm.embed(SENTENCES)[0], expected)
    trained = bilm.thaw().embed(SENTENCES)[0]
    check_layers([layers.detach() for layers in trained], expected)


def test_clips_act_in_that_comparison():
    sizes = reference.sizes_of()
    tensors = reference.random_tensors(sizes, seed=3)
    clipped = reference.layers(sizes, tensors, SENTENCES)
    for name in ("cell_clip", "proj_clip"):
        free = reference.layers(reference.sizes_of(**{name: None}), tensors, SENTENCES)
        assert max(np.abs(a - b).max() for a, b in zip(clipped, free) if a.size) > 1e-3


def test_two_white_space_tokens(folder):
    """The last one is what the original looks up."""
    lines = [f"{entry}\t{i}" for i, entry in enumerate(reference.CHARACTERS)]
    lines[4] = "\u2003\t4"  # in front of U+3000, and stripped as well
    (folder / "char.dic").write_text("\n".join(lines), "utf8")
    vocabulary = read_weights(folder).vocabularies.characters
    assert vocabulary["\u3000"] == reference.CHARACTERS.index("\u3000")
    assert vocabulary.strings[4] is None
    assert "d" not in vocabulary


def test_windows_line_ends_and_no_last_line_end(folder):
    text = (folder / "char.dic").read_text("utf8")
    (folder / "char.dic").write_bytes(text.replace("\n", "\r\n").removesuffix("\r\n").encode())
    assert len(read_weights(folder).vocabularies.characters) == 22


def test_other_types_and_pickles_of_old_pytorch(tmp_path):
    new = reference.write_random(tmp_path / "new")
    old = reference.write_random(tmp_path / "old", old_pickles=True)
    assert_same_vectors(old, new)
    state = torch.load(old / "encoder.pkl", weights_only=True)
    doubles = {name: torch.nn.Parameter(value.double()) for name, value in state.items()}
    torch.save(doubles, old / "encoder.pkl")
    assert_same_vectors(old, new)
    assert {str(weight.dtype) for weight in read_weights(old).arrays().values()} == {"float32"}


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_lower_precisions(folder, precision):
    bilm = read_weights(folder)
    lower = bilm.replace(precision=precision)
    exact, low = (np.hstack(each.embed(SENTENCES)[0]).mean(axis=0) for each in (bilm, lower))
    norms = np.linalg.norm(exact, axis=1) * np.linalg.norm(low, axis=1)
    assert ((exact * low).sum(axis=1) / norms).min() > 0.98
    assert (exact != low).any()


# Where things are


def test_every_way_to_name_a_folder(folder, tmp_path, monkeypatch):
    expected = read_weights(folder).token_vectors(["cat"])
    for place in (str(folder), folder / "encoder.pkl", folder / "token_embedder.pkl"):
        np.testing.assert_array_equal(read_weights(place).token_vectors(["cat"]), expected)
    monkeypatch.chdir(folder)
    for place in (".", "encoder.pkl"):
        np.testing.assert_array_equal(read_weights(place).token_vectors(["cat"]), expected)


def config_path(folder, path):
    (folder / "config.json").write_text(json.dumps({"config_path": path}), "utf8")


@pytest.mark.parametrize(
    ("stands", "named"),
    [
        ("sizes.json", "C:\\models\\sizes.json"),
        ("configs/sizes.json", "configs/sizes.json"),
        ("configs/sizes.json", "/somebody/configs/sizes.json"),
        ("sizes.json", "../../nowhere/sizes.json"),
    ],
)
def test_sizes_named_by_a_path(folder, stands, named):
    (folder / "configs").mkdir()
    (folder / "sizes.json").rename(folder / stands)
    config_path(folder, named)
    assert read_weights(folder).config.lstm_dim == 20


@pytest.mark.parametrize("way", ["../mine.json", "configs/../../mine.json", "{}/mine.json"])
def test_sizes_outside_of_the_folder_are_not_opened(folder, tmp_path, way):
    (folder / "configs").mkdir()
    (folder / "sizes.json").rename(tmp_path / "mine.json")
    config_path(folder, way.format(tmp_path))
    fails(folder, "published sizes", "is not in", "copy it there")
    shutil.copy(tmp_path / "mine.json", folder)
    assert read_weights(folder).config.lstm_dim == 20


def test_published_sizes_take_the_place_of_a_missing_file(folder, monkeypatch):
    """Those of FORMATS.md, section 2."""
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


def test_no_projections(tmp_path):
    """P = D: they may be missing. Then nothing is clipped in their place."""
    sizes = reference.sizes_of(dim=6, proj_clip=0.2)
    tensors = without_projections(reference.random_tensors(sizes, seed=3))
    bilm = read_weights(reference.write_folder(tmp_path / "m", sizes, tensors))
    expected = reference.layers(sizes, tensors, SENTENCES)
    check_layers(bilm.embed(SENTENCES)[0], expected)
    assert not bilm.config.square_projection


def test_some_projections(tmp_path):
    sizes = reference.sizes_of(dim=6)
    for without, named in (
        ("backward_layer_1", "'backward_layer_1.state_projection.weight' is mis"),
        ("forward_layer_0", "'forward_layer_1.state_projection.weight'"),
    ):
        name = f"{without}.state_projection"
        tensors = without_projections(reference.random_tensors(sizes), name)
        fails(reference.write_folder(tmp_path / without, sizes, tensors), named)


@pytest.mark.parametrize("name", ["config.json", "sizes.json", "char.dic", "word.dic"])
def test_byte_order_mark(folder, name):
    before = read_weights(folder).checksum()
    (folder / name).write_bytes(b"\xef\xbb\xbf" + (folder / name).read_bytes())
    assert read_weights(folder).checksum() == before


def test_byte_order_mark_that_is_a_character_of_the_model(folder):
    lines = (folder / "char.dic").read_text("utf8").replace("h\t", "\ufeff\t").splitlines()
    lines.sort(key=lambda line: line[0] != "\ufeff")
    assert lines[0][:2] == "\ufeff\t"
    (folder / "char.dic").write_text("".join(f"{line}\n" for line in lines), "utf8")
    assert "\ufeff" in read_weights(folder).vocabularies.characters


# `classifier.pkl`, of each kind

WIDTH, N_WORDS, CORRECTION = 6, len(reference.WORDS), 3
SIZES = reference.sizes_of()
TENSORS = reference.random_tensors(SIZES, seed=3)
IDS = {word: i for i, word in enumerate(reference.WORDS)}


def classifier(kind, seed=8):
    rng = np.random.default_rng(seed)
    shapes = {
        "softmax": {"hidden2tag.weight": (N_WORDS, WIDTH), "hidden2tag.bias": (N_WORDS,)},
        "sampled_softmax": {
            "column_emb.weight": (N_WORDS, WIDTH),
            "column_bias.weight": (N_WORDS, 1),
            "oov_column": (WIDTH, 1),  # which that kind does not use
        },
        "cnn_softmax": {
            "M": (WIDTH, CORRECTION),
            "corr.weight": (N_WORDS, CORRECTION),
            "oov_column": (WIDTH, 1),
        },
    }[kind]
    return {name: rng.normal(0, 1, shape).astype("float32") for name, shape in shapes.items()}


def write_classifier(folder, tensors):
    reference.write_folder(folder, SIZES, TENSORS)
    state = {name: torch.from_numpy(values) for name, values in tensors.items()}
    # It is a part of their layer, too.
    state |= {f"token_embedder.{k}": torch.from_numpy(v) for k, v in TENSORS[0].items()}
    torch.save(state, folder / "classifier.pkl")
    return folder


def logits(kind, tensors, context):
    """Of each word but padding, in float64, a loop a word."""
    data = {name: values.astype("float64") for name, values in tensors.items()}
    found = {}
    for word, row in IDS.items():
        if word == "<pad>":
            continue
        if kind == "softmax":
            found[word] = data["hidden2tag.weight"][row] @ context + data["hidden2tag.bias"][row]
        elif kind == "sampled_softmax":
            found[word] = data["column_emb.weight"][row] @ context
            found[word] += data["column_bias.weight"][row, 0]
        else:
            column = data["oov_column"][:, 0]
            if word != "<oov>":
                column = reference.token_vector(SIZES, TENSORS[0], word)
            found[word] = context @ column + context @ data["M"] @ data["corr.weight"][row]
    return found


def loss(kind, tensors, context, word):
    found = logits(kind, tensors, context)
    values = np.array(list(found.values()))
    return np.log(np.exp(values).sum()) - found[word]


@pytest.mark.parametrize("kind", ["softmax", "sampled_softmax", "cnn_softmax"])
def test_perplexity(tmp_path, kind):
    tensors = classifier(kind)
    folder = write_classifier(tmp_path / "m", tensors)
    words = ["The", "cat", "unseen", "."]
    (tmp_path / "text.txt").write_text(" ".join(words) + "\n")
    (layers,) = reference.layers(SIZES, TENSORS, [words], keep_marks=True)
    forward, backward = np.split(layers[-1], 2, axis=1)
    marked = ["<bos>", "The", "cat", "<oov>", ".", "<eos>"]
    losses = [
        np.mean([loss(kind, tensors, forward[i], marked[i + 1]) for i in range(5)]),
        np.mean([loss(kind, tensors, backward[i + 1], marked[i]) for i in range(5)]),
    ]
    figures = json.loads(run_elmo("perplexity", folder, tmp_path / "text.txt", "--json").stdout)
    (figures,) = figures["files"].values()
    assert figures["forward"] == pytest.approx(np.exp(losses[0]), rel=1e-4)
    assert figures["backward"] == pytest.approx(np.exp(losses[1]), rel=1e-4)
    vocabulary = read_language_model(folder).vocabulary.words
    assert vocabulary == ["<S>", "</S>", "<UNK>", *reference.WORDS[4:]]
    assert read_weights(folder).config == read_bundle(folder).bilm.config


@pytest.mark.parametrize(
    ("kind", "change", "named"),
    [
        ("cnn_softmax", {"M": np.zeros((5, 3))}, "'M' has shape (5, 3)"),
        ("cnn_softmax", {"oov_column": None}, "'oov_column' is missing"),
        ("cnn_softmax", {"corr.weight": np.zeros((4, 3))}, "word.dic"),
        (
            "cnn_softmax",
            {"corr.weight": None},
            "unknown kind of classifier. Known kinds are cnn_softmax",
        ),
        ("softmax", {"hidden2tag.bias": np.full(N_WORDS, np.nan)}, "not finite"),
    ],
)
def test_classifiers_that_are_refused(tmp_path, kind, change, named):
    tensors = {**classifier(kind), **change}
    tensors = {name: values for name, values in tensors.items() if values is not None}
    folder = write_classifier(tmp_path / "m", tensors)
    check_refused(lambda: read_language_model(folder), named)
    read_weights(folder)  # the layers need none of it


def test_no_classifier(tmp_path):
    folder = reference.write_folder(tmp_path / "m", SIZES, TENSORS)
    check_refused(lambda: read_language_model(folder), "has no classifier.pkl")
