"""Model of `elmo_crf`: scores of tags, and the partition function of a linear-chain CRF.

A recursion over the tokens computes the partition function. Each step computes
`log(exp(values) @ exp(matrix))` from the values of the step before and the matrix of transition
scores. We subtract the largest value first, so that one matrix product is enough. If the product
would underflow because the values are too far apart, `log_sum_exp` computes the step. The gradient
has its own code, because PyTorch's autograd takes twice as long.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Optional, TypeAlias

import numpy as np
from spacy.tokens import Doc
from thinc.api import Dropout, Linear, Model, chain, with_array
from thinc.types import Floats1d, Floats2d

from ...frozen.packing import pack
from ...registry import registry
from ..shared import Tok2Vec, log_sum_exp
from ..shared.bio import BIOTags

SAFE = 600.0  # In float64, exp(600) does not overflow, and exp(-600) is not 0.
CRF_PARAMS = ("transitions", "start", "end")


@dataclass(frozen=True)
class Chains:
    """Scores of a CRF for the tokens of several Docs, or the gradient of such scores.

    The score of a sequence of tags `y` for a Doc is
    `start[y_1] + sum_t scores[t, y_t] + sum_t transitions[y_t-1, y_t] + end[y_n]`.

    scores (Sequence[Floats2d]): Scores of tags at tokens. *Shape:* `(n_tokens, n_tags)` each
    transitions (Floats2d): Scores from each tag to each tag. *Shape:* `(n_tags, n_tags)`
    start (Floats1d): Scores of tags at the first token. *Shape:* `(n_tags,)`
    end (Floats1d): Scores of tags at the last token. *Shape:* `(n_tags,)`
    """

    scores: Sequence[Floats2d]
    transitions: Floats2d
    start: Floats1d
    end: Floats1d

    def constrained(self, tags: BIOTags, xp: Any = np) -> "Chains":
        """Return a copy with minus infinity at invalid transitions, first tags and last tags."""
        found = {name: getattr(self, name) + xp.asarray(getattr(tags, name)) for name in CRF_PARAMS}
        return replace(self, **found)

    def restricted(self, allowed: Sequence[np.ndarray], xp: Any = np) -> "Chains":
        """Return a copy with minus infinity at tags that are not allowed.

        allowed (Sequence[numpy.ndarray]): True at allowed tags. *Shape:* `(n_tokens, n_tags)` each
        """
        pairs = zip(self.scores, allowed)
        return replace(self, scores=[xp.where(xp.asarray(a), s, -np.inf) for s, a in pairs])


def log_partition(chains: Chains, xp: Any = np) -> tuple[float, Chains]:
    """Compute the log partition function of a CRF and its gradient (Lafferty et al. 2001).

    The partition function is the sum of exp(score) over all possible sequences of tags. It is
    computed in float64.

    chains (Chains): The scores. Minus infinity excludes a tag or a transition. At least one
        sequence of tags must be possible.
    xp (module): numpy or cupy.
    RETURNS (Tuple[float, Chains]): The logarithms, summed over the Docs, and the gradient. The
        gradient with respect to a score is the expected count of the score's tag or transition. For
        a tag at a token, this is the marginal probability of the tag.
    """
    lengths = [len(values) for values in chains.scores]
    order = pack([n for n in lengths if n])
    if not order.n_items:
        return 0.0, Chains(chains.scores, *(xp.zeros_like(getattr(chains, n)) for n in CRF_PARAMS))
    rows = xp.asarray(order.positions[0])
    packed = xp.concatenate(chains.scores)[rows].astype("float64")
    steps = xp.split(packed, np.cumsum(order.batch_sizes)[:-1].tolist())
    matrix, start, end = (getattr(chains, name).astype("float64") for name in CRF_PARAMS)
    transitions = _Transitions(matrix, xp)
    # For each token and tag: the log sum of exp(score) over all sequences of tags that end there.
    # `reached` is without the score of this last tag, `prefixes` with it.
    reached, prefixes = [start], [start + steps[0]]
    for scores in steps[1:]:
        reached.append(transitions.reach(prefixes[-1][: len(scores)]))
        prefixes.append(reached[-1] + scores)
    total, d_end, d_matrix = 0.0, xp.zeros_like(end), xp.zeros_like(matrix)
    tags = [packed[:0]]
    for step in reversed(range(len(steps))):
        n_continued = len(tags[-1])
        last = prefixes[step][n_continued:] + end
        sums = log_sum_exp(last, axis=1)
        total += float(sums.sum())
        found = xp.exp(last - sums)
        d_end += found.sum(axis=0)
        if n_continued:
            continued = prefixes[step][:n_continued]
            before, pairs = transitions.leave(continued, reached[step + 1], tags[-1])
            # Normalize, because rounding errors add up in long sequences.
            before /= before.sum(axis=1, keepdims=True)
            found = xp.concatenate([before, found])
            d_matrix += pairs
        tags.append(found)
    unpacked = xp.empty_like(packed)
    unpacked[rows] = xp.concatenate(tags[::-1])
    d_scores = xp.split(unpacked, np.cumsum(lengths)[:-1].tolist())
    return total, Chains(d_scores, d_matrix, tags[-1].sum(axis=0), d_end)


class _Transitions:
    """Transition scores of a CRF, with the forward and the backward step of the recursion.

    matrix (Floats2d): The scores. exp(scores) is computed once. *Shape:* `(n_tags, n_tags)`
    xp (module): numpy or cupy.
    """

    def __init__(self, matrix: Any, xp: Any):
        self.matrix, self.xp = matrix, xp
        self.largest = matrix.max()
        self.spread = self.largest - xp.where(xp.isneginf(matrix), self.largest, matrix).min()
        self.values = xp.exp(matrix - self.largest)

    def _is_wide(self, values: Any, largest: Any) -> bool:
        """Return whether `exp(value - largest)` may underflow to 0 for some finite value."""
        lowest = self.xp.where(self.xp.isneginf(values), largest, values)
        return bool((largest - lowest).max() + self.spread > SAFE)

    def reach(self, values: Any) -> Any:
        """Compute one step of the recursion, `log(exp(values) @ exp(matrix))`, without overflow."""
        largest = values.max(axis=1, keepdims=True)
        if self._is_wide(values, largest):
            return log_sum_exp(values[:, :, None] + self.matrix, axis=1)[:, 0]
        with np.errstate(divide="ignore"):  # log(0) is minus infinity here.
            return self.xp.log(self.xp.exp(values - largest) @ self.values) + largest + self.largest

    def leave(self, values: Any, reached: Any, following: Any) -> tuple[Any, Any]:
        """Compute the gradient of a step of `reach`, as probabilities of tags and transitions.

        values (Floats2d): The argument of `reach`.
        reached (Floats2d): The result of `reach` for these values.
        following (Floats2d): The probabilities of the tags after the step.
        RETURNS (Tuple[Floats2d, Floats2d]): The probabilities of the tags before the step; and the
            probabilities of transitions, summed over sequences.
        """
        xp = self.xp
        largest = values.max(axis=1, keepdims=True)
        reached = xp.where(xp.isneginf(reached), largest + self.largest, reached)
        if self._is_wide(values, largest):
            pairs = xp.exp(values[:, :, None] + self.matrix - reached[:, None])
            pairs *= following[:, None]
            return pairs.sum(axis=2), pairs.sum(axis=0)
        weights = xp.exp(values - largest)
        shares = following * xp.exp(largest + self.largest - reached)
        return weights * (shares @ self.values.T), self.values * (weights.T @ shares)


CRF: TypeAlias = Model[list[Doc], Chains]


@registry.architectures("spacy-elmo.CRFTagger.v1")
def build_crf_tagger(tok2vec: Tok2Vec, nO: Optional[int] = None) -> CRF:
    """Build a model that computes the scores of a linear-chain CRF (Lafferty et al. 2001).

    A linear layer scores the tags of each token. The scores of transitions are parameters. This is
    the named entity model of Peters et al. 2018 (appendix). The vectors get dropout with the rate
    `dropout` of the training config.

    tok2vec (Model[List[Doc], List[Floats2d]]): The vectors, for example a `spacy.Tok2Vec.v2` with a
        recurrent encoder.
    nO (Optional[int]): Number of tags. The pipe sets it.
    RETURNS (Model[List[Doc], Chains]): The model.
    """
    output: Model[Floats2d, Floats2d] = Linear(nO=nO)
    scores: Tok2Vec = chain(tok2vec, with_array(chain(Dropout(), output)))
    dims, params = {"nO": nO}, dict.fromkeys(CRF_PARAMS)
    layers, refs = [scores], {"tok2vec": tok2vec, "output": output}
    return Model("elmo_crf", forward, init=init, dims=dims, params=params, layers=layers, refs=refs)


def forward(model: CRF, docs: list[Doc], is_train: bool) -> tuple[Chains, Callable]:
    """Compute the scores of the tags of each token. Return them with the transition scores."""
    scores, backprop_scores = model.layers[0](docs, is_train)

    def backprop(gradient: Chains) -> list[Doc]:
        for name in CRF_PARAMS:
            model.inc_grad(name, model.ops.asarray(getattr(gradient, name), dtype="float32"))
        return backprop_scores([model.ops.asarray2f(values) for values in gradient.scores])

    return Chains(scores, *(model.get_param(name) for name in CRF_PARAMS)), backprop


def init(model: CRF, X: Optional[list[Doc]] = None, Y: object = None) -> None:
    """Initialize the layers, and set the scores of transitions, starts and ends to 0."""
    nO = model.get_dim("nO")
    model.get_ref("output").set_dim("nO", nO)
    model.layers[0].initialize(X=X)
    for name in CRF_PARAMS:
        model.set_param(name, model.ops.alloc((nO, nO) if name == "transitions" else (nO,)))
