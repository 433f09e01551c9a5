"""On a GPU."""

import numpy as np
import pytest
import torch

from spacy_elmo.bilm.precision import resolve_precision

from helpers.models import SENTENCES, tiny_module

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU")

DEVICE = "cuda"
TEXTS = ["They sat on the bank of the river .", "", "A bank", "naïve 日本語 😀"]
PRECISIONS = ["float32", "bfloat16", "int8", "auto"]


@pytest.mark.parametrize("start", [None, "warm"])
def test_embed_is_the_cpu_s(start):
    bilm, moved = tiny_module(), tiny_module().to(DEVICE)
    expected, expected_state = bilm.embed(SENTENCES, start)
    for _ in range(2):  # the second time with known token vectors
        layers, state = moved.embed(SENTENCES, start)
        assert all(values.device.type == DEVICE for values in layers)
        for ours, theirs in zip(layers, expected):
            torch.testing.assert_close(ours.cpu(), theirs, rtol=0, atol=1e-4)
        torch.testing.assert_close(state.cell.cpu(), expected_state.cell, rtol=0, atol=1e-4)


def test_state_is_carried():
    bilm, moved = tiny_module(), tiny_module().to(DEVICE)
    _, expected = bilm.embed([["a"], ["b", "c"]], bilm.embed([["x"], []])[1])
    _, state = moved.embed([["a"], ["b", "c"]], moved.embed([["x"], []])[1])
    torch.testing.assert_close(state.hidden.cpu(), expected.hidden, rtol=0, atol=1e-4)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_every_precision(precision):
    assert resolve_precision(precision, torch.device(DEVICE)) in ("float32", "bfloat16", "float16")
    expected, _ = tiny_module().embed(SENTENCES)
    moved = tiny_module().to(DEVICE)
    moved.precision = precision
    for ours, theirs in zip(moved.embed(SENTENCES)[0], expected):
        assert ours.dtype == torch.float32
        cosines = torch.cosine_similarity(ours.cpu().double(), theirs.double(), dim=2)
        assert len(cosines.flatten()) == 0 or cosines.min() > 0.999


def test_vectors_are_on_the_cpu(make_nlp):
    alone, nlp = make_nlp(store_layers=True), make_nlp(store_layers=True)
    nlp.get_pipe("elmo").move_to(DEVICE)
    for doc, expected in zip(nlp.pipe(TEXTS), alone.pipe(TEXTS)):
        assert isinstance(doc.tensor, np.ndarray) and isinstance(doc._.elmo, np.ndarray)
        np.testing.assert_allclose(doc.tensor, expected.tensor, rtol=0, atol=1e-4)
        np.testing.assert_allclose(doc._.elmo, expected._.elmo, rtol=0, atol=1e-4)
    assert isinstance(nlp("A bank")[1].similarity(nlp("bank")[0]), float)


def test_gradients_are_the_cpu_s():
    bilms = [tiny_module().requires_grad_(True) for _ in range(2)]
    bilms[1].to(DEVICE)
    for bilm in bilms:
        sum(values.square().sum() for values in bilm.embed(SENTENCES)[0]).backward()
    pairs = zip(bilms[0].named_parameters(), bilms[1].parameters())
    for (name, one), two in pairs:
        scale = one.grad.abs().max().item()
        difference = (one.grad - two.grad.cpu()).abs().max().item()
        assert difference <= 1e-3 * scale, name
