"""The biattentive classification network against its formula, and as a model of textcat."""

import pickle

import numpy as np
import pytest
import spacy
import torch
from spacy.training import Example
from thinc.api import Model

from spacy_elmo.tasks.shared.recurrent import pad
from spacy_elmo.tasks.shared.torch_module import get_module_shim
from spacy_elmo.tasks.textcat import build_bcn
from spacy_elmo.tasks.textcat.module import BiattentiveClassifier, biattention

from helpers.components import embed, listener
from helpers.gradients import softmax
from helpers.recurrent import linear, run

LENGTHS = (4, 0, 2)
SMALL = {"hidden_width": 8, "maxout_widths": [12, 6], "dropout": 0.0}
TEXTS = [
    ("a fine and moving film .", "GOOD"),
    ("not a fine film .", "BAD"),
    ("moving !", "GOOD"),
    ("dull .", "BAD"),
]


def attend(values):
    return softmax(values @ values.T) @ values if len(values) else values


def test_biattention():
    rng = np.random.default_rng(0)
    sequences = [rng.normal(size=(n, 6)) for n in LENGTHS]
    found = biattention(*pad([torch.from_numpy(values) for values in sequences]))
    for got, values in zip(found, sequences):
        np.testing.assert_allclose(got[: len(values)], attend(values), atol=1e-12)


def by_formula(module, sequences, joined):
    """Of one sequence at a time, without padding; the LSTMs are PyTorch's own."""
    for x, other in zip(sequences, joined):
        if not len(x):
            pooled = np.zeros(4 * (16 + other.shape[1]))
        else:
            relu = np.maximum(linear(module.relu, x), 0)
            h = run(module.encoder, torch.from_numpy(relu))
            a = attend(h)
            y = run(module.integrator, torch.from_numpy(np.concatenate([h, h - a, h * a], axis=1)))
            y = np.concatenate([y, other], axis=1)
            weights = softmax(linear(module.attention, y).T).T
            pooled = np.concatenate([y.max(0), y.mean(0), y.min(0), (weights * y).sum(0)])
        for layer in module.layers:
            pooled = linear(layer, pooled).reshape(-1, 3).max(axis=1)
        yield pooled


@pytest.mark.parametrize("nE", [0, 5])
def test_the_formula(nE):
    """In float64, with sequences of different lengths, one of them empty."""
    torch.manual_seed(0)
    sizes = {"hidden_width": 8, "maxout_widths": [12, 6], "maxout_pieces": 3, "dropout": 0.5}
    module = BiattentiveClassifier(nI=7, nE=nE, nO=4, **sizes).double().eval()
    rng = np.random.default_rng(0)
    sequences = [rng.normal(size=(n, 7)) for n in LENGTHS]
    joined = [rng.normal(size=(n, nE)) for n in LENGTHS]
    tensors = [[torch.from_numpy(x) for x in values] for values in (sequences, joined)]
    found = module(tensors[0], tensors[1] if nE else ()).detach().numpy()
    np.testing.assert_allclose(found, list(by_formula(module, sequences, joined)), atol=1e-10)


class Inputs(Model):
    """A tok2vec whose vectors are given, and which keeps their gradient."""

    def __init__(self, vectors):
        super().__init__("inputs", self.give)
        self.vectors, self.gradients = vectors, None

    def give(self, model, docs, is_train):
        return self.vectors, self.keep

    def keep(self, gradients):
        self.gradients = gradients
        return []


