"""Weights, settings, checksums and cache of `FrozenBiLM`."""

import hashlib
import json
import pickle
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from spacy_elmo.bilm.model import BiLM
from spacy_elmo.frozen.encoder import TokenVectorCache
from spacy_elmo.frozen.kernel import available_kernels, find_kernel
from spacy_elmo.frozen.model import FrozenBiLM
from spacy_elmo.model.memory import Weights
from spacy_elmo.weights import read_weights

from helpers import reference_manylangs
from helpers.models import SENTENCES, check_layers, tiny_bilm
from helpers.rounding import rounding_of


def same_layers(model, expected, atol=0.0):
    """Check that layers are equal, by default bit for bit, but in numpy within rounding."""
    check_layers(model.embed(SENTENCES)[0], expected, max(atol, rounding_of(model.kernel)))


def halved(bilm):
    """Return the model with its weights rounded to float16, and stored so."""
    arrays = {name: values.astype("float16") for name, values in bilm.arrays().items()}
    return FrozenBiLM(bilm.config, bilm.vocabularies, Weights(arrays))


def test_a_model_that_is_thawed_and_frozen_is_the_same():
    """The layers are equal bit for bit, and each model has its own copy of the weights."""
    aligned = np.eye(10, dtype="float32")[::-1].copy()
    frozen = tiny_bilm().replace(alignment=aligned, provenance={"tokens": 3})
    expected = frozen.embed(SENTENCES)[0]
    module = BiLM.from_frozen(frozen)
    assert not module.training
    assert all(weight.requires_grad for weight in module.parameters())
    again = module.freeze()
    for model in (again, BiLM.from_frozen(again).freeze()):
        assert model.checksum() == frozen.checksum() == module.checksum()
        assert (model.provenance, model.config) == ({"tokens": 3}, frozen.config)
        same_layers(model, expected)
    check_layers([x.detach() for x in module.embed(SENTENCES)[0]], expected)
    with torch.no_grad():
        for weight in module.parameters():
            weight.zero_()
    for model in (frozen, again):
        assert all(values.any() for values in model.arrays().values())
    assert module.freeze().checksum() != frozen.checksum()


def test_first_layers_and_pickles_give_the_same_vectors():
    whole = tiny_bilm(n_layers=3)
    expected = whole.embed(SENTENCES)[0]
    same_layers(whole.first_layers(2), [layers[:3] for layers in expected])
    same_layers(pickle.loads(pickle.dumps(whole)), expected)
    for n_layers in (0, 4):
        with pytest.raises(ValueError, match=f"n_layers must be from 1 to 3, got {n_layers}"):
            whole.first_layers(n_layers)


def test_the_checksum_equals_its_definition(tmp_path):
    manylangs = read_weights(reference_manylangs.write_random(tmp_path))
    for model in (tiny_bilm(), halved(tiny_bilm()), manylangs):
        found = hashlib.sha256(json.dumps(model.config.to_dict(), sort_keys=True).encode())
        for name, values in model.arrays().items():
            shape = ", ".join(map(str, values.shape)) + ("," if values.ndim == 1 else "")
            found.update(f"{name} torch.float32 ({shape}) ".encode())
            found.update(values.astype("<f4").tobytes())
        for name, vocabulary in model.vocabularies._asdict().items():
            if vocabulary is not None:
                found.update(name.encode() + b" " + vocabulary.to_bytes())
        assert model.checksum() == found.hexdigest()
    other = tiny_bilm(seed=1)
    assert len({tiny_bilm().checksum(), other.checksum(), halved(other).checksum()}) == 3


