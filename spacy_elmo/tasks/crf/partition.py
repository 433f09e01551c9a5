"""Partition function and loss of a linear-chain CRF, in PyTorch (Lafferty et al. 2001).

A recursion over the tokens computes the partition function. Each step computes
`log(exp(values) @ exp(matrix))` from the values of the step before and the matrix of transition
scores. We subtract the largest value first, so that one matrix product is enough. The loss needs
two partition functions, and one recursion computes both, because the number of steps decides about
the time. So the gradient can come from autograd: our own backward pass, with two recursions, saved
at most 5 % of the time of an update of `project/configs/training/crf_elmo.cfg`.
"""

from collections.abc import Sequence
from typing import Optional

import numpy as np
import torch
from thinc.api import torch2xp, xp2torch
from torch import Tensor

from ...model.packing import pack
from ..shared.bio import BIOTags
from .model import CRF_PARAMS, Chains

# If scores are further apart, a product of their exponentials can underflow.
MAX_SPREAD = 600.0
IMPOSSIBLE = -1e30  # In place of minus infinity, which has no gradient.


def sequence_loss(
    chains: Chains, tags: BIOTags, allowed: Sequence[Optional[np.ndarray]]
) -> tuple[float, Chains]:
    """Compute the loss `log Z - log Z_gold` of a CRF, and its gradient, in float64.

    Z is the sum of exp(score) over all valid sequences of tags. Z_gold is the sum over the
    sequences that agree with the annotation. The gradient is the difference between the expected
    counts of tags in both sets.

    chains (Chains): The scores, with at least one token.
    allowed (Sequence[Optional[numpy.ndarray]]): For each Doc, True at the tags that agree with the
        annotation; None if all tags do. *Shape:* `(n_tokens, n_tags)` each
    RETURNS (Tuple[float, Chains]): The loss, summed over the Docs, and its gradient.
    """
    arrays = [*(getattr(chains, name) for name in CRF_PARAMS), *chains.scores]
    # Apple's GPU has no float64, but its arrays are NumPy's.
    device = "cpu" if isinstance(chains.start, np.ndarray) else None
    leaves = [xp2torch(values, device=device).double().requires_grad_() for values in arrays]
    params, scores = leaves[: len(CRF_PARAMS)], leaves[len(CRF_PARAMS) :]
    valid = [x + x.new_tensor(getattr(tags, name)) for x, name in zip(params, CRF_PARAMS)]
    right = [
        x if one is None else x.masked_fill(x.new_tensor(~one, dtype=torch.bool), -torch.inf)
        for x, one in zip(scores, allowed)
    ]
    log_z, log_z_gold = log_partition([*scores, *right], *valid).chunk(2)
    loss = (log_z - log_z_gold).sum()
    gradients = [*map(torch2xp, torch.autograd.grad(loss, leaves, materialize_grads=True))]
    return loss.item(), Chains(gradients[len(CRF_PARAMS) :], *gradients[: len(CRF_PARAMS)])


def log_partition(
    scores: Sequence[Tensor], transitions: Tensor, start: Tensor, end: Tensor
) -> Tensor:
    """Compute the log partition function of a CRF, the log sum of exp(score) over all sequences.

    The arguments are the fields of `Chains`, in float64. Minus infinity excludes a tag or a
    transition. At least one sequence of tags must be possible.

    RETURNS (Tensor): The logarithm for each Doc that has tokens. *Shape:* `(n_docs,)`
    """
    order = pack([len(values) for values in scores if len(values)])
    rows = torch.from_numpy(order.positions[0]).to(start.device)
    first, *steps = torch.cat(list(scores))[rows].split(order.batch_sizes)
    each = torch.cat(list(scores)), start, transitions, transitions
    is_wide = sum(map(_spread, each)) > MAX_SPREAD
    largest = transitions.detach().max()
    factors = (transitions - largest).exp()
    # For each Doc and tag: the log sum of exp(score) over all sequences of tags that end there.
    values, ended = start + first, []
    for step in steps:
        ended.append(values[len(step) :])
        values = values[: len(step)]
        if is_wide:
            values = values.clamp(min=IMPOSSIBLE)[:, :, None] + transitions.clamp(min=IMPOSSIBLE)
            values = values.logsumexp(dim=1) + step
            continue
        highest = values.detach().amax(dim=1, keepdim=True)
        sums = ((values - highest).exp() @ factors).clamp(min=torch.finfo(step.dtype).tiny)
        values = sums.log() + (highest + largest) + step
    last = torch.cat([values, *ended[::-1]]) + end
    return last.logsumexp(dim=1)[np.argsort(order.order)]


def _spread(values: Tensor) -> float:
    """Return the difference between the largest and the smallest finite value."""
    finite = values.detach()[values.isfinite()]
    return float(finite.max() - finite.min()) if len(finite) else 0.0
