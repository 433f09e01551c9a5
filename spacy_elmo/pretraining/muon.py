"""Muon: an optimizer for weight matrices that makes each update nearly orthogonal.

Adam scales each element of a gradient separately. Muon treats the gradient as a matrix and sets all
its singular values to about 1, so that an update changes all directions equally. A singular value
decomposition would be exact but slow. Five Newton-Schulz steps are near enough, and consist only of
matrix products. The input weight of an LSTM contains four matrices, one per gate, and so does the
state weight. `muon_groups` returns all matrices that Muon trains. Adam trains all other weights.

For wide matrices in float32, the five steps are reordered so that two products, not ten, contain
the wide matrix (`_by_factors`). In lower precision this diverges, so the published order is used.
"""

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Optional

import torch
from torch import Tensor, nn

from ..bilm.lstm import HighwayConnection, ProjectedLSTM
from ..bilm.token_encoder import CharacterCNN, Highway

MOMENTUM = 0.95
N_ITERATIONS = 5
# The quintic a x + b x^3 + c x^5 moves every singular value near 1 (Jordan et al. 2024).
COEFFICIENTS = (3.4445, -4.7750, 2.0315)


class Muon(torch.optim.Optimizer):
    """Muon, the optimizer of Jordan et al. (2024) for weight matrices.

    For a matrix G of gradients, with Nesterov's momentum,

        M = 0.95 M + 0.05 G,    W = (1 - rate * decay) W - rate * sqrt(rows / columns) * NS(N)

    with N = 0.05 G + 0.95 M. NS(N) is the result of five Newton-Schulz steps. It is close to the
    matrix with orthonormal rows or columns that is nearest to N. A weight can contain several
    matrices, one below the other, such as the four gates of an LSTM. Matrices of the same shape
    are updated together, as one batch.

    groups (List[dict]): Dicts with `params`, a list of two-dimensional weights, and `n_blocks`, the
        number of matrices in each weight.
    lr (float): The learning rate, `rate` in the formula.
    weight_decay (float): The factor `decay` in the formula. Without decay the weights grow, so that
        updates at a constant rate change them less and less.
    product_dtype (Optional[torch.dtype]): Dtype of the products in the Newton-Schulz steps.
        Default: the dtype of the weights. Momentum and updates always have the weights' dtype.
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
        """Apply the weight decay to a weight, and yield its matrices one by one.

        YIELDS (Tuple[Tensor, Tensor, float]): View of the matrix, its N, and `rate * sqrt(rows /
            columns)`, see `Muon`. Matrices with more rows than columns are transposed.
        """
        weight.mul_(1.0 - group["lr"] * group["weight_decay"])
        n_blocks = group["n_blocks"]
        assert weight.grad is not None
        if "momentum" not in self.state[weight]:
            self.state[weight]["momentum"] = torch.zeros_like(weight)
        momentum = self.state[weight]["momentum"]
        momentum.lerp_(weight.grad, 1.0 - MOMENTUM)
        directions = weight.grad.lerp(momentum, MOMENTUM).chunk(n_blocks)
        for block, direction in zip(weight.chunk(n_blocks), directions):
            rows, columns = block.shape
            rate = group["lr"] * math.sqrt(rows / columns)
            if rows > columns:
                block, direction = block.t(), direction.t()
            yield block, direction, rate


def orthogonalized(matrices: Tensor, product_dtype: Optional[torch.dtype] = None) -> Tensor:
    """Make matrices nearly orthogonal: scale them to norm 1, and run five Newton-Schulz steps.

    A step is X = a X + (b A + c A^2) X with A = X X^T.

    matrices (Tensor): *Shape:* `(n, rows, columns)`. `rows` must not be more than `columns`.
    product_dtype (Optional[torch.dtype]): Dtype of the products. Default: the dtype of `matrices`.
    RETURNS (Tensor): Matrices with the same singular vectors, shape and dtype. Their singular
        values are between about 0.7 and 1.2, except values that were very small.
    """
    scaled = matrices / (torch.linalg.matrix_norm(matrices, keepdim=True) + 1e-7)
    _, rows, columns = matrices.shape
    if product_dtype is not None and product_dtype != matrices.dtype:
        return _step_by_step(scaled.to(product_dtype)).to(matrices.dtype)
    # With r rows and c columns, `_step_by_step` needs 10 r^2 c + 5 r^3 multiplications, and
    # `_by_factors` needs 2 r^2 c + 17 r^3.
    return _step_by_step(scaled) if 2 * columns < 3 * rows else _by_factors(scaled)


def _step_by_step(matrices: Tensor) -> Tensor:
    """Run the Newton-Schulz steps as published."""
    a, b, c = COEFFICIENTS
    for _ in range(N_ITERATIONS):
        gram = torch.bmm(matrices, matrices.mT)
        factor = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        matrices = torch.baddbmm(matrices, factor, matrices, beta=a)
    return matrices


def _by_factors(matrices: Tensor) -> Tensor:
    """Run the Newton-Schulz steps for wide matrices, with only two products of the wide matrix.

    A step multiplies X by the factor F = a + b A + c A^2, where A = X X^T. All factors are
    polynomials of the first A, so they commute, and the next A is F^2 A. Therefore only the first A
    and the last product need X: two products of the wide matrix instead of ten.

    This does not work in lower precision: a rounded A has negative eigenvalues, and the steps move
    them away from 1.
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
    """Return those weights of a biLM that Muon trains.

    These are the input and state weights of the LSTMs (one matrix per gate), the projections and
    the highways. Adam trains the embeddings, filters and biases.

    bilm (BiLM): The biLM.
    RETURNS (List[dict]): The argument `groups` of `Muon`.
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