@pytest.mark.parametrize("exclusive_classes", [True, False])
@pytest.mark.parametrize("max_batch_tokens", [3, 4096])
def test_gradients(exclusive_classes, max_batch_tokens):
    """Of the cross-entropy, by finite differences: inputs of both places and all weights,
    whatever the batches."""
    spacy.util.fix_random_seed(0)
    rng = np.random.default_rng(0)
    docs = [spacy.tokens.Doc(spacy.vocab.Vocab(), words=["x"] * n) for n in LENGTHS]
    places = [Inputs([rng.normal(size=(n, w)) for n in LENGTHS]) for w in (7, 5)]
    settings = {"exclusive_classes": exclusive_classes, "max_batch_tokens": max_batch_tokens}
    model = build_bcn(*places, **settings, **SMALL)
    truth = np.eye(3)
    model.initialize(X=docs, Y=truth)

    module = get_module_shim(model).module.double()

    def loss():
        p = model.predict(docs)
        both = 0.0 if exclusive_classes else ((1 - truth) * np.log(1 - p)).sum()
        return -(truth * np.log(p)).sum() - both

    probabilities, backprop = model(docs, is_train=True)
    backprop(probabilities - truth)
    checked = [pair for place in places for pair in zip(place.vectors, place.gradients)]
    checked += [(param.detach().numpy(), param.grad.numpy()) for param in module.parameters()]
    for values, gradient in checked:
        direction = rng.normal(size=values.shape)
        before, around = values.copy(), []
        for step in (1e-6, -1e-6):
            values[...] = before + step * direction
            around.append(loss())
        values[...] = before
        expected = (around[0] - around[1]) / 2e-6
        assert (gradient * direction).sum() == pytest.approx(expected, rel=1e-4, abs=1e-6)


def textcat(tok2vec, **settings):
    return {
        "model": {"@architectures": "spacy-elmo.BCN.v1", "tok2vec": tok2vec, **SMALL, **settings}
    }


def train(nlp, steps=60):
    data = []
    for text, label in TEXTS:
        cats = {name: float(name == label) for name in ("GOOD", "BAD")}
        data.append(Example.from_dict(nlp.make_doc(text), {"cats": cats}))
    optimizer = nlp.initialize(lambda: data)
    optimizer.learn_rate = 0.01
    for _ in range(steps):
        nlp.update(data, sgd=optimizer)
    return data


def cats(nlp):
    return [doc.cats for doc in nlp.pipe([text for text, _ in TEXTS] + [""])]


@pytest.mark.processes
@pytest.mark.parametrize("factory", ["textcat", "textcat_multilabel"])
@pytest.mark.parametrize("with_elmo", [False, True])
def test_it_learns_and_is_kept(make_nlp, tmp_path, factory, with_elmo):
    """With ELMo at both places, and without."""
    spacy.util.fix_random_seed(0)
    nlp = make_nlp() if with_elmo else spacy.blank("en")
    exclusive = factory == "textcat"
    both = {"elmo": listener(layer_norm=True)} if with_elmo else {}
    tok2vec = listener(layer_norm=True) if with_elmo else embed(8)
    nlp.add_pipe(factory, config=textcat(tok2vec, exclusive_classes=exclusive, **both))
    data = train(nlp, steps=100 if with_elmo else 40)
    assert nlp.evaluate(data)["cats_macro_f"] == 1.0
    expected = cats(nlp)
    assert all(sum(one.values()) == pytest.approx(1.0) for one in expected) or not exclusive
    nlp.to_disk(tmp_path / "pipeline")
    for loaded in (spacy.load(tmp_path / "pipeline"), pickle.loads(pickle.dumps(nlp))):
        assert cats(loaded) == expected
    found = [doc.cats for doc in nlp.pipe([text for text, _ in TEXTS], n_process=2)]
    for one, other in zip(found, expected):
        assert one == pytest.approx(other, abs=1e-6)
    if with_elmo:
        (first, second) = [n for n in nlp.get_pipe(factory).model.walk() if "mix" in n.name]
        assert [first.attrs["place"], second.attrs["place"]] == ["alone", "output"]
        nlp.replace_listeners("elmo", factory, ["model.elmo", "model.tok2vec"])
        nlp.to_disk(tmp_path / "replaced")
        loaded = spacy.load(tmp_path / "replaced", exclude=["elmo"])
        for one, other in zip(cats(loaded), expected):
            assert one == pytest.approx(other, abs=1e-5)
