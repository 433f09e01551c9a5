"""Models of one direction, of words, with a shared table, with highways, of code points."""

import json
import math

import numpy as np
import pytest
import spacy
import torch

from spacy_elmo.language_model.frozen import read_language_model
from spacy_elmo.language_model.perplexity import perplexity
from spacy_elmo.pretraining.checkpoint import read_checkpoint
from spacy_elmo.pretraining.config import check_config
from spacy_elmo.pretraining.run import pretrain
from spacy_elmo.pretraining.trainer import Trainer
from spacy_elmo.text.corpus import load_text
from spacy_elmo.weights import read_weights
from spacy_elmo.weights.convert import convert
from spacy_elmo.weights.hdf5_file import open_hdf5

from helpers import reference
from helpers.golden import MANYLANGS
from helpers.models import ONE_DIRECTION, WORDS_ONLY, renamed
from helpers.runs import (
    RANDOM,
    arrays,
    assert_same_arrays,
    metrics,
    run_config,
    run_settings,
    write_texts,
)

WORDS = {**WORDS_ONLY, "filters": [], "n_words": 12, "word_embed_dim": 8}
SHARED = {"share_embedding_softmax": True}
KINDS = {
    "forward": ({"bidirectional": False}, {}),
    "words": (WORDS, {}),
    "shared": (WORDS, SHARED),
    "shared, forward, full": ({**WORDS, "bidirectional": False}, {**SHARED, "softmax": "full"}),
    "highways, muon": ({"connections": "highway"}, {"optimizer": "muon"}),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("kinds")
    write_texts(made)
    return made


def settings(folder, name, **training):
    model, more = KINDS[name]
    config = run_config(folder, **{"decay": "none", **RANDOM, **more, **training})
    config["model"].update(model)
    return check_config(config)


@pytest.mark.parametrize("name", KINDS)
def test_from_text_to_pipeline(folder, tmp_path, name):
    whole = tmp_path / "whole"
    assert pretrain(settings(folder, name, max_steps=6), whole)
    for steps in (3, 6):  # the second time with --resume
        pretrain(settings(folder, name, max_steps=steps), tmp_path / "parts", resume=steps == 6)
    assert_same_arrays(arrays(tmp_path / "parts"), arrays(whole))
    assert metrics(tmp_path / "parts") == metrics(whole)

    model = read_language_model(whole / "model-last")
    figures = perplexity(model, load_text(folder / "dev.txt"))
    logged = metrics(whole)[-1]["perplexity"]
    assert figures.to_dict() == pytest.approx(logged)
    is_forward = not model.bilm.config.bidirectional
    assert (figures.to_dict()["backward"] is None) == is_forward
    assert figures.mean == pytest.approx(
        figures.forward if is_forward else math.sqrt(figures.forward * figures.backward)
    )

    nlp = spacy.load(whole / "model-last")
    doc = nlp.get_pipe("elmo")(spacy.tokens.Doc(nlp.vocab, words=["the", "naïve", "unseen"]))
    assert doc.tensor.shape == (3, 8 if is_forward else 16)
    stored = arrays(whole)
    if "shared" in name:
        table = stored["elmo/model.safetensors encoder.words.weight"]
        assert (table == stored["softmax.safetensors weight"]).all()
    target = tmp_path / "out" / "weights.hdf5"
    if "highways" in name:
        with pytest.raises(ValueError, match="cannot store connections = 'highway'"):
            convert(whole / "model-last", target)
        assert not target.exists()
        return
    convert(whole / "model-last", target)
    words = [["the", "naïve", "unseen"]]
    one, other = (read_weights(path).embed(words)[0][0] for path in (whole / "model-last", target))
    np.testing.assert_array_equal(one, other)
    check_forward_perplexity(target, folder / "dev.txt", figures.forward)


def check_forward_perplexity(path, text, expected):
    """By numpy in float64: one stream from zeros, its state carried from sentence to sentence."""
    with open_hdf5(path) as file:
        datasets = {name: file.read(name) for name in file}
    if not any(name.startswith("RNN_0") for name in datasets):
        datasets = renamed(datasets, [(theirs, usual) for usual, theirs in reversed(ONE_DIRECTION)])
    options = json.loads(path.with_name("options.json").read_text())
    words = path.with_name("vocab.txt").read_text("utf8").split("\n")[:-1]
    read_words = None if "char_cnn" in options else words
    cells, losses = None, []
    for line in text.read_text("utf8").splitlines():
        read, wanted = ["<S>", *line.split()], [*line.split(), "</S>"]
        found, cells = reference.log_probabilities(
            options, datasets, read, 0, cells, words=read_words
        )
        places = [words.index(word if word in words else "<UNK>") for word in wanted]
        losses += [-row[place] for row, place in zip(found, places)]
    assert expected == pytest.approx(math.exp(np.mean(losses)), rel=1e-4)


def test_gradient_of_a_shared_table(folder, tmp_path):
    """By autograd, where the rows of the full softmax are not leaves, and by finite differences."""
    more = {"dropout": 0.0, "state_reset": 0.0, "grad_clip": 1e9, "max_steps": 1}
    config = settings(folder, "shared, forward, full", **more)
    corpus = load_text(folder / "train.txt")
    trainer = Trainer(config, corpus, corpus)
    trainer.model.double()
    softmax = trainer.model.softmax
    table = softmax.weight
    assert table is trainer.model.bilm.encoder.words.weight
    window, state = trainer.batches.at(0), trainer.model.bilm.zero_state(trainer.batches.batch_size)
    rows = trainer._softmax_rows(window, 0)
    whole = rows._replace(weight=table[rows.words], bias=softmax.bias[rows.words])
    loss, expected = (
        trainer._loss(window, corpus.types, state, each, False)[0] for each in (rows, whole)
    )
    (expected,) = torch.autograd.grad(expected, table)
    loss.backward()
    trainer.optimizers.softmax_gradients(rows)
    trainer.optimizers.clip(rows)
    assert expected.abs().max() > 1e-3
    torch.testing.assert_close(table.grad, expected, rtol=1e-8, atol=1e-12)
    torch.manual_seed(0)
    changes = torch.randn_like(table)
    ends = []
    for step in (1e-5, -1e-5):
        with torch.no_grad():
            table += step * changes
            rows = trainer._softmax_rows(window, 0)
            ends.append(trainer._loss(window, corpus.types, state, rows, False)[0].item())
            table -= step * changes
    difference = (ends[0] - ends[1]) / 2e-5
    assert (expected * changes).sum().item() == pytest.approx(difference, rel=1e-5)


@pytest.mark.parametrize(
    ("model", "training", "message"),
    [
        ({}, SHARED, "is for models of words alone"),
        (WORDS, {**SHARED, "softmax": "adaptive"}, "needs softmax = 'sampled' or 'full'"),
    ],
)
def test_tables_that_cannot_be_shared(folder, tmp_path, model, training, message):
    config = run_config(folder, **training)
    config["model"].update(model)
    with pytest.raises(ValueError, match=message):
        pretrain(check_config(config), tmp_path / "out")


def test_vocabulary_of_a_model_of_words(folder, tmp_path):
    """The words that it reads are those that it predicts: the most frequent. Its two tables
    do not become one."""
    pretrain(settings(folder, "words", max_steps=1), tmp_path / "out")
    init = {"init": str(tmp_path / "out" / "model-last")}
    with pytest.raises(ValueError, match="reads and predicts words by two tables"):
        pretrain(check_config(run_config(folder, init=init, **SHARED)), tmp_path / "shared")
    model = read_language_model(tmp_path / "out" / "model-last")
    assert list(model.bilm.vocabularies.words.strings) == model.vocabulary.words
    assert model.bilm.config.n_words == 12  # of 14 that stand twice or more
    layers = model.bilm.embed([["unseen"], ["never"], ["the"]])[0]
    np.testing.assert_array_equal(layers[0], layers[1])
    assert not np.array_equal(layers[0], layers[2])


def test_going_on_from_manylangs(tmp_path, monkeypatch):
    """Its encoder and vocabularies stay, the softmax is new, and the way back is open."""
    for name in ("train", "dev"):
        (tmp_path / f"{name}.txt").write_text("the naïve dog saw 日本 .\nit ran\n" * 30, "utf8")
    init = {"init": str(MANYLANGS), "softmax_warmup": 2}

    def settings_for(steps):
        more = {"decay": "none", "dropout": 0.1, "eval_frequency": 8}
        return run_settings(tmp_path, init=init, max_steps=steps, **more)

    assert pretrain(settings_for(12), tmp_path / "out")
    before = read_checkpoint(tmp_path / "out" / "checkpoints")["states"]["progress"]["before"]
    assert metrics(tmp_path / "out")[-1]["perplexity"]["mean"] < before - 1
    model = read_language_model(tmp_path / "out" / "model-last")
    before = read_weights(MANYLANGS)
    assert model.bilm.config == before.config
    assert [v.strings for v in model.bilm.vocabularies] == [v.strings for v in before.vocabularies]
    for name, value in before.arrays().items():
        if name.startswith(("encoder.projection", "encoder.convolutions", "stacks")):
            assert not np.array_equal(value, model.bilm.arrays()[name]), name
    seen = set()
    original = model.bilm.token_vectors
    monkeypatch.setattr(
        model.bilm, "token_vectors", lambda s, **more: seen.update(s) or original(s, **more)
    )
    perplexity(model, load_text(tmp_path / "dev.txt"))
    assert {"<bos>", "<eos>"} < seen
    assert not {"<S>", "</S>"} & seen
    for steps in (6, 12):
        pretrain(settings_for(steps), tmp_path / "resumed", resume=steps == 12)
    assert_same_arrays(arrays(tmp_path / "resumed"), arrays(tmp_path / "out"))
    target = tmp_path / "back"
    convert(
        tmp_path / "out" / "model-last", target, format="manylangs", keep_softmax=False,
        allow_loss=True,
    )  # fmt: skip
    sentences = [["the", "naïve", "日本"], ["<bos>"]]
    for one, other in zip(read_weights(target).embed(sentences)[0], model.bilm.embed(sentences)[0]):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)
