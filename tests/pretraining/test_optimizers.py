import copy
import math

import numpy as np
import pytest
import torch

from spacy_elmo.bilm.softmax import AdaptiveSoftmax, LanguageModelSoftmax
from spacy_elmo.frozen.vocabulary import Vocabulary
from spacy_elmo.language_model.model import LanguageModel
from spacy_elmo.pretraining.config import TrainingSettings
from spacy_elmo.pretraining.optimizers import Optimizers, learn_rate_factor

from helpers.models import tiny_module

N_WORDS, WIDTH = 30, 5
WORDS = ["<S>", "</S>", "<UNK>", *(f"w{i}" for i in range(N_WORDS - 3))]


def make_model(kind=LanguageModelSoftmax):
    torch.manual_seed(0)
    softmax = kind(n_words=N_WORDS, width=WIDTH)
    return LanguageModel(tiny_module(0).requires_grad_(True), softmax, Vocabulary(WORDS))


def draw_gradients(model, optimizers, step):
    """Random gradients of the biLM and of some rows of the softmax; the same gradient of
    the whole softmax, zero in the other rows."""
    generator = torch.Generator().manual_seed(step)
    for weight in model.bilm.parameters():
        weight.grad = torch.randn(weight.shape, generator=generator).to(weight)
    softmax = model.softmax
    targets = torch.randint(N_WORDS, (4,), generator=generator)
    rows = softmax.rows(targets, softmax.draw_negatives(5, generator))
    dense = []
    for leaf, whole in ((rows.weight, softmax.weight), (rows.bias, softmax.bias)):
        leaf.grad = torch.randn(leaf.shape, generator=generator).to(leaf)
        dense.append(torch.zeros_like(whole).index_copy_(0, rows.words, leaf.grad))
    return rows, dense


def test_adagrad_by_rows_is_adagrad():
    """That of the whole table, whose other rows have no gradient, up to float64's rounding."""
    model = make_model().double()
    other = copy.deepcopy(model)
    optimizers = Optimizers(TrainingSettings(optimizer="adagrad"), model)
    dense = torch.optim.Adagrad(other.parameters(), initial_accumulator_value=1.0)
    for step, rate in enumerate([0.2, 0.1, 0.5, 0.3]):
        rows, (weight, bias) = draw_gradients(model, optimizers, step)
        for ours, theirs in zip(model.bilm.parameters(), other.bilm.parameters()):
            theirs.grad = ours.grad.clone()
        other.softmax.weight.grad, other.softmax.bias.grad = weight, bias
        dense.param_groups[0]["lr"] = rate
        dense.step()
        optimizers.step(rate, rows)
        for ours, theirs in zip(model.parameters(), other.parameters()):
            torch.testing.assert_close(ours, theirs, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "adagrad", "muon"])
def test_only_the_rows_of_a_step_move(optimizer):
    model = make_model()
    optimizers = Optimizers(TrainingSettings(optimizer=optimizer), model)
    for step in range(3):
        before = copy.deepcopy(model.softmax)
        rows, _ = draw_gradients(model, optimizers, step)
        optimizers.step(0.01, rows)
        touched = torch.zeros(N_WORDS, dtype=torch.bool)
        touched[rows.words] = True
        assert 0 < touched.sum() < N_WORDS
        assert torch.equal((model.softmax.weight != before.weight).all(dim=1), touched)
        assert torch.equal((model.softmax.weight != before.weight).any(dim=1), touched)
        assert torch.equal(model.softmax.bias != before.bias, touched)
        assert all(weight.grad is None for weight in model.parameters())


