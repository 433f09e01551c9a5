"""LSTM with highway connections, an encoder for any tok2vec."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Optional

import numpy as np
from thinc.api import Model, chain, torch2xp, xp2torch
from thinc.types import Floats2d
from thinc.util import get_width

from ...model.packing import pack
from ...model.threads import limit_threads_after_fork
from ...registry import registry
from . import Encoder, Vectors, check_even, check_rate, check_sizes
from .torch_module import require_torch

if TYPE_CHECKING:
    from torch import Tensor


READING_ORDERS = ("alternating", "bidirectional")
# The weights U and b have a block for each of i, f, o, r and g. W has one more block, W_h.
N_STATE_BLOCKS, N_INPUT_BLOCKS = 5, 6
LSTM_PARAMS = ("W", "U", "b")  # Each has one array per direction.


@registry.architectures("spacy-elmo.HighwayLSTM.v1")
def build_highway_lstm(
    width: int, depth: int = 2, directions: str = "alternating", dropout: float = 0.1
) -> Encoder:
    """Build LSTM layers with highway connections (He et al. 2017, section 2.2).

    Use them as `encode` of `spacy.Tok2Vec.v2` or of `spacy-elmo.SRL.v1`. A layer computes::

        [i; f; o; r] = sigmoid(W x_t + U h_{t-1} + b)
        g = tanh(W_g x_t + U_g h_{t-1} + b_g)
        c_t = i * g + f * c_{t-1}
        h_t = r * (o * tanh(c_t)) + (1 - r) * W_h x_t

    width (int): Width of the output. With "bidirectional", each direction has half.
    depth (int): Number of layers.
    directions (str): "alternating": the layers read forwards and backwards in turn.
        "bidirectional": each layer reads in both directions.
    dropout (float): Dropout rate of the hidden states. All steps of a sequence have the same mask
        (Gal and Ghahramani 2016).
    RETURNS (Model[List[Floats2d], List[Floats2d]]): *Shape:* `(n_tokens, width)` per sequence
    RAISES (ValueError): A value is out of range.
    """
    if directions not in READING_ORDERS:
        orders = " or ".join(map(repr, READING_ORDERS))
        raise ValueError(f"HighwayLSTM: directions must be {orders}, got {directions!r}")
    both = directions == "bidirectional"
    if both:
        check_even("HighwayLSTM", width)
    check_sizes("HighwayLSTM", width=width, depth=depth)
    check_rate("HighwayLSTM", dropout)
    require_torch()
    dims, params = {"nO": width, "nI": None}, dict.fromkeys(LSTM_PARAMS)
    layers: list[Encoder] = []
    for i in range(depth):
        attrs = {"directions": [0, 1] if both else [i % 2], "dropout": dropout}
        layer = Model("highway_lstm", forward, init=init, dims=dims, params=params, attrs=attrs)
        layers.append(layer)
    return layers[0] if depth == 1 else chain(*layers)


def forward(model: Encoder, X: Sequence[Floats2d], is_train: bool) -> tuple[Vectors, Callable]:
    """Run one layer on each sequence, in its one or two directions."""
    import torch
    from torch.nn.functional import dropout

    limit_threads_after_fork()
    ops = model.ops
    order = pack([len(x) for x in X if len(x)])
    if not order.n_items:
        return [ops.alloc2f(0, model.get_dim("nO")) for _ in X], lambda dY: list(X)
    lengths = ops.asarray1i([len(x) for x in X])
    inputs = xp2torch(ops.xp.concatenate(X), requires_grad=is_train)
    params = {name: xp2torch(model.get_param(name), requires_grad=is_train) for name in LSTM_PARAMS}
    inverse = order.inverse()
    with torch.set_grad_enabled(is_train):
        found = []
        for direction, W, U, b in zip(model.attrs["directions"], *params.values()):
            ones = U.new_ones(order.batch_sizes[0], U.shape[1])
            mask = dropout(ones, model.attrs["dropout"]) if is_train else None
            packed = inputs[torch.from_numpy(order.positions[direction])]
            hidden = run_steps(packed, (W, U, b), order.batch_sizes, mask)
            found.append(hidden[torch.from_numpy(inverse[direction])])
        outputs = torch.cat(found, dim=1)

    def backprop(dY: Vectors) -> Vectors:
        outputs.backward(xp2torch(ops.xp.concatenate(dY)))
        for name, param in params.items():
            model.inc_grad(name, torch2xp(param.grad))
        return ops.unflatten(torch2xp(inputs.grad), lengths)

    return ops.unflatten(torch2xp(outputs), lengths), backprop


def run_steps(
    inputs: "Tensor", params: "Sequence[Tensor]", batch_sizes: list[int], mask: Optional["Tensor"]
) -> "Tensor":
    """Run one direction over packed sequences, the longest first.

    Step t computes `batch_sizes[t]` rows, one for each sequence with more than t tokens. The result
    has the hidden states, `(n, nO)`, packed like the inputs.

    inputs (Tensor): The rows of all steps. *Shape:* `(n, nI)`
    params (Sequence[Tensor]): W with the blocks i, f, o, r, g and W_h, `(6 nO, nI)`; U with the
        blocks i, f, o, r and g, `(5 nO, nO)`; b with the same blocks as U, `(5 nO,)`.
    batch_sizes (List[int]): Number of rows of each step, in descending order.
    mask (Optional[Tensor]): Dropout mask of the hidden states. *Shape:* `(batch_sizes[0], nO)`
    """
    import torch

    W, U, b = params
    nO = U.shape[1]
    all_gates = torch.addmm(b, inputs, W[: 5 * nO].t()).split(batch_sizes)
    carried = torch.mm(inputs, W[5 * nO :].t()).split(batch_sizes)
    hidden = cell = inputs.new_zeros(batch_sizes[0], nO)
    outputs = []
    for size, gates_of_input, carry in zip(batch_sizes, all_gates, carried):
        gates = torch.addmm(gates_of_input, hidden[:size], U.t())
        i, f, o, r = gates[:, : 4 * nO].sigmoid().chunk(4, dim=1)
        cell = i * gates[:, 4 * nO :].tanh() + f * cell[:size]
        hidden = torch.lerp(carry, o * cell.tanh(), r)
        if mask is not None:
            hidden = hidden * mask[:size]
        outputs.append(hidden)
    return torch.cat(outputs)


def init(model: Encoder, X: Optional[Vectors] = None, Y: Optional[Vectors] = None) -> None:
    """Initialize weights with orthonormal blocks, and biases with 0, or 1 for forget gates."""
    if X is not None and model.has_dim("nI") is None:
        model.set_dim("nI", get_width(X))
    n_directions = len(model.attrs["directions"])
    nO, nI = model.get_dim("nO") // n_directions, model.get_dim("nI")
    bias = np.zeros((n_directions, N_STATE_BLOCKS, nO), dtype="float32")
    bias[:, 1] = 1.0
    W = [orthonormal_blocks(N_INPUT_BLOCKS, nO, nI) for _ in range(n_directions)]
    U = [orthonormal_blocks(N_STATE_BLOCKS, nO, nO) for _ in range(n_directions)]
    for name, values in zip(LSTM_PARAMS, (W, U, bias.reshape(n_directions, -1))):
        model.set_param(name, model.ops.asarray(values, dtype="float32"))


def orthonormal_blocks(n_blocks: int, nO: int, nI: int) -> np.ndarray:
    """Make `n_blocks` random matrices with orthonormal rows, stacked in one (Saxe et al. 2014).

    If `nO > nI`, the columns are orthonormal instead. *Shape:* `(n_blocks * nO, nI)`
    """
    blocks = []
    for _ in range(n_blocks):
        q, r = np.linalg.qr(np.random.normal(size=(max(nO, nI), min(nO, nI))))
        q *= np.sign(np.diag(r))  # Without the signs, the distribution is not uniform.
        blocks.append(q if nO >= nI else q.T)
    return np.concatenate(blocks)
