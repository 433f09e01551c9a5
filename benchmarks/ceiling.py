"""Speed of the fastest matrix products of PyTorch on this machine."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from spacy_elmo.model.config import BiLMConfig

SQUARES = (1024, 2048)
LEAST_CALLS = 3


@dataclass(frozen=True)
class Ceiling:
    """Highest speed, and the matrix product that reached it.

    gflops (float): 10^9 operations per second.
    product (str): Sizes and kernel of the product.
    """

    gflops: float
    product: str


def shapes(sizes: BiLMConfig, tokens: int, batch_size: int, negatives: int) -> list[tuple]:
    """Return the sizes `(m, k, n)` of products to measure.

    These are square products, and the products of a training step: gates of a window, gates of a
    time step, gradient of their weights, softmax.
    """
    width, gates = sizes.projection_dim, 4 * sizes.lstm_dim
    own = [
        (tokens, width, gates),
        (batch_size, width, gates),
        (gates, tokens, width),
        (tokens, width, negatives),
    ]
    return [(size, size, size) for size in SQUARES] + own


def measure(wanted: list[tuple], dtype: torch.dtype, seconds: float) -> Ceiling:
    """Time every product with every kernel, and return the fastest call.

    wanted (List[tuple]): Sizes of the products, `(m, k, n)`.
    dtype (torch.dtype): Dtype of both factors.
    seconds (float): Time for all products together.
    RETURNS (Ceiling): The highest speed.
    """
    best = Ceiling(0.0, "none")
    budget = seconds / len(wanted) / 2
    for m, k, n in wanted:
        left, right = torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype)
        for kernel, call in _kernels(left, right).items():
            gflops = 2e-9 * m * k * n / _fastest(call, budget)
            if gflops > best.gflops:
                best = Ceiling(gflops, f"{m} x {k} x {n}, {kernel}")
    return best


def _kernels(left: torch.Tensor, right: torch.Tensor) -> dict[str, Callable[[], object]]:
    """Return calls of `torch.mm` and, if available, of oneDNN with a prepacked factor."""
    out = torch.empty(left.shape[0], right.shape[1], dtype=left.dtype)
    kernels: dict[str, Callable[[], object]] = {"mm": lambda: torch.mm(left, right, out=out)}
    try:
        packed = torch.ops.mkldnn._reorder_linear_weight(right.t().contiguous(), left.shape[0])
        product = torch.ops.mkldnn._linear_pointwise
        product(left, packed, None, "none", [], "")
    except (AttributeError, NotImplementedError, RuntimeError):
        return kernels
    kernels["prepacked"] = lambda: product(left, packed, None, "none", [], "")
    return kernels


def _fastest(call: Callable[[], object], seconds: float) -> float:
    call()
    fastest, n_calls, started = float("inf"), 0, time.perf_counter()
    while n_calls < LEAST_CALLS or time.perf_counter() - started < seconds:
        before = time.perf_counter()
        call()
        fastest = min(fastest, time.perf_counter() - before)
        n_calls += 1
    return fastest
