"""The distribution of a linear-chain CRF over sequences of tags."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from thinc.types import Floats1d, Floats2d

from ..bilm.packing import pack
from .bio import BIOTags

LARGEST = 700.0  # whose exponential is a number
PARAMS = ("transitions", "start", "end")


@dataclass(frozen=True)
class Chains:
    """The scores of the tags of some sequences, or their gradient. Those of tags `y` are
    `start[y_1] + sum_t scores[t, y_t] + sum_t transitions[y_t-1, y_t] + end[y_n]`.

    scores (Sequence[Floats2d]): Of each tag at each token. *Shape:* `(n_tokens, n_tags)` each
    transitions (Floats2d): From each tag to each. *Shape:* `(n_tags, n_tags)`
    start (Floats1d): Of each tag at the first token. *Shape:* `(n_tags,)`
    end (Floats1d): Of each tag at the last token. *Shape:* `(n_tags,)`
    """

    scores: Sequence[Floats2d]
    transitions: Floats2d
    start: Floats1d
    end: Floats1d

    def constrained(self, tags: BIOTags, xp: Any = np) -> "Chains":
        """RETURNS (Chains): The same, minus infinity where the tags' order is not valid."""
        found = {name: getattr(self, name) + xp.asarray(getattr(tags, name)) for name in PARAMS}
        return replace(self, **found)

    def restricted(self, allowed: Sequence[np.ndarray], xp: Any = np) -> "Chains":
        """RETURNS (Chains): The same, minus infinity at the tags that are not allowed,
        `(n_tokens, n_tags)` each."""
        pairs = zip(self.scores, allowed)
        return replace(self, scores=[xp.where(xp.asarray(a), s, -np.inf) for s, a in pairs])


def log_partition(chains: Chains, xp: Any = np) -> tuple[float, Chains]:
    """Find the logarithm of the sum, over all sequences of tags, of the exponential of their
    score, by the forward and the backward recursion (Lafferty et al. 2001), in float64.

    chains (Chains): The scores, where minus infinity excludes a tag or a transition. Some
        sequence of tags must be left.
    xp (module): numpy or cupy.
    RETURNS (Tuple[float, Chains]): The sum of the logarithms over the sequences, and its
        gradient: the expected number of times that each score is used, which at a token are
        the marginal probabilities of its tags.
    """
    lengths = [len(values) for values in chains.scores]
    order = pack([n for n in lengths if n])
    if not order.n_items:
        return 0.0, Chains(chains.scores, *(xp.zeros_like(getattr(chains, n)) for n in PARAMS))
    rows = xp.asarray(order.positions[0])
    packed = xp.concatenate(chains.scores)[rows].astype("float64")
    sizes = order.batch_sizes
    steps = xp.split(packed, np.cumsum(sizes)[:-1].tolist())
    transitions, start, end = (getattr(chains, name).astype("float64") for name in PARAMS)
    with np.errstate(divide="ignore"):  # log(0) is minus infinity
        prefixes = _forward(steps, transitions, start, xp)
        suffixes = _backward(steps, transitions, end, xp)
    totals = _log_sum(prefixes[0] + suffixes[0], xp)
    tags = xp.concatenate(
        [xp.exp(one + other - totals[: len(one), None]) for one, other in zip(prefixes, suffixes)]
    )
    following = [values + scores for values, scores in zip(suffixes, steps)][1:]
    unpacked = xp.empty_like(packed)
    unpacked[rows] = tags
    lasts = np.cumsum(lengths)[np.asarray(lengths) > 0] - 1
    firsts = np.cumsum([0, *lengths])[:-1][np.asarray(lengths) > 0]
    return float(totals.sum()), Chains(
        scores=xp.split(unpacked, np.cumsum(lengths)[:-1].tolist()),
        transitions=_expected_transitions(prefixes, following, transitions, totals, xp),
        start=unpacked[xp.asarray(firsts)].sum(axis=0),
        end=unpacked[xp.asarray(lasts)].sum(axis=0),
    )


def _forward(steps: list, transitions: Any, start: Any, xp: Any) -> list:
    """Of each step the log sums of what ends in each tag there, its own score included."""
    found = [start + steps[0]]
    for scores in steps[1:]:
        found.append(_log_product(found[-1][: len(scores)], transitions, xp) + scores)
    return found


def _backward(steps: list, transitions: Any, end: Any, xp: Any) -> list:
    """Of each step the log sums of what follows each tag there."""
    found = [xp.tile(end, (len(steps[-1]), 1))]
    for scores, before in zip(steps[:0:-1], steps[-2::-1]):
        after = xp.tile(end, (len(before), 1))
        after[: len(scores)] = _log_product(found[-1] + scores, transitions.T, xp)
        found.append(after)
    return found[::-1]


def _log_product(values: Any, matrix: Any, xp: Any) -> Any:
    """`log(exp(values) @ exp(matrix))`, by one product: the largest value of a row and the
    largest of the matrix are taken out first."""
    largest, most = values.max(axis=1, keepdims=True), matrix.max()
    return xp.log(xp.exp(values - largest) @ xp.exp(matrix - most)) + largest + most


def _log_sum(values: Any, xp: Any) -> Any:
    largest = values.max(axis=1)
    return xp.log(xp.exp(values - largest[:, None]).sum(axis=1)) + largest


def _expected_transitions(
    prefixes: list, following: list, transitions: Any, totals: Any, xp: Any
) -> Any:
    """How often each transition is used, by one product for all tokens.

    following (list): Of each step but the first, the log sums of what begins with each tag.
    """
    if not following:
        return xp.zeros_like(transitions)
    sizes = [len(values) for values in following]
    before = xp.concatenate([values[:n] for values, n in zip(prefixes, sizes)])
    after = xp.concatenate(following)
    total = xp.concatenate([totals[:n] for n in sizes])
    one, other = before.max(axis=1), after.max(axis=1)
    # Large only where the two best tags exclude each other, and then it multiplies zeros.
    scale = xp.exp(xp.minimum(one + other - total, LARGEST))
    weighted = xp.exp(before - one[:, None]) * scale[:, None]
    return xp.exp(transitions) * (weighted.T @ xp.exp(after - other[:, None]))