@pytest.mark.parametrize("kernel", available_kernels())
@pytest.mark.parametrize("changes", [{}, {"n_highway": 2, "activation": "tanh"}])
def test_float16_is_float32_bit_for_bit(kernel, changes):
    short = halved(tiny_bilm(**changes)).replace(kernel=find_kernel(kernel))
    arrays = {name: values.astype("float32") for name, values in short.arrays().items()}
    wide = FrozenBiLM(short.config, short.vocabularies, Weights(arrays), kernel=short.kernel)
    assert short.checksum() == wide.checksum()
    for state in (None, "warm"):
        for sentences in (SENTENCES, SENTENCES * 9):
            check_layers(*(model.embed(sentences, state)[0] for model in (short, wide)), 0)


@pytest.mark.parametrize("kernel", available_kernels())
def test_each_weight_can_have_its_own_type(kernel):
    """The layers are those of float32, although only some weights are float16 numbers."""
    bilm = tiny_bilm().replace(kernel=find_kernel(kernel))
    full, half = bilm.arrays(), halved(bilm).arrays()

    def model(arrays):
        return FrozenBiLM(bilm.config, bilm.vocabularies, Weights(arrays), kernel=bilm.kernel)

    for name in full:
        for mixed in ({**full, name: half[name]}, {**half, name: full[name]}):
            wide = {key: values.astype("float32") for key, values in mixed.items()}
            check_layers(*(model(arrays).embed(SENTENCES[:1])[0] for arrays in (mixed, wide)), 0)


def test_replaced_settings_do_not_change_the_first_model():
    frozen = tiny_bilm().replace(cache=7)
    before = frozen.embed(SENTENCES)[0]
    same = frozen.replace(provenance={"tokens": 3})
    assert same.cache is frozen.cache  # known vectors stay known
    assert (same.provenance, frozen.provenance["source"]) == ({"tokens": 3}, "weights.hdf5")
    same_layers(same, before)
    small = frozen.replace(cache=2)
    small.embed(SENTENCES)
    assert len(small.cache) == 2 and len(frozen.cache) == 7
    matrix = np.random.default_rng(0).standard_normal((10, 10)).astype("float32")
    aligned = frozen.replace(alignment=matrix)
    same_layers(aligned, [layers @ matrix.T for layers in before], 1e-5)
    assert aligned.checksum() != frozen.checksum()
    same_layers(aligned.replace(alignment=None), before)
    assert aligned.replace(alignment=None).checksum() == frozen.checksum()
    same_layers(frozen.replace(kernel=find_kernel("numpy")), before, 1e-5)
    wrong = {"precision must be": {"precision": "float8"}, "cache must be 0 or": {"cache": -1}}
    for message, setting in {**wrong, "n_layers": {"n_layers": 1}}.items():
        with pytest.raises((ValueError, TypeError), match=message):
            frozen.replace(**setting)
    same_layers(frozen, before)


def test_attributes_of_modules_are_explained():
    frozen = tiny_bilm()
    for name in ("parameters", "state_dict", "requires_grad_", "to", "train"):
        with pytest.raises(AttributeError, match=rf"no attribute '{name}'.*from_frozen.*set_bilm"):
            getattr(frozen, name)


def vectors(tokens):
    return np.array([[len(token), ord(token[0])] for token in tokens], dtype="float32")


@pytest.mark.parametrize("capacity", [0, 1, 3, 100])
def test_the_cache_contains_the_tokens_seen_last(capacity):
    rng = np.random.default_rng(capacity)
    cache, recent = TokenVectorCache(capacity), []
    for _ in range(60):
        tokens = [chr(97 + i) for i in rng.permutation(8)[: rng.integers(1, 7)]]
        compute = Mock(side_effect=vectors)
        found = cache.lookup(tokens, compute)
        np.testing.assert_array_equal(found, vectors(tokens))
        found[:] = 99  # a copy
        missing = [token for token in tokens if token not in recent]
        assert [list(call.args[0]) for call in compute.mock_calls] == ([missing] if missing else [])
        recent = [token for token in recent if token not in tokens] + tokens
        recent = recent[-capacity:] if capacity else []
        assert len(cache) == len(recent)
    # No vector holds the memory of its batch.
    assert all(vector.base is None for vector in cache._vectors.values())
