"""Objective of `spacy pretrain`: loss, gradients and targets, against PyTorch and worked
examples."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import spacy
import srsly
import torch
from spacy.tokens import Doc
from spacy.training.pretrain import make_update
from thinc.api import Adam, Config, chain

from spacy_elmo.layers.bilm import get_shim
from spacy_elmo.layers.objective import build_pretrain_bilm, target_buckets
from spacy_elmo.weights.safetensors_file import from_bytes

from helpers.commands import app
from helpers.models import pretraining_config

pytestmark = pytest.mark.pipelines

TEXTS = ["the cat sat on a mat .", "dogs run far !", "the cat sat .", "no"]
SIZES = {"@architectures": "spacy-elmo.BiLM.v1", **pretraining_config()["model"]}
PRETRAINING = {"component": "elmo", "layer": "", "max_epochs": 20, "corpus": "corpora.pretrain"} | {
    "batcher": {"@batchers": "spacy.batch_by_words.v1", "size": 20, "tolerance": 0.2},
    "objective": {"@architectures": "spacy-elmo.PretrainBiLM.v1", "n_buckets": 500},
    "optimizer": {"@optimizers": "Adam.v1", "learn_rate": 0.01},
}
CORPUS = {"@readers": "spacy.JsonlCorpus.v1", "path": "raw.jsonl", "min_length": 1}


@pytest.fixture
def nlp():
    made = spacy.blank("en")
    weights = {"@weights_readers": "spacy-elmo.untrained.v1", "model": SIZES, "seed": 3}
    made.add_pipe("elmo", config={"model": SIZES, "weights": weights})
    return made


@pytest.fixture
def model(nlp):
    layer = nlp.get_pipe("elmo").model
    layer.initialize()
    made = build_pretrain_bilm(n_buckets=50)(nlp.vocab, layer)
    made.initialize(X=[nlp.make_doc("a")])
    weight = np.random.default_rng(0).normal(size=(50, 8)).astype("f")
    made.get_ref("output_layer").set_param("W", weight)
    return made


def make_docs(nlp):
    return [Doc(nlp.vocab, text.split()) for text in [*TEXTS, ""]]


def torch_loss(model, docs):
    """Compute the loss with PyTorch only: `embed`, `cross_entropy`, and targets by name."""
    bilm = get_shim(model.get_ref("tok2vec")).bilm
    head = model.get_ref("output_layer")
    named = [torch.from_numpy(head.get_param(name)).requires_grad_() for name in ("W", "b")]
    weight, bias = named
    sentences = [[token.text for token in doc] for doc in docs]
    layers, _ = bilm.embed(sentences, "warm")
    total = torch.zeros(())
    for doc, words, values in zip(docs, sentences, layers):
        ids = [2 + doc.vocab.strings[word] % 48 for word in words]
        for i in range(len(words)):
            after = ids[i + 1] if i + 1 < len(ids) else 1
            before = ids[i - 1] if i else 0
            for context, target in ((values[-1, i, :8], after), (values[-1, i, 8:], before)):
                logits = (weight @ context + bias).unsqueeze(0)
                total = total + torch.nn.functional.cross_entropy(logits, torch.tensor([target]))
    return total / 2, named


@pytest.mark.training
def test_loss_and_gradients_equal_those_of_pytorch(nlp, model, monkeypatch):
    from spacy_elmo.layers import objective

    monkeypatch.setattr(objective, "CHUNK_SCORES", 350)  # seven rows at a time
    docs = make_docs(nlp)
    n_tokens = sum(len(doc) for doc in docs)
    contexts, backprop = model.begin_update(docs)
    loss, gradient = model.attrs["loss"](model.ops, docs, contexts)
    backprop(gradient)
    bilm = get_shim(model.get_ref("tok2vec")).bilm
    found = {name: weight.grad.clone() for name, weight in bilm.named_parameters()}
    bilm.zero_grad()
    expected, of_head = torch_loss(model, docs)
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    (expected / n_tokens).backward()
    for name, weight in zip(("W", "b"), of_head):
        ours = model.get_ref("output_layer").get_grad(name)
        np.testing.assert_allclose(ours, weight.grad, rtol=1e-3, atol=1e-7)
    for name, weight in bilm.named_parameters():
        torch.testing.assert_close(found[name], weight.grad, rtol=1e-3, atol=1e-7)


@pytest.mark.training
@pytest.mark.parametrize(
    ("windows", "following", "preceding"),
    [
        # The targets stay within sequences.
        ({}, ["b c </S> e f </S>", "</S>"], ["<S> a b <S> d e", "<S>"]),
        # What a window reads beside the tokens that it keeps is known to it.
        ({"size": 4, "overlap": 2}, ["b c d e f </S>", "</S>"], ["<S> a b c d e", "<S>"]),
    ],
)
def test_targets_are_the_neighbors_within_a_sequence(nlp, model, windows, following, preceding):
    if windows:
        shim = get_shim(model.get_ref("tok2vec"))
        segmenter = spacy.registry.segmenters.get("spacy-elmo.windows.v1")(**windows)
        shim.settings = replace(shim.settings, segmenter=segmenter)
    doc = Doc(nlp.vocab, list("abcdef"), sent_starts=[True, False, False, True, False, False])
    docs = [doc, Doc(nlp.vocab), Doc(nlp.vocab, ["g"])]
    names = {2 + nlp.vocab.strings[word] % 48: word for word in "abcdefg"} | {0: "<S>", 1: "</S>"}
    found = [names[bucket] for bucket in target_buckets(model, docs).tolist()]
    assert found == " ".join(following + preceding).split()


@pytest.mark.training
def test_a_loss_that_is_no_number_is_refused(nlp, model):
    """The error comes before any weight changes."""
    model.get_ref("output_layer").get_param("W")[3] = np.inf
    before = [weight.clone() for weight in get_shim(model.get_ref("tok2vec")).bilm.parameters()]
    with pytest.raises(ValueError, match=r"\[E910\]"):
        make_update(model, make_docs(nlp), Adam(0.001), model.attrs["loss"])
    after = get_shim(model.get_ref("tok2vec")).bilm.parameters()
    assert all(torch.equal(*pair) for pair in zip(before, after))


@pytest.mark.training
def test_docs_without_tokens_have_no_loss(nlp, model):
    assert make_update(model, [Doc(nlp.vocab)], Adam(0.01), model.attrs["loss"]) == 0.0


def test_untrained_weights_are_those_of_the_seed(nlp):
    again = spacy.blank("en")
    for name, seed in (("one", 3), ("two", 4)):
        weights = {"@weights_readers": "spacy-elmo.untrained.v1", "model": SIZES, "seed": seed}
        again.add_pipe("elmo", name=name, config={"model": SIZES, "weights": weights})
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    pipes = nlp.get_pipe("elmo"), again.get_pipe("one"), again.get_pipe("two")
    first, same, other = (pipe.bilm.token_vectors(["cat"]) for pipe in pipes)
    np.testing.assert_array_equal(first, same)
    assert not np.allclose(first, other)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_impossible_sizes_and_layers_are_refused(nlp):
    with pytest.raises(ValueError, match="n_buckets.*got 2"):
        build_pretrain_bilm(2)
    layer = chain(nlp.get_pipe("elmo").model, spacy.blank("en").add_pipe("tok2vec").model)
    with pytest.raises(ValueError, match=r"elmo_bilm>>.*\[pretraining\]"):
        build_pretrain_bilm()(nlp.vocab, layer)


def run_spacy(*arguments):
    assert not app(arguments, standalone_mode=False)


def losses_of(run, epochs):
    rows = list(srsly.read_jsonl(f"{run}/log.jsonl"))
    assert [row["epoch"] for row in rows] == epochs
    return [row["epoch_loss"] for row in rows]


@pytest.mark.training
def test_spacy_pretrain_can_be_resumed_and_its_weights_loaded(tmp_path, monkeypatch, nlp):
    monkeypatch.chdir(tmp_path)
    config = Config(nlp.config)
    config["corpora"]["pretrain"] = CORPUS
    config["pretraining"] = PRETRAINING
    config.to_disk("a.cfg")
    srsly.write_jsonl("raw.jsonl", [{"text": text} for text in TEXTS * 2])
    run_spacy("init", "fill-config", "a.cfg", "filled.cfg", "--pretraining")
    run_spacy("pretrain", "filled.cfg", "out")
    resume = ["--pretraining.max_epochs", "24", "--resume-path", "out/model19.bin"]
    run_spacy("pretrain", "filled.cfg", "more", *resume)
    losses = losses_of("out", [*range(21)]) + losses_of("more", [20, 21, 22, 23, 24])
    # At first all 500 buckets are alike.
    n_tokens = 2 * sum(len(text.split()) for text in TEXTS)
    assert losses[0] == pytest.approx(n_tokens * np.log(500), rel=0.1)
    assert losses[-1] < losses[0] / 2

    paths = {"paths.init_tok2vec": "more/model-last.bin"}
    config = Config().from_disk("filled.cfg", overrides=paths)
    nlp = spacy.util.load_model_from_config(config, auto_fill=True)
    pipe = nlp.get_pipe("elmo")
    untrained = pipe.bilm.token_vectors(["cat"])
    nlp.initialize()
    assert not np.allclose(pipe.bilm.token_vectors(["cat"]), untrained)
    saved = srsly.msgpack_loads(Path("more/model-last.bin").read_bytes())["shims"][0][0]
    for name, weight in from_bytes(saved).arrays().items():
        np.testing.assert_array_equal(pipe.bilm.arrays()[name], weight)
    assert pipe.frozen
    assert nlp("the cat").tensor.shape == (2, 16)
    nlp.to_disk("pipeline")
    loaded = spacy.load("pipeline")
    np.testing.assert_allclose(loaded("the cat").tensor, nlp("the cat").tensor, rtol=1e-4)
