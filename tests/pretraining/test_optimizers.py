"""Optimizers: steps equal PyTorch's, rows of the softmax are updated alone, rates and moments
move."""

import copy
import math
from functools import partial

import numpy as np
import pytest
import torch

from spacy_elmo.bilm.softmax import AdaptiveSoftmax, LanguageModelSoftmax
from spacy_elmo.language_model.model import LanguageModel
from spacy_elmo.model.vocabulary import Vocabulary
from spacy_elmo.pretraining.config import TrainingSettings
from spacy_elmo.pretraining.optimizers import Optimizers, beta2_of, learn_rate_factor

from helpers.models import tiny_module

N_WORDS, WIDTH = 30, 5
WORDS = ["<S>", "</S>", "<UNK>", *(f"w{i}" for i in range(N_WORDS - 3))]


def make_model(kind=LanguageModelSoftmax):
    torch.manual_seed(0)
    softmax = kind(n_words=N_WORDS, width=WIDTH)
    return LanguageModel(tiny_module(0).requires_grad_(True), softmax, Vocabulary(WORDS))


def draw_gradients(model, step):
    """Draw gradients of the biLM and of some rows of the softmax, and the same gradient of the
    whole softmax, zero in the other rows. An adaptive softmax has no rows."""
    generator = torch.Generator().manual_seed(step)
    softmax, dense = model.softmax, []
    is_adaptive = isinstance(softmax, AdaptiveSoftmax)
    for weight in (model if is_adaptive else model.bilm).parameters():
        weight.grad = torch.randn(weight.shape, generator=generator).to(weight)
    if is_adaptive:
        return None, dense
    targets = torch.randint(N_WORDS, (4,), generator=generator)
    rows = softmax.rows(targets, softmax.draw_negatives(5, generator))
    for leaf, whole in ((rows.weight, softmax.weight), (rows.bias, softmax.bias)):
        leaf.grad = torch.randn(leaf.shape, generator=generator).to(leaf)
        dense.append(torch.zeros_like(whole).index_copy_(0, rows.words, leaf.grad))
    return rows, dense


DENSE = {
    "adam": torch.optim.Adam,
    "adamw": partial(torch.optim.AdamW, weight_decay=0.05),
    "adagrad": partial(torch.optim.Adagrad, initial_accumulator_value=1.0),
}


@pytest.mark.parametrize(
    ("kind", "name"),
    [*((AdaptiveSoftmax, name) for name in DENSE), (LanguageModelSoftmax, "adagrad")],
)
def test_steps_equal_those_of_pytorch(kind, name):
    """Adagrad by rows equals Adagrad of the whole table, whose other rows have no gradient. AdamW
    decays only the weights of the biLM, with any softmax."""
    model = make_model(kind).double()
    other = copy.deepcopy(model)
    optimizers = Optimizers(TrainingSettings(optimizer=name, weight_decay=0.05), model)
    theirs = DENSE[name](list(other.bilm.parameters()))
    softmax_settings = {"weight_decay": 0.0} if name == "adamw" else {}
    theirs.add_param_group({"params": list(other.softmax.parameters()), **softmax_settings})
    for step, rate in enumerate([0.2, 0.1, 0.5, 0.3]):
        rows, dense = draw_gradients(model, step)
        for weight, copied in zip(model.parameters(), other.parameters()):
            copied.grad = None if weight.grad is None else weight.grad.clone()
        for copied, gradient in zip(other.softmax.parameters(), dense):
            copied.grad = gradient
        for group in theirs.param_groups:
            group["lr"] = rate
        theirs.step()
        optimizers.step(rate, rows)
        for weight, copied in zip(model.parameters(), other.parameters()):
            torch.testing.assert_close(weight, copied, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "muon"])
def test_adam_updates_only_the_rows_of_a_step(optimizer):
    """The moments of a row decay only in the steps that read it; the bias correction counts all
    steps."""
    model = make_model()
    optimizers = Optimizers(TrainingSettings(optimizer=optimizer), model)
    weights = model.softmax.weight, model.softmax.bias
    wanted = [[weight.detach().double().numpy().copy()] for weight in weights]
    for values in wanted:
        values += [np.zeros_like(values[0]), np.zeros_like(values[0])]
    for step in range(6):
        rows, _ = draw_gradients(model, step)
        index = rows.words.numpy()
        for (expected, first, second), leaf in zip(wanted, (rows.weight, rows.bias)):
            gradient = leaf.grad.double().numpy()
            first[index] = 0.9 * first[index] + 0.1 * gradient
            second[index] = 0.999 * second[index] + 0.001 * gradient**2
            corrections = 1 - 0.9 ** (step + 1), 1 - 0.999 ** (step + 1)
            size = 0.01 * math.sqrt(corrections[1]) / corrections[0]
            expected[index] -= size * first[index] / (np.sqrt(second[index]) + 1e-8)
        optimizers.step(0.01, rows)
        assert all(weight.grad is None for weight in model.parameters())
    for weight, (expected, *_) in zip(weights, wanted):
        np.testing.assert_allclose(weight.detach(), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("bound", "is_frozen"), [(1e-3, False), (1.0, True), (1e6, False)])