def test_adam_by_rows():
    """The moments of a row decay only in the steps that touch it; the bias correction
    counts all steps."""
    model = make_model()
    optimizers = Optimizers(TrainingSettings(optimizer="adam"), model)
    expected = model.softmax.weight.detach().double().numpy().copy()
    first, second = np.zeros_like(expected), np.zeros_like(expected)
    for step in range(6):
        rows, _ = draw_gradients(model, optimizers, step)
        index, gradient = rows.words.numpy(), rows.weight.grad.double().numpy()
        first[index] = 0.9 * first[index] + 0.1 * gradient
        second[index] = 0.999 * second[index] + 0.001 * gradient**2
        corrections = 1 - 0.9 ** (step + 1), 1 - 0.999 ** (step + 1)
        size = 0.01 * math.sqrt(corrections[1]) / corrections[0]
        expected[index] -= size * first[index] / (np.sqrt(second[index]) + 1e-8)
        optimizers.step(0.01, rows)
    found = model.softmax.weight.detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("adam", torch.optim.Adam),
        ("adamw", lambda weights: torch.optim.AdamW(weights, weight_decay=0.05)),
        ("adagrad", lambda weights: torch.optim.Adagrad(weights, initial_accumulator_value=1.0)),
    ],
    ids=["adam", "adamw", "adagrad"],
)
def test_adaptive_softmax_has_torchs_optimizer(name, make):
    model = make_model(AdaptiveSoftmax)
    other = copy.deepcopy(model)
    optimizers = Optimizers(TrainingSettings(optimizer=name, weight_decay=0.05), model)
    theirs = make(list(other.parameters()))
    for step in range(3):
        torch.manual_seed(step)
        for weight, copied in zip(model.parameters(), other.parameters()):
            weight.grad = torch.randn_like(weight)
            copied.grad = weight.grad.clone()
        theirs.param_groups[0]["lr"] = 0.03
        theirs.step()
        optimizers.step(0.03, None)
    for weight, copied in zip(model.parameters(), other.parameters()):
        torch.testing.assert_close(weight, copied, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("is_frozen", [False, True])
@pytest.mark.parametrize("bound", [1e-3, 1.0, 1e6])
def test_clip_is_torchs_of_all_gradients_together(bound, is_frozen):
    """While the biLM is frozen, of those of the softmax."""
    model = make_model()
    optimizers = Optimizers(TrainingSettings(grad_clip=bound), model)
    rows, _ = draw_gradients(model, optimizers, 0)
    if is_frozen:
        model.bilm.zero_grad()
    gradients = [weight.grad for weight in model.bilm.parameters() if not is_frozen]
    gradients += [rows.weight.grad, rows.bias.grad]
    leaves = [torch.zeros_like(gradient).requires_grad_() for gradient in gradients]
    for leaf, gradient in zip(leaves, gradients):
        leaf.grad = gradient.clone()
    torch.nn.utils.clip_grad_norm_(leaves, bound)
    norm = optimizers.clip(rows).item()
    for leaf, gradient in zip(leaves, gradients):
        torch.testing.assert_close(gradient, leaf.grad, rtol=1e-6, atol=0)
    clipped = math.sqrt(sum(gradient.double().square().sum().item() for gradient in gradients))
    assert clipped == pytest.approx(min(norm, bound), rel=1e-5)
    before = copy.deepcopy(model.bilm)
    optimizers.step(0.1, rows)
    for ours, old in zip(model.bilm.parameters(), before.parameters()):
        assert torch.equal(ours, old) == is_frozen


DECAYS = {
    "none": lambda since, warmup, fraction: 1.0,
    "linear": lambda since, warmup, fraction: 1 - fraction,
    "cosine": lambda since, warmup, fraction: math.cos(math.pi * fraction / 2) ** 2,
    "inverse_sqrt": lambda since, warmup, fraction: min(1.0, math.sqrt(warmup / (since + 1))),
}


@pytest.mark.parametrize("share", [1.0, 0.25])
@pytest.mark.parametrize(("warmup", "softmax_warmup"), [(8, 0), (8, 5), (0, 0)])
@pytest.mark.parametrize("decay", DECAYS)
def test_learn_rate(decay, warmup, softmax_warmup, share):
    """A warm-up and then the decay, over the last share of the run; while the softmax is trained
    alone a warm-up of its own, without decay."""
    settings = TrainingSettings(decay=decay, decay_share=share, warmup_steps=warmup)
    for step in range(41):
        fraction = step / 40
        got = learn_rate_factor(settings, step, fraction, softmax_warmup)
        since = step if step < softmax_warmup else step - softmax_warmup
        expected = min(1.0, (since + 1) / warmup) if warmup else 1.0
        if step >= softmax_warmup:
            within = max(0.0, (fraction - (1 - share)) / share)
            expected *= DECAYS[decay](since, warmup or 1, within)
        assert got == pytest.approx(expected, rel=1e-12, abs=1e-12)
