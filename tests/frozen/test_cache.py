import numpy as np
import pytest
import torch

from spacy_elmo.frozen.cache import TokenVectorCache

from helpers.models import tiny_bilm


def vectors(tokens):
    return np.array([[len(token), ord(token[0])] for token in tokens], dtype="float32")


class Counted:
    def __init__(self):
        self.asked = []

    def __call__(self, tokens):
        self.asked.append(list(tokens))
        return vectors(tokens)


@pytest.mark.parametrize("capacity", [0, 1, 3, 100])
def test_against_a_list_of_the_tokens_seen_last(capacity):
    rng = np.random.default_rng(capacity)
    cache, recent = TokenVectorCache(capacity), []
    for _ in range(60):
        tokens = [chr(97 + i) for i in rng.permutation(8)[: rng.integers(1, 7)]]
        compute = Counted()
        np.testing.assert_array_equal(cache.lookup(tokens, compute), vectors(tokens))
        missing = [token for token in tokens if token not in recent]
        assert compute.asked == ([missing] if missing else [])
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


def test_model_keeps_a_bounded_number_of_strings():
    bilm = tiny_bilm()
    bilm.cache = TokenVectorCache(4)
    for i in range(20):
        bilm.embed([[f"word{i}", f"other{i}"]])
        assert len(bilm.cache) <= 4
    assert len(bilm.cache) == 4


def test_known_strings_are_not_computed_again(monkeypatch):
    bilm = tiny_bilm()
    before, _ = bilm.embed([["a", "b"]])
    monkeypatch.setattr(bilm, "_encode", None)  # to call it is an error
    after, _ = bilm.embed([["b", "a"]])
    torch.testing.assert_close(after[0][0], before[0][0].flip(0), rtol=0, atol=0)


@pytest.mark.parametrize("name", ["encoder.embedding.weight", "stacks.1.0.bias"])
@pytest.mark.parametrize("state", [None, "warm"])
def test_dropped_when_weights_change_in_place(name, state):
    sentence = [["some", "words"]]
    bilm = tiny_bilm()
    bilm.embed(sentence, state)
    weight = bilm.get_parameter(name)
    with torch.no_grad():
        weight.mul_(-1.5)
    fresh = tiny_bilm()
    fresh.load_state_dict(bilm.state_dict())
    torch.testing.assert_close(bilm.embed(sentence, state)[0], fresh.embed(sentence, state)[0])


@pytest.mark.parametrize("fused", [False, True])  # fused ones leave the version counters alone
def test_dropped_after_loading_and_after_a_step_of_an_optimizer(fused):
    bilm, other = tiny_bilm(), tiny_bilm(seed=5)
    bilm.embed([["a"]], "warm")
    bilm.load_state_dict(other.state_dict())
    torch.testing.assert_close(bilm.embed([["a"]], "warm")[0], other.embed([["a"]], "warm")[0])
    bilm.embed([["a"]], "warm")
    bilm.requires_grad_(True)
    optimizer = torch.optim.Adam(bilm.parameters(), lr=0.1, fused=fused)
    bilm.embed([["a"]])[0][0].sum().backward()
    optimizer.step()
    bilm.requires_grad_(False)
    other.load_state_dict(bilm.state_dict())
    torch.testing.assert_close(bilm.embed([["a"]], "warm")[0], other.embed([["a"]], "warm")[0])


def test_dropped_when_the_weights_are_converted():
    bilm = tiny_bilm()
    before, _ = bilm.embed([["a"]], "warm")
    after, _ = bilm.double().embed([["a"]], "warm")
    assert after[0].dtype == torch.float64
    torch.testing.assert_close(after[0].float(), before[0])


def test_dropped_when_the_data_of_weights_is_replaced():
    bilm, other = tiny_bilm(), tiny_bilm(seed=5)
    bilm.embed([["a"]], "warm")
    vector = torch.nn.utils.parameters_to_vector(other.parameters())
    torch.nn.utils.vector_to_parameters(vector, bilm.parameters())
    torch.testing.assert_close(bilm.embed([["a"]], "warm")[0], other.embed([["a"]], "warm")[0])


def test_no_memory_while_gradients_are_asked_for():
    bilm = tiny_bilm().requires_grad_(True)
    layers, _ = bilm.embed([["a"]])
    layers[0].sum().backward()
    assert len(bilm.cache) == 0
    assert bilm.encoder.convolutions[0].weight.grad.abs().sum() > 0
