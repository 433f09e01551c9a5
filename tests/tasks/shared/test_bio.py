"""Viterbi and BIO tags against all sequences of tags there are."""

from itertools import product

import numpy as np
import pytest

from spacy_elmo.tasks.shared.bio import BIOTags, parse_bio
from spacy_elmo.tasks.shared.log_space import viterbi

NAMES = ["O", "B-ARG0", "I-ARG0", "B-V", "I-V"]  # as BIOTags numbers them


def total(tags, scores, transitions, start, end):
    found = start[tags[0]] + end[tags[-1]]
    found += sum(scores[t, tag] for t, tag in enumerate(tags))
    return found + sum(transitions[one, other] for one, other in zip(tags, tags[1:]))


@pytest.mark.parametrize("n_tokens", [1, 2, 5])
@pytest.mark.parametrize("seed", range(5))
def test_best_of_all_sequences(n_tokens, seed):
    rng = np.random.default_rng(seed)
    chain = [rng.normal(size=shape) for shape in ((n_tokens, 4), (4, 4), (4,), (4,))]
    expected = max(product(range(4), repeat=n_tokens), key=lambda tags: total(tags, *chain))
    assert viterbi(*chain).tolist() == list(expected)


def test_without_tokens():
    assert viterbi(np.zeros((0, 3)), np.zeros((3, 3)), np.zeros(3), np.zeros(3)).shape == (0,)
    assert BIOTags(["A"]).decode(np.zeros((0, 3))).shape == (0,)


def is_valid(names):
    return all(
        not name.startswith("I-") or previous[2:] == name[2:]
        for previous, name in zip(["O", *names], names)
    )


@pytest.mark.parametrize("seed", range(20))
def test_best_of_all_valid_tags(seed):
    """By the rule as a text says it, not by the matrix."""
    tags = BIOTags(["ARG0", "V"])
    scores = np.random.default_rng(seed).normal(size=(5, 5))
    valid = [one for one in product(range(5), repeat=5) if is_valid([NAMES[tag] for tag in one])]
    expected = max(valid, key=lambda one: scores[range(5), one].sum())
    assert tags.decode(scores).tolist() == list(expected)


def test_spans_and_back():
    tags = BIOTags(["ARG0", "V"])
    names = ["O", "B-ARG0", "I-ARG0", "B-ARG0", "B-V", "I-V", "O", "B-V"]
    numbers = [NAMES.index(name) for name in names]
    spans = [(1, 3, "ARG0"), (3, 4, "ARG0"), (4, 6, "V"), (7, 8, "V")]
    assert tags.spans(numbers) == parse_bio(names) == spans
    assert tags.of_spans(spans, 8).tolist() == numbers
    with pytest.raises(KeyError):
        tags.of_spans([(0, 1, "ARG9")], 1)