def test_all_gradients_are_clipped_together(bound, is_frozen):
    """While the biLM is frozen, only the gradients of the softmax count."""
    model = make_model()
    optimizers = Optimizers(TrainingSettings(grad_clip=bound), model)
    rows, _ = draw_gradients(model, 0)
    if is_frozen:
        model.bilm.zero_grad()
    gradients = [weight.grad for weight in model.bilm.parameters() if not is_frozen]
    gradients += [rows.weight.grad, rows.bias.grad]
    before = [gradient.double() for gradient in gradients]
    norm = torch.cat([gradient.flatten() for gradient in before]).norm().item()
    assert optimizers.clip(rows).item() == pytest.approx(norm, rel=1e-6)
    for gradient, whole in zip(gradients, before):
        expected = whole * min(1.0, bound / norm)
        torch.testing.assert_close(gradient.double(), expected, rtol=1e-6, atol=0)
    bilm = copy.deepcopy(model.bilm)
    optimizers.step(0.1, rows)
    for ours, old in zip(model.bilm.parameters(), bilm.parameters()):
        assert torch.equal(ours, old) == is_frozen


DECAYS = {
    "none": lambda since, warmup, fraction: 1.0,
    "linear": lambda since, warmup, fraction: 1 - fraction,
    "cosine": lambda since, warmup, fraction: math.cos(math.pi * fraction / 2) ** 2,
    "inverse_sqrt": lambda since, warmup, fraction: min(1.0, math.sqrt(warmup / (since + 1))),
}


@pytest.mark.parametrize(
    ("warmup", "softmax_warmup", "share"), [(8, 0, 1.0), (8, 5, 0.25), (0, 0, 0.25)]
)
@pytest.mark.parametrize("decay", DECAYS)
def test_the_learning_rate_warms_up_and_decays(decay, warmup, softmax_warmup, share):
    """The decay covers the last share of the run. While only the softmax is trained, it has its own
    warm-up, without decay."""
    settings = TrainingSettings(decay=decay, warmup_steps=warmup, advanced={"decay_share": share})
    for step in range(41):
        fraction = step / 40
        got = learn_rate_factor(settings, step, fraction, softmax_warmup)
        since = step if step < softmax_warmup else step - softmax_warmup
        expected = min(1.0, (since + 1) / warmup) if warmup else 1.0
        if step >= softmax_warmup:
            within = max(0.0, (fraction - (1 - share)) / share)
            expected *= DECAYS[decay](since, warmup or 1, within)
        assert got == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("fused", [True, None])
def test_states_move_to_a_device_without_a_fused_optimizer(fused):
    """A CPU has a fused Adagrad, and a GPU has none. A run that moves uses the one of its
    device."""
    model, settings = make_model(), TrainingSettings(optimizer="adagrad")
    before, after = Optimizers(settings, model), Optimizers(settings, model)
    groups = [one.bilm_optimizer.param_groups[0] for one in (before, after)]
    assert groups[0]["fused"] is True  # on this CPU
    rows, _ = draw_gradients(model, 0)
    before.step(0.1, rows)
    states = before.state_dict()
    groups[1]["fused"] = fused
    after.load_state_dict(states)
    assert after.bilm_optimizer.param_groups[0]["fused"] is fused
    assert states["bilm"]["param_groups"][0]["fused"] is True
    for weight in model.bilm.parameters():
        ours, theirs = (one.bilm_optimizer.state[weight] for one in (after, before))
        assert torch.equal(ours["sum"], theirs["sum"])
        assert int(ours["step"]) == int(theirs["step"]) == 1


def test_half_life_of_beta2_is_the_same_in_tokens():
    """The half-life is 1.8 million tokens, from the batches for which 0.999 was chosen."""
    for step_tokens in (2560, 10_240, 20_480):
        steps = math.log(0.5) / math.log(beta2_of(step_tokens))
        assert steps * step_tokens == pytest.approx(1.7740e6, rel=1e-3)
    assert beta2_of(2560) == beta2_of(32) == 0.999


def test_moments_move_to_another_batch_size_without_its_settings():
    models = [make_model(), make_model()]
    one, two = (
        Optimizers(TrainingSettings(batch_size=size, unroll_steps=40), model)
        for size, model in zip((64, 512), models)
    )
    rows, _ = draw_gradients(models[0], 0)
    one.step(0.01, rows)
    two.load_state_dict(one.state_dict())
    for name, optimizer in two.by_name.items():
        assert optimizer.param_groups[0]["betas"] == (0.9, beta2_of(20_480))
        moments = [state["exp_avg_sq"] for state in optimizer.state.values()]
        others = [state["exp_avg_sq"] for state in one.by_name[name].state.values()]
        assert moments and all(map(torch.equal, moments, others))
