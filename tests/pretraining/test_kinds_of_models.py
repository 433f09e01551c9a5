"""Models of other kinds: of one direction, of words, with a shared table, with highways, of code
points."""

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

from helpers.golden import MANYLANGS
from helpers.models import WORDS_ONLY
from helpers.rounding import rounding_of
from helpers.runs import RANDOM, arrays, assert_same_arrays, metrics, run_config, run_settings

pytestmark = pytest.mark.training

WORDS = {**WORDS_ONLY, "filters": [], "n_words": 12, "word_embed_dim": 8}
SHARED = {"share_embedding_softmax": True}
KINDS = {
    "forward": ({"bidirectional": False}, {}),
    "words": (WORDS, {}),
    "shared": (WORDS, SHARED),
    "shared, forward, full": ({**WORDS, "bidirectional": False}, {**SHARED, "softmax": "full"}),
    "highways, muon": ({"connections": "highway"}, {"optimizer": "muon"}),
}


def settings(folder, name, **training):
    model, more = KINDS[name]
    config = run_config(folder, **{"decay": "none", **RANDOM, **more, **training})
    config["model"].update(model)
    return check_config(config)


@pytest.mark.conversions
@pytest.mark.parametrize("name", KINDS)
def test_every_kind_is_trained_from_text_to_a_pipeline(folder, tmp_path, name):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert pretrain(settings(folder, name, max_steps=6), whole)
    for steps in (3, 6):
        pretrain(settings(folder, name, max_steps=steps), parts, resume=True)
    stored = arrays(whole)
    assert_same_arrays(arrays(parts), stored)
    assert metrics(parts) == metrics(whole)
    if "shared" in name:
        table = stored["elmo/model.safetensors encoder.words.weight"]
        assert (table == stored["softmax.safetensors weight"]).all()

    model = read_language_model(whole / "model-last")
    figures = perplexity(model, load_text(folder / "dev.txt"))
    assert figures.to_dict() == pytest.approx(metrics(whole)[-1]["perplexity"])
    is_forward = not model.bilm.config.bidirectional

    nlp, target = spacy.load(whole / "model-last"), tmp_path / "out" / "weights.hdf5"
    words = ["the", "naïve", "unseen"]
    doc = nlp.get_pipe("elmo")(spacy.tokens.Doc(nlp.vocab, words=words))
    assert doc.tensor.shape == (3, 8 if is_forward else 16)
    if "highways" in name:
        with pytest.raises(ValueError, match="cannot store connections = 'highway'"):
            convert(whole / "model-last", target)
        assert not target.exists()
        return
    convert(whole / "model-last", target)
    converted = read_weights(target)
    assert_same_arrays(model.bilm.arrays(), converted.arrays())
    one, other = (bilm.embed([words])[0][0] for bilm in (model.bilm, converted))
    np.testing.assert_allclose(one, other, rtol=0, atol=rounding_of(converted.kernel))


def test_the_gradient_of_a_shared_table_equals_finite_differences(folder):
    more = {"dropout": 0.0, "state_reset": 0.0, "grad_clip": 1e9, "max_steps": 1}
    corpus = load_text(folder / "train.txt")
    trainer = Trainer(settings(folder, "shared, forward, full", **more), corpus, corpus)
    trainer.model.double()
    table = trainer.model.softmax.weight
    assert table is trainer.model.bilm.encoder.words.weight
    window, state = trainer.read(0, 0), trainer.model.bilm.zero_state(trainer.streams.batch_size)

    def loss_and_rows():
        rows = trainer._softmax_rows(window, 0)
        return trainer._loss(window.parts[0], state, rows, False)[0], rows

    loss, rows = loss_and_rows()
    loss.backward()
    trainer.optimizers.softmax_gradients(rows)
    trainer.optimizers.clip(rows)
    assert table.grad.abs().max() > 1e-3
    for _ in range(3):
        changes, ends = torch.randn_like(table), []
        for step in (1e-5, -2e-5, 1e-5):
            with torch.no_grad():
                table += step * changes
                ends.append(loss_and_rows()[0].item())
        difference = (ends[0] - ends[1]) / 2e-5
        assert (table.grad * changes).sum().item() == pytest.approx(difference, rel=1e-5)


def test_a_model_of_words_reads_the_words_that_it_predicts(folder, tmp_path):
    """They are the most frequent words. A model with two tables cannot be trained with a shared
    one, and other kinds of models cannot share a table."""
    pretrain(settings(folder, "words", max_steps=1), tmp_path / "out")
    for model, more, message in (
        ({}, {"init": {"init": str(tmp_path / "out" / "model-last")}}, "by two tables"),
        ({}, {}, "is for models of words alone"),
        (WORDS, {"softmax": "adaptive"}, "needs softmax = 'sampled' or 'full'"),
    ):
        config = run_config(folder, **more, **SHARED)
        config["model"].update(model)
        with pytest.raises(ValueError, match=message):
            pretrain(check_config(config), tmp_path / "shared")
    model = read_language_model(tmp_path / "out" / "model-last")
    assert list(model.bilm.vocabularies.words.strings) == model.vocabulary.words
    assert model.bilm.config.n_words == 12  # of 14 that stand twice or more
    layers = model.bilm.embed([["unseen"], ["never"], ["the"]])[0]
    np.testing.assert_array_equal(layers[0], layers[1])
    assert not np.array_equal(layers[0], layers[2])


@pytest.mark.conversions
def test_a_run_can_start_from_manylangs(tmp_path):
    """The encoder and vocabularies stay, the softmax is new, and the result can be converted
    back."""
    for name in ("train", "dev"):
        (tmp_path / f"{name}.txt").write_text("the naïve dog saw 日本 .\nit ran\n" * 30, "utf8")
    more = {"init": {"init": str(MANYLANGS), "softmax_warmup": 2}, "eval_frequency": 8}
    for steps in (6, 12):
        config = run_settings(tmp_path, max_steps=steps, decay="none", dropout=0.1, **more)
        assert pretrain(config, tmp_path / "out", resume=True)
    before = read_checkpoint(tmp_path / "out" / "checkpoints")["states"]["progress"]["before"]
    assert metrics(tmp_path / "out")[-1]["perplexity"]["mean"] < before - 1
    model = read_language_model(tmp_path / "out" / "model-last")
    before = read_weights(MANYLANGS)
    assert model.bilm.config == before.config
    assert [v.strings for v in model.bilm.vocabularies] == [v.strings for v in before.vocabularies]
    for name, value in before.arrays().items():
        if name.startswith(("encoder.projection", "encoder.convolutions", "stacks")):
            assert not np.array_equal(value, model.bilm.arrays()[name]), name
    how = {"format": "manylangs", "keep_softmax": False, "allow_loss": True}
    convert(tmp_path / "out" / "model-last", tmp_path / "back", **how)
    sentences, back = [["the", "naïve", "日本"], ["<bos>"]], read_weights(tmp_path / "back")
    for one, other in zip(back.embed(sentences)[0], model.bilm.embed(sentences)[0]):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)
