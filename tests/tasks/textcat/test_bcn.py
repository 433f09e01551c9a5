"""The biattentive classification network against its formula; the gradients of all classifiers."""

import numpy as np
import pytest
import spacy
import torch
from thinc.api import Model

from spacy_elmo.tasks.shared.torch_module import get_module_shim
from spacy_elmo.tasks.textcat import build_bcn
from spacy_elmo.tasks.textcat.module import BiattentiveClassifier
from spacy_elmo.tasks.texts import make_pair
from spacy_elmo.tasks.texts.models import build_esim

from helpers.formulas import check_differences, linear, run
from helpers.gradients import softmax

LENGTHS = (4, 0, 2)
SMALL = {"hidden_width": 8, "maxout_widths": [12, 6]}


def attend(values):
    return softmax(values @ values.T) @ values if len(values) else values


def by_formula(module, sequences, joined):
    """Return the scores of one sequence at a time, without padding; the LSTMs are PyTorch's own."""
    for x, other in zip(sequences, joined):
        if not len(x):
            pooled = np.zeros(4 * (16 + other.shape[1]))
        else:
            relu = np.maximum(linear(module.relu, x), 0)
            h = run(module.encoder, relu)
            a = attend(h)
            y = run(module.integrator, np.concatenate([h, h - a, h * a], axis=1))
            y = np.concatenate([y, other], axis=1)
            weights = softmax(linear(module.attention, y).T).T
            pooled = np.concatenate([y.max(0), y.mean(0), y.min(0), (weights * y).sum(0)])
        for layer in module.layers:
            pooled = linear(layer, pooled).reshape(-1, 3).max(axis=1)
        yield pooled


@pytest.mark.parametrize("nE", [0, 5])
def test_scores_equal_the_formula(nE):
    """The comparison is in float64. Sequences have different lengths, and one is empty."""
    sizes = {"nI": 7, "nE": nE, "nO": 4, "maxout_pieces": 3, "dropout": 0.5, **SMALL}
    module = BiattentiveClassifier(**sizes).double().eval()
    rng = np.random.default_rng(0)
    sequences = [rng.normal(size=(n, 7)) for n in LENGTHS]
    joined = [rng.normal(size=(n, nE)) for n in LENGTHS]
    tensors = [[torch.from_numpy(x) for x in values] for values in (sequences, joined)]
    found = module(tensors[0], tensors[1] if nE else ()).detach().numpy()
    np.testing.assert_allclose(found, list(by_formula(module, sequences, joined)), atol=1e-10)


def inputs(vectors):
    """A tok2vec whose vectors are given, and which keeps their gradient."""

    def forward(model, docs, is_train):
        return vectors, lambda gradients: model.attrs.update(gradients=gradients)

    return Model("inputs", forward)


@pytest.mark.training
@pytest.mark.parametrize("max_batch_tokens", [3, 4096])
@pytest.mark.parametrize(
    ("build", "settings"),
    [
        (build_bcn, SMALL),
        (build_bcn, {**SMALL, "exclusive_classes": False}),
        (build_esim, {"width": 4}),
    ],
)
def test_gradients_equal_finite_differences(build, settings, max_batch_tokens):
    """The gradients are of inputs at both places and of all weights, in any batches."""
    rng = np.random.default_rng(0)
    vocab = spacy.vocab.Vocab()
    docs = [make_pair(vocab, *texts) for texts in (("a b c", "d"), ("", ""), ("a", "b"))]
    vectors = [[rng.normal(size=(len(doc), width)) for doc in docs] for width in (7, 5)]
    places = list(map(inputs, vectors))
    model = build(*places, dropout=0.0, max_batch_tokens=max_batch_tokens, **settings)
    truth = np.eye(3)
    model.initialize(X=docs, Y=truth)
    module = get_module_shim(model).module.double()
    exclusive_classes = settings.get("exclusive_classes", True)

    def loss():
        p = model.predict(docs)
        both = 0.0 if exclusive_classes else ((1 - truth) * np.log(1 - p)).sum()
        return -(truth * np.log(p)).sum() - both

    probabilities, backprop = model(docs, is_train=True)
    backprop(probabilities - truth)
    pairs = [pair for x, at in zip(vectors, places) for pair in zip(x, at.attrs["gradients"])]
    pairs += [(param.detach().numpy(), param.grad.numpy()) for param in module.parameters()]
    check_differences(pairs, loss)
