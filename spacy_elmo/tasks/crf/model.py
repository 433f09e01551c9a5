"""Model of `elmo_crf`: scores of tags, and the distribution of a linear-chain CRF.

The recursions need `log(exp(values) @ exp(matrix))`. We compute it with one matrix product, after
the largest values are subtracted. Rows whose values lie too far apart for that use `log_sum_exp`.
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
from ..shared import Tok2Vec
from ..shared.bio import BIOTags
from ..shared.log_space import log_sum_exp

SAFE = 600.0  # exp(600) does not overflow and exp(-600) is not 0 in float64.
CRF_PARAMS = ("transitions", "start", "end")


@dataclass(frozen=True)
class Chains:
    """Scores of the tags of some sequences, or their gradient.

    The score of tags `y` is
    `start[y_1] + sum_t scores[t, y_t] + sum_t transitions[y_t-1, y_t] + end[y_n]`.

    scores (Sequence[Floats2d]): Scores of tags at tokens. *Shape:* `(n_tokens, n_tags)` each
    transitions (Floats2d): Scores from each tag to each. *Shape:* `(n_tags, n_tags)`
    start (Floats1d): Scores of tags at the first token. *Shape:* `(n_tags,)`
    end (Floats1d): Scores of tags at the last token. *Shape:* `(n_tags,)`
    """

    scores: Sequence[Floats2d]
    transitions: Floats2d
    start: Floats1d
    end: Floats1d

    def constrained(self, tags: BIOTags, xp: Any = np) -> "Chains":
        """Return the same chains, with minus infinity where the order of tags is not valid."""
        found = {name: getattr(self, name) + xp.asarray(getattr(tags, name)) for name in CRF_PARAMS}
        return replace(self, **found)

    def restricted(self, allowed: Sequence[np.ndarray], xp: Any = np) -> "Chains":
        """Return the same chains, with minus infinity at tags that are not allowed.

        allowed (Sequence[numpy.ndarray]): *Shape:* `(n_tokens, n_tags)` each
        """
        pairs = zip(self.scores, allowed)
        return replace(self, scores=[xp.where(xp.asarray(a), s, -np.inf) for s, a in pairs])


def log_partition(chains: Chains, xp: Any = np) -> tuple[float, Chains]:
    """Compute the log partition function of a CRF and its gradient (Lafferty et al. 2001).

    The partition function is the sum of the exponential scores of all sequences of tags. The
    forward and backward recursions run in float64.

    chains (Chains): The scores; minus infinity excludes a tag or a transition. At least one
        sequence of tags must be possible.
    xp (module): numpy or cupy.
    RETURNS (Tuple[float, Chains]): The sum over the sequences, and its gradient: the expected
        count of each score. For the scores of tokens, these are the marginal probabilities.
    """
    lengths = [len(values) for values in chains.scores]
    order = pack([n for n in lengths if n])
    if not order.n_items:
        return 0.0, Chains(chains.scores, *(xp.zeros_like(getattr(chains, n)) for n in CRF_PARAMS))
    rows = xp.asarray(order.positions[0])
    packed = xp.concatenate(chains.scores)[rows].astype("float64")
    sizes = order.batch_sizes
    steps = xp.split(packed, np.cumsum(sizes)[:-1].tolist())
    transitions, start, end = (getattr(chains, name).astype("float64") for name in CRF_PARAMS)
    scaled = _Scaled(transitions, xp)
    with np.errstate(divide="ignore"):  # log(0) is minus infinity
        prefixes = _forward(steps, scaled, start, xp)
        suffixes = _backward(steps, scaled, end, xp)
    totals = log_sum_exp(prefixes[0] + suffixes[0], axis=1)[:, 0]
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
        transitions=_expected_transitions(prefixes, following, scaled, totals, xp),
        start=unpacked[xp.asarray(firsts)].sum(axis=0),
        end=unpacked[xp.asarray(lasts)].sum(axis=0),
    )


class _Scaled:
    """Exponentials of a matrix minus its largest value, computed once."""

    def __init__(self, matrix: Any, xp: Any):
        self.matrix = matrix
        self.largest = matrix.max()
        self.lowest = xp.where(xp.isneginf(matrix), self.largest, matrix).min()
        self.values = xp.exp(matrix - self.largest)

    def log_product(self, values: Any, xp: Any, *, turned: bool = False) -> Any:
        """Compute `log(exp(values) @ exp(matrix))`, or with the transpose, by one product.

        The largest value of each row is subtracted first. Rows whose values lie so far apart that
        exponentials become 0 are computed without a product.
        """
        largest = values.max(axis=1, keepdims=True)
        scaled = self.values.T if turned else self.values
        found = xp.log(xp.exp(values - largest) @ scaled) + largest + self.largest
        apart = largest - xp.where(xp.isneginf(values), largest, values).min(axis=1, keepdims=True)
        wide = (apart + self.largest - self.lowest > SAFE)[:, 0]
        if wide.any():
            matrix = self.matrix.T if turned else self.matrix
            found[wide] = log_sum_exp(values[wide][:, :, None] + matrix, axis=1)[:, 0]
        return found


def _forward(steps: list, transitions: _Scaled, start: Any, xp: Any) -> list:
    """Return for each step the log sums of all sequences that end in each tag."""
    found = [start + steps[0]]
    for scores in steps[1:]:
        found.append(transitions.log_product(found[-1][: len(scores)], xp) + scores)
    return found


def _backward(steps: list, transitions: _Scaled, end: Any, xp: Any) -> list:
    """Return for each step the log sums of all sequences after each tag."""
    found = [xp.tile(end, (len(steps[-1]), 1))]
    for scores, before in zip(steps[:0:-1], steps[-2::-1]):
        after = xp.tile(end, (len(before), 1))
        after[: len(scores)] = transitions.log_product(found[-1] + scores, xp, turned=True)
        found.append(after)
    return found[::-1]


def _expected_transitions(
    prefixes: list, following: list, transitions: _Scaled, totals: Any, xp: Any
) -> Any:
    """Return the expected count of each transition, with one product for all tokens.

    Tokens whose best tags nearly exclude each other are added one by one.

    following (list): Log sums of all sequences that begin with each tag, without the first step.
    """
    if not following:
        return xp.zeros_like(transitions.matrix)
    sizes = [len(values) for values in following]
    before = xp.concatenate([values[:n] for values, n in zip(prefixes, sizes)])
    after = xp.concatenate(following)
    total = xp.concatenate([totals[:n] for n in sizes])
    one, other = before.max(axis=1), after.max(axis=1)
    excess = one + other + transitions.largest - total
    far = excess > SAFE
    weighted = xp.exp(before - one[:, None]) * xp.exp(xp.where(far, -xp.inf, excess))[:, None]
    found = transitions.values * (weighted.T @ xp.exp(after - other[:, None]))
    for b, a, t in zip(before[far], after[far], total[far]):
        found += xp.exp(b[:, None] + transitions.matrix + a - t)
    return found


CRF: TypeAlias = Model[list[Doc], Chains]


@registry.architectures("spacy-elmo.CRFTagger.v1")
def build_crf_tagger(tok2vec: Tok2Vec, nO: Optional[int] = None) -> CRF:
    """Build a model of the scores of a linear-chain CRF (Lafferty et al. 2001).

    A linear layer scores the tags of each vector, and the scores of transitions are learned, as in
    the named entity model of Peters et al. 2018 (appendix). The training's dropout rate applies to
    the vectors.

    tok2vec (Model[List[Doc], List[Floats2d]]): The vectors, such as those of a `spacy.Tok2Vec.v2`
        with a recurrent encoder.
    nO (Optional[int]): Number of tags; the pipe sets it.
    RETURNS (Model[List[Doc], Chains]): The scores.
    """
    output: Model[Floats2d, Floats2d] = Linear(nO=nO)
    scores: Tok2Vec = chain(tok2vec, with_array(chain(Dropout(), output)))
    return Model(
        "elmo_crf",
        forward,
        init=init,
        dims={"nO": nO},
        params=dict.fromkeys(CRF_PARAMS),
        layers=[scores],
        refs={"tok2vec": tok2vec, "output": output},
    )


def forward(model: CRF, docs: list[Doc], is_train: bool) -> tuple[Chains, Callable]:
    """Compute the scores of tags and transitions."""
    scores, backprop_scores = model.layers[0](docs, is_train)

    def backprop(gradient: Chains) -> list[Doc]:
        for name in CRF_PARAMS:
            model.inc_grad(name, model.ops.asarray(getattr(gradient, name), dtype="float32"))
        d_scores = [model.ops.asarray2f(values) for values in gradient.scores]
        return backprop_scores(d_scores)

    return Chains(scores, *(model.get_param(name) for name in CRF_PARAMS)), backprop


def init(model: CRF, X: Optional[list[Doc]] = None, Y: object = None) -> None:
    """Initialize the layers, and set the scores of transitions to 0."""
    nO = model.get_dim("nO")
    model.get_ref("output").set_dim("nO", nO)
    model.layers[0].initialize(X=X)
    for name in CRF_PARAMS:
        model.set_param(name, model.ops.alloc((nO, nO) if name == "transitions" else (nO,)))
