"""ELMoForManyLangs' `classifier.pkl`, of each kind, against numpy."""

import json

import numpy as np
import pytest
import torch

from spacy_elmo.language_model.frozen import read_language_model
from spacy_elmo.weights import read_weights
from spacy_elmo.weights.formats import read_bundle

from helpers import reference_manylangs as reference
from helpers.commands import run_elmo
from helpers.models import check_refused

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


def write(folder, tensors):
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
    folder = write(tmp_path / "m", tensors)
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
def test_refused(tmp_path, kind, change, named):
    tensors = {**classifier(kind), **change}
    tensors = {name: values for name, values in tensors.items() if values is not None}
    folder = write(tmp_path / "m", tensors)
    check_refused(lambda: read_language_model(folder), named)
    read_weights(folder)  # the layers need none of it


def test_without(tmp_path):
    folder = reference.write_folder(tmp_path / "m", SIZES, TENSORS)
    check_refused(lambda: read_language_model(folder), "has no classifier.pkl")
