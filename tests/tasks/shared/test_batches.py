"""Groups of so many tokens, with padding and without."""

import random

import pytest

from spacy_elmo.embedding.embed import by_tokens
from spacy_elmo.tasks.shared.text_layer import by_padded


@pytest.mark.parametrize("n_texts", [1, 2])
def test_padded_groups(n_texts):
    """Each item once, the longest first; no group is larger than allowed unless it is one item;
    none could take the next one, too."""
    rng = random.Random(0)
    for _ in range(50):
        lengths = [[rng.choice((0, 1, 5, 40)) for _ in range(n_texts)] for _ in range(20)]
        groups = list(by_padded(lengths, 60))
        order = [i for group in groups for i in group]
        assert sorted(order) == list(range(20))
        totals = [sum(lengths[i]) for i in order]
        assert totals == sorted(totals, reverse=True)

        def size(group, lengths=lengths):
            return len(group) * sum(max(lengths[i][text] for i in group) for text in range(n_texts))

        for group, following in zip(groups, [*groups[1:], []]):
            assert len(group) == 1 or size(group) <= 60
            if following:
                assert size([*group, following[0]]) > 60
    assert list(by_padded([], 60)) == []


def test_padding_counts():
    """A long sequence does not stand with many short ones, as where tokens alone are counted."""
    lengths = [[100], *[[2]] * 50]
    assert [len(group) for group in by_padded(lengths, 200)] == [2, 49]
    assert len(list(by_tokens(lengths, 200, 99, lambda one: one[0]))) == 1
