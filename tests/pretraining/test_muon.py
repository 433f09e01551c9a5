"""The optimizer Muon: steps equal the published formula, and stay finite."""

import math

import numpy as np
import pytest
import torch

from spacy_elmo.pretraining.muon import Muon, muon_groups, orthogonalized

from helpers.models import tiny_module

A, B, C = 3.4445, -4.7750, 2.0315


def newton_schulz(matrix):
    """Compute the published iteration on one matrix, in float64."""
    x = matrix / (np.linalg.norm(matrix) + 1e-7)
    if x.shape[0] > x.shape[1]:
        return newton_schulz(matrix.T).T
    for _ in range(5):
        gram = x @ x.T
        x = A * x + (B * gram + C * gram @ gram) @ x
    return x


@pytest.mark.parametrize("product_dtype", [None, torch.bfloat16])
@pytest.mark.parametrize("columns", [16, 64])
def test_nearly_singular_matrices_stay_finite_and_bounded(columns, product_dtype):
    """One matrix has rank one, and one has singular values over twelve orders of magnitude."""
    rng = np.random.default_rng(2)
    u = np.linalg.qr(rng.standard_normal((16, 16)))[0]
    v = np.linalg.qr(rng.standard_normal((columns, 16)))[0]
    for sizes in (np.eye(16)[0], np.logspace(0, -12, 16), np.logspace(0, -3, 16), np.zeros(16)):
        matrix = torch.from_numpy(u * sizes @ v.T).float()
        found = orthogonalized(matrix[None], product_dtype)[0]
        assert torch.isfinite(found).all()
        assert torch.linalg.matrix_norm(found, 2) < 1.3


@pytest.mark.parametrize("product_dtype", [None, torch.bfloat16])
@pytest.mark.parametrize(
    ("rows", "columns", "n_blocks"), [(12, 5, 4), (12, 2, 4), (1, 7, 1), (64, 64, 1), (128, 96, 4)]
)
def test_steps_equal_the_formula(rows, columns, n_blocks, product_dtype):
    """Momentum, blocks, scale and decay are computed in float64. Products in bfloat16 change only
    the direction, by some roundings."""
    rng = np.random.default_rng(3)
    start = rng.standard_normal((rows, columns))
    weight = torch.nn.Parameter(torch.from_numpy(start.copy()))
    groups = [{"params": [weight], "n_blocks": n_blocks}]
    muon = Muon(groups, lr=0.02, weight_decay=0.1, product_dtype=product_dtype)
    expected, momentum = start.copy(), np.zeros_like(start)
    for rate in (0.02, 0.01, 0.03):
        gradient = rng.standard_normal(start.shape)
        weight.grad = torch.from_numpy(gradient.copy())
        muon.param_groups[0]["lr"] = rate
        muon.step()
        momentum = 0.95 * momentum + 0.05 * gradient
        direction = 0.05 * gradient + 0.95 * momentum
        scale = math.sqrt(rows / n_blocks / columns)
        blocks = [newton_schulz(block) for block in np.split(direction, n_blocks)]
        expected = (1 - rate * 0.1) * expected - rate * scale * np.concatenate(blocks)
    assert weight.dtype == muon.state[weight]["momentum"].dtype == torch.float64
    np.testing.assert_allclose(muon.state[weight]["momentum"].numpy(), momentum, rtol=1e-12)
    error = np.abs(weight.detach().numpy() - expected).max()
    assert error < 1e-9 if product_dtype is None else 1e-5 < error < 0.003


def test_weights_without_gradient_stay():
    weight = torch.nn.Parameter(torch.ones(4, 3))
    Muon([{"params": [weight]}], lr=0.1, weight_decay=0.1).step()
    assert torch.equal(weight.detach(), torch.ones(4, 3))


def test_muon_trains_only_matrices_of_a_bilm():
    """Gates are cut into four, projections and highways are whole; embeddings, filters and biases
    are left out."""
    bilm = tiny_module(0)
    gates, whole = (group["params"] for group in muon_groups(bilm))
    names = {id(weight): name for name, weight in bilm.named_parameters()}
    by_muon = {names[id(weight)] for weight in [*gates, *whole]}
    assert all("input_weight" in names[id(w)] or "state_weight" in names[id(w)] for w in gates)
    assert len(gates) == 2 * bilm.config.n_layers * bilm.config.n_directions
    rest = set(names.values()) - by_muon
    assert all(part.endswith("bias") or "embedding" in part or "conv" in part for part in rest)
    assert {len(weight.shape) for weight in [*gates, *whole]} == {2}
