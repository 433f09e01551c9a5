from unittest.mock import Mock

import numpy as np
import pytest

from spacy_elmo.frozen.encoder import FrozenEncoder, TokenVectorCache

from helpers.models import tiny_bilm


def vectors(tokens):
    return np.array([[len(token), ord(token[0])] for token in tokens], dtype="float32")


@pytest.mark.parametrize("capacity", [0, 1, 3, 100])
def test_against_a_list_of_the_tokens_seen_last(capacity):
    rng = np.random.default_rng(capacity)
    cache, recent = TokenVectorCache(capacity), []
    for _ in range(60):
        tokens = [chr(97 + i) for i in rng.permutation(8)[: rng.integers(1, 7)]]
        compute = Mock(side_effect=vectors)
        np.testing.assert_array_equal(cache.lookup(tokens, compute), vectors(tokens))
        missing = [token for token in tokens if token not in recent]
        assert [list(call.args[0]) for call in compute.mock_calls] == ([missing] if missing else [])
        recent = [token for token in recent if token not in tokens] + tokens
        recent = recent[-capacity:] if capacity else []
        assert len(cache) == len(recent)


def test_result_is_not_the_memory_itself():
    cache = TokenVectorCache(5)
    cache.lookup(["a"], vectors)[:] = 99
    np.testing.assert_array_equal(cache.lookup(["a"], vectors), vectors(["a"]))


def test_one_vector_does_not_hold_its_batch_in_memory():
    cache = TokenVectorCache(1)
    cache.lookup(["a", "b", "c"], vectors)
    assert all(v.base is None for v in cache._vectors.values())


def test_impossible_capacity():
    with pytest.raises(ValueError, match="-1"):
        TokenVectorCache(-1)


def test_known_strings_are_not_computed_again(monkeypatch):
    bilm = tiny_bilm()
    before, _ = bilm.embed([["a", "b"]])
    monkeypatch.setattr(FrozenEncoder, "__call__", None)  # to call it is an error
    after, _ = bilm.embed([["b", "a"]])
    np.testing.assert_array_equal(after[0][0], before[0][0][::-1])
