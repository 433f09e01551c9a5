"""Muon: an optimizer for weight matrices that makes the momentum orthogonal.

Adam scales every number of a gradient by itself. Muon treats a gradient as a matrix and sets all
its singular values to about 1, so that an update changes all directions equally. Five Newton-Schulz
steps do this with matrix products only, which are faster than a singular value decomposition. The
four gates of an LSTM are four matrices. All other weights are left to Adam (`muon_groups`).
"""

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Optional

import torch
from torch import Tensor, nn

from ..bilm.char_cnn import CharacterCNN, Highway
from ..bilm.connection import HighwayConnection
from ..bilm.lstm import ProjectedLSTM

MOMENTUM = 0.95
N_ITERATIONS = 5
# The quintic a x + b x^3 + c x^5 moves every singular value near 1 (Jordan et al. 2024).
COEFFICIENTS = (3.4445, -4.7750, 2.0315)


class Muon(torch.optim.Optimizer):
    """Optimizer of Jordan et al. (2024) for weight matrices.

    For a matrix G of gradients, with Nesterov's momentum,

        M = 0.95 M + 0.05 G,    W = (1 - rate * decay) W - rate * sqrt(rows / columns) * NS(N)

    with N = 0.05 G + 0.95 M. NS are five Newton-Schulz steps, which give about the nearest matrix
    with orthonormal rows or columns. A weight may contain several matrices one below the other,
    such as the four gates of an LSTM. Matrices of one shape share batched products.

    groups (List[dict]): `params`, two-dimensional weights, and `n_blocks`, the number of
        matrices in each.
    lr (float): The learning rate.
    weight_decay (float): Share of the weights that a step at rate 1 takes away. It bounds the
        weights, so that steps of a constant rate keep their relative size.
    product_dtype (Optional[torch.dtype]): Type of the products in the Newton-Schulz steps;
        default: the weights' type. Momentum and updates always have the weights' type.
    """

    def __init__(
        self,
        groups: list[dict[str, Any]],
        *,
        lr: float,
        weight_decay: float,
        product_dtype: Optional[torch.dtype] = None,
    ):
        super().__init__(groups, {"lr": lr, "n_blocks": 1, "weight_decay": weight_decay})
        self.product_dtype = product_dtype

    @torch.no_grad()
    def step(self, closure: Optional[Any] = None) -> None:  # type: ignore[override]
        """Update the weights that have a gradient."""
        by_shape: dict[torch.Size, list[tuple[Tensor, Tensor, float]]] = defaultdict(list)
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    for entry in self._blocks(weight, group):
                        by_shape[entry[0].shape].append(entry)
        for entries in by_shape.values():
            directions = torch.stack([direction for _, direction, _ in entries])
            steps = orthogonalized(directions, self.product_dtype)
            for (block, _, rate), step in zip(entries, steps):
                block.sub_(step, alpha=rate)

    def _blocks(
        self, weight: Tensor, group: dict[str, Any]
    ) -> Iterator[tuple[Tensor, Tensor, float]]:
        """Decay a weight, and yield its matrices, their directions and their rates.

        The matrices are transposed if they have more rows than columns.
        """
        weight.mul_(1.0 - group["lr"] * group["weight_decay"])
        n_blocks = group["n_blocks"]
        directions = self._with_momentum(weight).chunk(n_blocks)
        for block, direction in zip(weight.chunk(n_blocks), directions):
            rows, columns = block.shape
            rate = group["lr"] * math.sqrt(rows / columns)
            if rows > columns:
                block, direction = block.t(), direction.t()
            yield block, direction, rate

    def _with_momentum(self, weight: Tensor) -> Tensor:
        state = self.state[weight]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(weight)
        assert weight.grad is not None
        momentum = state["momentum"].lerp_(weight.grad, 1.0 - MOMENTUM)
        return weight.grad.lerp(momentum, MOMENTUM)


def orthogonalized(matrices: Tensor, product_dtype: Optional[torch.dtype] = None) -> Tensor:
    """Run five Newton-Schulz steps on matrices, after scaling them to norm 1.

    A step is X = a X + (b A + c A^2) X with A = X X^T.

    matrices (Tensor): *Shape:* `(n, rows, columns)`, no more rows than columns.
    product_dtype (Optional[torch.dtype]): Type of the products; default: the matrices' type.
    RETURNS (Tensor): Matrices with the same singular vectors, shape and type. All singular
        values except the smallest are between about 0.7 and 1.2.
    """
    scaled = matrices / (torch.linalg.matrix_norm(matrices, keepdim=True) + 1e-7)
    _, rows, columns = matrices.shape
    if product_dtype is not None and product_dtype != matrices.dtype:
        return _step_by_step(scaled.to(product_dtype)).to(matrices.dtype)
    # Multiplications: 10 r^2 c + 5 r^3 step by step, 2 r^2 c + 17 r^3 by factors.
    return _step_by_step(scaled) if 2 * columns < 3 * rows else _by_factors(scaled)


def _step_by_step(matrices: Tensor) -> Tensor:
    """Run the iteration as it is published."""
    a, b, c = COEFFICIENTS
    for _ in range(N_ITERATIONS):
        gram = torch.bmm(matrices, matrices.mT)
        factor = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        matrices = torch.baddbmm(matrices, factor, matrices, beta=a)
    return matrices


def _by_factors(matrices: Tensor) -> Tensor:
    """Run the iteration for wide matrices, with two products of the long side instead of ten.

    Every step's factor is a polynomial of the first A. So all factors commute, and the next A is
    the factor's square times this one. It does not work in lower precision: a rounded A has
    negative eigenvalues, and the steps drive them away from 1.
    """
    a, b, c = COEFFICIENTS
    gram = torch.bmm(matrices, matrices.mT)
    product: Optional[Tensor] = None
    for i in range(N_ITERATIONS):
        factor = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        factor.diagonal(dim1=1, dim2=2).add_(a)
        product = factor if product is None else torch.bmm(factor, product)
        if i + 1 < N_ITERATIONS:
            gram = torch.bmm(factor, torch.bmm(factor, gram))
    assert product is not None
    return torch.bmm(product, matrices)


def muon_groups(bilm: nn.Module) -> list[dict[str, Any]]:
    """Return the matrices that Muon trains.

    These are the input and state weights of the LSTMs (a matrix for each gate), projections and
    highways. Adam trains embeddings, filters and biases.

    bilm (BiLM): The layers.
    RETURNS (List[dict]): The `groups` of `Muon`.
    """
    gates: list[Tensor] = []
    whole: list[Tensor] = []
    for module in bilm.modules():
        if isinstance(module, ProjectedLSTM):
            gates += [module.input_weight, module.state_weight]
            whole += [] if module.projection is None else [module.projection]
        elif isinstance(module, Highway):
            whole += [module.gate.weight, module.nonlinear.weight]
        elif isinstance(module, HighwayConnection):
            whole.append(module.gate.weight)
        elif isinstance(module, CharacterCNN) and module.projection is not None:
            whole.append(module.projection.weight)
    return [{"params": gates, "n_blocks": 4}, {"params": whole, "n_blocks": 1}]
