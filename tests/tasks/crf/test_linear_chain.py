"""The linear-chain CRF against the sum over all sequences of tags, in float64."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from spacy_elmo.tasks.crf.model import CRF_PARAMS, Chains
from spacy_elmo.tasks.crf.partition import log_partition, sequence_loss
from spacy_elmo.tasks.shared.bio import BILUOTags, BIOTags, viterbi


def random_chains(seed, lengths=(3, 0, 5, 1), n_tags=4, scale=2.0):
    rng = np.random.default_rng(seed)

    def draw(*shape):
        return rng.normal(scale=scale, size=shape)

    scores = [draw(n, n_tags) for n in lengths]
    return Chains(scores, draw(n_tags, n_tags), draw(n_tags), draw(n_tags))


def constrained(chains, tags):
    return replace(chains, **{n: getattr(chains, n) + getattr(tags, n) for n in CRF_PARAMS})


def partition(chains):
    """log Z, summed over the Docs, and its gradient."""
    arrays = (*(getattr(chains, name) for name in CRF_PARAMS), *chains.scores)
    leaves = [torch.from_numpy(values).requires_grad_() for values in arrays]
    log_z = log_partition(leaves[3:], *leaves[:3]).sum()
    gradients = torch.autograd.grad(log_z, leaves, materialize_grads=True)
    return log_z.item(), Chains(gradients[3:], *gradients[:3])


def total(tags, scores, chains):
    if not len(tags):
        return 0.0
    found = chains.start[tags[0]] + chains.end[tags[-1]]
    found += sum(scores[t, tag] for t, tag in enumerate(tags))
    return found + sum(chains.transitions[one, other] for one, other in zip(tags, tags[1:]))


def brute_force(scores, chains, agrees=lambda tags: True):
    """Return log Z, marginals of tags and of pairs, and the best of all sequences that agree.

    The largest exponent is taken out.
    """
    n_tags = len(chains.start)
    every = {
        tags: total(tags, scores, chains) for tags in product(range(n_tags), repeat=len(scores))
    }
    every = {tags: value for tags, value in every.items() if np.isfinite(value) and agrees(tags)}
    best = max(every, key=every.__getitem__)
    weights = {tags: np.exp(value - every[best]) for tags, value in every.items()}
    z = sum(weights.values())
    marginals, pairs = np.zeros(scores.shape), np.zeros((n_tags, n_tags))
    for tags, weight in weights.items():
        marginals[range(len(tags)), tags] += weight / z
        for pair in zip(tags, tags[1:]):
            pairs[pair] += weight / z
    return every[best] + np.log(z), marginals, pairs, best


@pytest.mark.parametrize("seed", range(5))
def test_partition_marginals_and_best_tags_equal_brute_force(seed):
    chains = random_chains(seed)
    log_z, expected = partition(chains)
    wanted, marginals, pairs, best = zip(*(brute_force(one, chains) for one in chains.scores))
    assert log_z == pytest.approx(sum(wanted), rel=1e-12)
    for got, right in zip(expected.scores, marginals):
        np.testing.assert_allclose(got, right, atol=1e-12)
    np.testing.assert_allclose(expected.transitions, sum(pairs), atol=1e-12)
    np.testing.assert_allclose(expected.start, sum(m[0] for m in marginals if len(m)), atol=1e-12)
    np.testing.assert_allclose(expected.end, sum(m[-1] for m in marginals if len(m)), atol=1e-12)
    for scores, tags in zip(chains.scores, best):
        found = viterbi(scores, chains.transitions, chains.start, chains.end)
        assert found.tolist() == list(tags)


SPANS = [(s, e, label) for s in range(3) for e in range(s + 1, 4) for label in "AB"]
# All sets of spans of three tokens, in order. They do not come from the matrix.
SETS = [
    list(chosen)
    for n in range(4)
    for chosen in product(SPANS, repeat=n)
    if all(one[1] <= other[0] for one, other in zip(chosen, chosen[1:]))
]


@pytest.mark.parametrize("scheme", [BIOTags, BILUOTags])
def test_constraints_leave_valid_tags(scheme):
    assert len(SETS) == 41
    tags = scheme(["A", "B"])
    chains = random_chains(0, lengths=[3], n_tags=len(tags))
    weights = [total(tags.encode_spans(one, 3), chains.scores[0], chains) for one in SETS]
    valid = constrained(chains, tags)
    assert partition(valid)[0] == pytest.approx(np.logaddexp.reduce(weights), rel=1e-12)
    best = viterbi(valid.scores[0], valid.transitions, valid.start, valid.end)
    assert tags.spans(best) == SETS[int(np.argmax(weights))]
    for one in SETS:
        assert tags.spans(tags.encode_spans(one, 3)) == one


@pytest.mark.parametrize("scheme", [BIOTags, BILUOTags])
def test_best_valid_tags_without_scores_of_transitions(scheme):
    tags = scheme(["A", "B"])
    for seed in range(100):
        scores = np.random.default_rng(seed).normal(size=(3, len(tags)))
        sums = [scores[range(3), tags.encode_spans(one, 3)].sum() for one in SETS]
        assert tags.spans(tags.decode(scores)) == SETS[int(np.argmax(sums))]
    assert tags.decode(np.zeros((0, len(tags)))).shape == (0,)


def agrees(spans, known, missing):
    """Return whether a set of spans contains the known ones, and no others at annotated tokens."""
    rest = set(spans) - set(known)
    return set(known) <= set(spans) and all(missing[s:e].all() for s, e, _ in rest)


@pytest.mark.parametrize("scheme", [BIOTags, BILUOTags])
@pytest.mark.parametrize(
    ("known", "missing"),
    [
        ([(0, 2, "A")], [0, 0, 1]),  # the span ends where it ends, the next token is free
        ([(1, 2, "B")], [1, 0, 1]),
        ([], [0, 1, 1]),
        ([(0, 3, "B")], [0, 0, 0]),
    ],
)
def test_missing_annotation_is_summed_over(scheme, known, missing):
    tags = scheme(["A", "B"])
    missing = np.array(missing, dtype=bool)
    chains = random_chains(1, lengths=[3, 0, 2], n_tags=len(tags))
    valid = constrained(chains, tags)
    wanted, expected, pairs, _ = brute_force(chains.scores[0], valid)
    log_z, marginals, gold_pairs, _ = brute_force(
        chains.scores[0], valid, lambda one: agrees(tags.spans(one), known, missing)
    )
    allowed = [tags.allowed(known, missing), None, None]
    loss, gradient = sequence_loss(chains, tags, allowed)
    assert loss == pytest.approx(wanted - log_z, rel=1e-12)
    np.testing.assert_allclose(gradient.scores[0], expected - marginals, atol=1e-12)
    np.testing.assert_allclose(gradient.transitions, pairs - gold_pairs, atol=1e-12)
    assert [np.abs(one).max(initial=0) < 1e-12 for one in gradient.scores] == [False, True, True]


def test_sums_of_a_long_chain_stay_finite():
    """The scores and transitions of the two tags say nothing."""
    chains = Chains([np.full((1_000, 2), 300.0)], np.zeros((2, 2)), np.zeros(2), np.zeros(2))
    log_z, expected = partition(chains)
    assert log_z == pytest.approx(1_000 * (300.0 + np.log(2)))
    np.testing.assert_allclose(expected.scores[0], 0.5)
    np.testing.assert_allclose(expected.transitions, 999 / 4)


@pytest.mark.parametrize("scheme", [BIOTags, BILUOTags])
@pytest.mark.parametrize("scale", [100.0, 5000.0])
def test_scores_with_infinite_exponentials(scheme, scale):
    """The best tags of two tokens may exclude each other."""
    tags = scheme(["A", "B"])
    for seed in range(8):
        chains = random_chains(seed, lengths=[1 + seed % 4], n_tags=len(tags), scale=scale)
        chains = constrained(replace(chains, transitions=chains.transitions / scale), tags)
        log_z, expected = partition(chains)
        wanted, _, pairs, _ = brute_force(chains.scores[0], chains)
        assert log_z == pytest.approx(wanted, rel=1e-12)
        np.testing.assert_allclose(expected.transitions, pairs, atol=1e-9)
