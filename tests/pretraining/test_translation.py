import math
import random

import numpy as np
import pytest
import spacy
import torch

from spacy_elmo.frozen.vocabulary import SENTENCE_END, SENTENCE_START, SPECIAL, Vocabulary
from spacy_elmo.pretraining import translation_training
from spacy_elmo.pretraining.translation import TranslationModel
from spacy_elmo.pretraining.translation_training import (
    Pair,
    TranslationSettings,
    batches,
    perplexity,
    read_pairs,
    train_cove,
)
from spacy_elmo.weights import read_weights
from spacy_elmo.weights.cove import WordVectors, new_cove

from helpers.commands import run_elmo

WIDTH, N_WORDS = 12, 8


@pytest.fixture
def vectors():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(N_WORDS, WIDTH)).astype("float32")
    return WordVectors([f"s{i}" for i in range(N_WORDS)], table)


@torch.no_grad()
def translate(model, source):
    """The likeliest word at each step."""
    memory, mask = model.encode([source])
    state, attended = model._start(memory)
    words = [SENTENCE_START]
    while words[-1] != SENTENCE_END and len(words) < 10:
        embedded = model.embedding(torch.from_numpy(model.vocabulary.ids_of(words[-1:])))
        attended, state = model._step(embedded, attended, state, memory, mask)
        words.append(model.vocabulary.words[int(model.output(attended).argmax())])
    return words[1:-1]


def toy_pairs(number, seed):
    """A language of eight words, whose translation is word for word, backwards."""
    draw = random.Random(seed)
    pairs = []
    for _ in range(number):
        ids = [draw.randrange(N_WORDS) for _ in range(draw.randint(1, 4))]
        pairs.append(Pair([f"s{i}" for i in ids], [f"t{i}" for i in reversed(ids)]))
    return pairs


def write_pairs(path, pairs):
    lines = [f"{' '.join(pair.source)}\t{' '.join(pair.target)}\n" for pair in pairs]
    path.write_text("".join(lines), encoding="utf8")


def softmax(x):
    powers = np.exp(x - x.max())
    return powers / powers.sum()


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_loss_is_that_of_the_formulas(vectors):
    torch.manual_seed(0)
    vocabulary = Vocabulary([*SPECIAL, "t0", "t1"])
    model = TranslationModel(new_cove(vectors), vocabulary).eval()
    source, target = ["s0", "s1", "s2"], ["t1", "t0", "t9"]
    H = model.encoder.embed([source])[0][0][-1].detach().numpy().astype("float64")
    w = {name: value.numpy().astype("float64") for name, value in model.state_dict().items()}

    def lstm(layer, x, hidden, cell):
        gates = w[f"cells.{layer}.weight_ih"] @ x + w[f"cells.{layer}.weight_hh"] @ hidden
        gates += w[f"cells.{layer}.bias_ih"] + w[f"cells.{layer}.bias_hh"]
        i, f, g, o = np.split(gates, 4)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(cell), cell

    zeros = np.zeros(2 * WIDTH)
    attended, states, expected = zeros, [(zeros, zeros), (zeros, zeros)], 0.0
    for read, wanted in [(0, 4), (4, 3), (3, 2), (2, 1)]:  # t9 is <UNK>
        x = np.concatenate([w["embedding.weight"][read], attended])
        for layer, (hidden, cell) in enumerate(states):
            states[layer] = lstm(layer, x, hidden, cell)
            x = states[layer][0]
        a = softmax(H @ (w["attention.weight"] @ x + w["attention.bias"]))
        both = np.concatenate([H.T @ a, x])
        attended = np.tanh(w["combine.weight"] @ both + w["combine.bias"])
        expected -= np.log(softmax(w["output.weight"] @ attended + w["output.bias"])[wanted])
    with torch.no_grad():
        assert float(model([source], [target])) == pytest.approx(expected, rel=1e-5)
        # Padding changes nothing.
        other = (["s3"] * 5, ["t0"] * 6)
        alone = float(model([other[0]], [other[1]]))
        together = float(model([source, other[0]], [target, other[1]]))
    assert together == pytest.approx(expected + alone, rel=1e-5)


@pytest.mark.parametrize("learn_rate", [1e4, 1e20])
def test_a_rate_far_too_high(vectors, tmp_path, learn_rate):
    """It ends at once, not when the time is over, and no encoder is written."""
    path = tmp_path / "cove.safetensors"
    settings = TranslationSettings(batch_size=4, learn_rate=learn_rate, min_count=1, max_epochs=2)
    with pytest.raises(ValueError, match="learn_rate"):
        train_cove(toy_pairs(16, seed=0), toy_pairs(4, seed=1), vectors, path, settings)
    assert not path.exists()


def test_a_loss_that_becomes_nan(vectors, tmp_path, monkeypatch):
    """The best encoder before it stays."""
    path = tmp_path / "cove.safetensors"
    losses, original = [], translation_training.step

    def step(*args):
        losses.append(original(*args))
        return math.nan if len(losses) == 6 else losses[-1]

    monkeypatch.setattr(translation_training, "step", step)
    settings = TranslationSettings(batch_size=4, min_count=1, max_epochs=9)
    with pytest.raises(ValueError, match=r"nan in epoch 2: lower learn_rate \(0.001\)"):
        train_cove(toy_pairs(16, seed=0), toy_pairs(4, seed=1), vectors, path, settings)
    assert len(losses) == 6
    assert read_weights(path).provenance["epochs"] == 1


def test_a_perplexity_that_is_no_number(vectors):
    """It is no better than any other."""
    vocabulary = Vocabulary([*SPECIAL, "t0", "t1"])
    model = TranslationModel(new_cove(vectors), vocabulary)
    model.output.bias.data[:] = math.nan
    assert perplexity(model, toy_pairs(4, seed=1), 4) == math.inf


@pytest.mark.slow
def test_it_learns_a_toy_language(vectors, tmp_path):
    dev = toy_pairs(50, seed=1)
    path = tmp_path / "cove.safetensors"
    settings = TranslationSettings(
        minutes=60, batch_size=32, learn_rate=0.01, min_count=1, max_epochs=8
    )
    model = train_cove(toy_pairs(1000, seed=0), dev, vectors, path, settings)
    assert perplexity(model, dev, 32) < 1.3  # of words drawn from eight, and </S>
    right = sum(translate(model, pair.source) == pair.target for pair in dev)
    assert right > 40
    encoder = read_weights(path)
    assert encoder.provenance["training"] == "translation"
    # Its word vectors are those that were given, the LSTMs are not those it began with.
    np.testing.assert_array_equal(encoder.encoder.words.weight[3:], vectors.table)


def test_equal_runs(vectors, tmp_path):
    settings = TranslationSettings(minutes=60, batch_size=8, min_count=1, max_epochs=1)
    for name in ("a", "b"):
        train_cove(
            toy_pairs(16, 0), toy_pairs(4, 1), vectors, tmp_path / f"{name}.safetensors", settings
        )
    first, second = (read_weights(tmp_path / f"{name}.safetensors") for name in ("a", "b"))
    assert first.checksum() == second.checksum()


def test_batches_hold_every_pair_once():
    pairs = toy_pairs(103, seed=0)
    found = list(batches(pairs, 10, random.Random(0)))
    assert sorted(pair for batch in found for pair in batch) == sorted(pairs)
    assert max(map(len, found)) == 10


def test_command(vectors, tmp_path):
    nlp = spacy.blank("en")
    for word, values in zip(vectors.words, vectors.table):
        nlp.vocab.set_vector(word, values)
    nlp.to_disk(tmp_path / "vectors")
    for name, number in (("train", 30), ("dev", 5)):
        write_pairs(tmp_path / f"{name}.tsv", toy_pairs(number, seed=0))
    target = tmp_path / "out" / "cove.safetensors"
    arguments = [tmp_path / "train.tsv", tmp_path / "dev.tsv", target, "--minutes", "0.0001"]
    output = run_elmo("pretrain-cove", *arguments, "--vectors", tmp_path / "vectors").output
    assert "Wrote" in output
    again = run_elmo("pretrain-cove", *arguments, "--vectors", tmp_path / "vectors", status=1)
    assert "exists already" in again.output
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"weights": str(target)})
    doc = nlp("s1 s2 other")
    assert doc.tensor.shape == (3, 2 * WIDTH)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a b\tc\na b c\n", "pairs.tsv:2: expected a sentence, a tab"),
        ("a\tb\tc\n", "pairs.tsv:1"),
        ("a\t\n", "pairs.tsv:1"),
        ("", "holds no pair"),
    ],
)
def test_bad_pairs(tmp_path, text, message):
    (tmp_path / "pairs.tsv").write_text(text, encoding="utf8")
    with pytest.raises(ValueError, match=message):
        read_pairs(tmp_path / "pairs.tsv")


def test_byte_order_mark(tmp_path):
    (tmp_path / "pairs.tsv").write_text("a b\tc\n", encoding="utf-8-sig")
    assert [tuple(pair) for pair in read_pairs(tmp_path / "pairs.tsv")] == [(["a", "b"], ["c"])]


def test_pairs_that_are_not_utf8(tmp_path):
    (tmp_path / "pairs.tsv").write_bytes("für\tfor\n".encode("latin1"))
    with pytest.raises(ValueError, match="is not UTF-8"):
        read_pairs(tmp_path / "pairs.tsv")
