"""Every precision, by PyTorch's private operations and without them."""

import copy
import logging
import math
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from spacy_elmo.bilm import engine, precision, prepacked
from spacy_elmo.bilm import model as module
from spacy_elmo.weights import read_weights

from helpers import reference
from helpers.golden import BILM_TF, BILM_TF_MODELS, read_batches, read_bilm_tf
from helpers.models import (
    SENTENCES,
    check_layers,
    check_state,
    make_bilm,
    tiny_bilm,
    tiny_options,
)

CPU = torch.device("cpu")
# What the cosine of every token's mix with float32 is above.
COSINES = {"float32": 0.9999999, "bfloat16": 0.999, "int8": 0.99}
PRODUCT_ATOL = {"float32": 1e-5, "bfloat16": 0.2, "int8": 0.3}


@pytest.fixture(params=["private", "public", "lockstep"])
def operations(request, monkeypatch):
    """The products by private operations, by public ones alone, and both directions side
    by side for few sequences."""
    if request.param != "lockstep":
        monkeypatch.setattr(engine, "FEW_ROWS", 0)
    if request.param == "public":
        monkeypatch.setattr(prepacked, "can_prepack", lambda dtype: False)
    elif not prepacked.can_prepack(torch.float32):
        pytest.skip("this PyTorch has no prepacked products")
    return request.param


@pytest.fixture(params=list(COSINES))
def kind(request, operations, monkeypatch):
    """A precision, taken as it is wherever it can be computed."""
    if request.param == "bfloat16":  # right everywhere, if not fast
        monkeypatch.setattr(precision, "has_bfloat16", lambda device: True)
    elif request.param == "int8" and not prepacked.can_multiply_int8():
        pytest.skip("this machine has no products of integers")
    assert precision.resolve_precision(request.param, CPU) == request.param
    return request.param


def mixes(layers):
    return torch.cat([values.mean(dim=0) for values in layers])


def smallest_cosine(layers, others):
    pair = (mixes(layers).double(), mixes(others).double())
    return torch.cosine_similarity(*pair, dim=1).min().item()


def usual(seed=0):
    """Wide enough for a mean over rounding errors."""
    return tiny_bilm(seed, dim=64, projection_dim=16)


def test_every_kind_of_token_and_state(kind):
    exact, bilm = usual(), usual()
    bilm.precision = kind
    for start in (None, "warm"):
        expected, after = exact.embed(SENTENCES, start)
        layers, state = bilm.embed(SENTENCES, start)
        assert smallest_cosine(layers, expected) > COSINES[kind]
        assert [values.dtype for values in layers] == [torch.float32] * len(SENTENCES)
        torch.testing.assert_close(state.cell, after.cell, rtol=0, atol=0.2)


@pytest.mark.parametrize(
    "changes",
    [{"cell_clip": 0.7, "proj_clip": 0.5}, {"dim": 6, "projection_dim": 6}, {"n_highway": 0}],
)
def test_float32_is_the_reference(operations, changes):
    options = tiny_options(**changes)
    data = reference.random_datasets(options)
    bilm = make_bilm(options, data)
    expected, after = reference.layers(options, data, SENTENCES)
    layers, state = bilm.embed(SENTENCES)
    check_layers(layers, expected)
    check_state(state, after)


@pytest.mark.parametrize("name", BILM_TF_MODELS)
def test_what_tensorflow_computed(kind, name):
    bilm, state = read_weights(BILM_TF / name), None
    bilm.precision = kind
    for sentences, expected in zip(read_batches(), read_bilm_tf(name)):
        layers, state = bilm.embed(sentences, state)
        for found, wanted in zip(layers, map(torch.from_numpy, expected)):
            cosines = torch.cosine_similarity(found.double(), wanted.double(), dim=2)
            assert cosines.min() > COSINES[kind]
        if kind == "float32":
            check_layers(layers, expected, atol=2e-6)


def test_no_result_depends_on_its_companions(kind):
    rng = np.random.default_rng(0)
    words = [token for sentence in SENTENCES for token in sentence]
    sentences = [list(rng.choice(words, size=n)) for n in (3, 25, 1, 0, 8, 8, 14)]
    bilm = usual()
    bilm.precision = kind
    together, _ = bilm.embed(sentences, "warm")
    for i, sentence in enumerate(sentences):
        alone, _ = bilm.embed([sentence], "warm")
        if kind == "float32":
            torch.testing.assert_close(together[i], alone[0], rtol=0, atol=1e-5)
        elif sentence:
            # The order of a sum may turn the rounding of what follows.
            assert smallest_cosine([together[i]], alone) > 1 - (1 - COSINES[kind]) / 10


def test_a_row_of_integers_is_its_own():
    if not prepacked.can_multiply_int8():
        pytest.skip("this machine has no products of integers")
    torch.manual_seed(0)
    product = prepacked.make_product(torch.randn(24, 16), torch.randn(24), "int8")
    rows = torch.randn(5, 16) * torch.tensor([1e-3, 1.0, 1e3, 0.0, 1.0]).unsqueeze(1)
    together = product(rows)
    for i in range(5):
        assert torch.equal(product(rows[i : i + 1])[0], together[i])


@pytest.mark.parametrize("most", [0, prepacked.MAX_PLAIN_WEIGHTS])
def test_products(monkeypatch, kind, most):
    monkeypatch.setattr(prepacked, "MAX_PLAIN_WEIGHTS", most)
    torch.manual_seed(0)
    weight, bias, inputs = torch.randn(40, 30), torch.randn(40), torch.randn(7, 30)
    weight[3] = 0.0
    inputs[2] = 0.0
    expected = inputs @ weight.t()
    product = prepacked.make_product(weight, None, kind)
    with_bias = prepacked.make_product(weight, bias, kind)
    weight.zero_()  # it holds a copy
    sums, written = torch.ones(7, 40), torch.full((7, 40), math.nan)
    product.add_to(sums, inputs)
    product.write_to(written, inputs)
    atol = PRODUCT_ATOL[kind]
    torch.testing.assert_close(product(inputs), expected, rtol=0, atol=atol)
    torch.testing.assert_close(sums - 1, expected, rtol=0, atol=atol)
    assert torch.equal(written, product(inputs))
    torch.testing.assert_close(with_bias(inputs) - bias, expected, rtol=0, atol=atol)
    assert torch.equal(product(inputs)[2], torch.zeros(40))


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "int8"])
def test_few_numbers_of_rows(monkeypatch, kind):
    """oneDNN keeps what it compiles for each: memory grew with every new one."""
    dtype = torch.float32 if kind == "float32" else torch.bfloat16
    if not (prepacked.can_multiply_int8() if kind == "int8" else prepacked.can_prepack(dtype)):
        pytest.skip("this PyTorch or machine has no such operation")
    original, seen = prepacked.pad_rows, set()

    def counted(inputs):
        padded = original(inputs)
        assert 0 <= len(padded) - len(inputs) <= max(3, len(inputs) / 8)
        assert not padded[len(inputs) :].any()
        seen.add(len(padded))
        return padded

    monkeypatch.setattr(prepacked, "pad_rows", counted)
    monkeypatch.setattr(prepacked, "MAX_PLAIN_WEIGHTS", 0)
    torch.manual_seed(0)
    weight, inputs = torch.randn(4, 3), torch.randn(4200, 3)
    product, expected = prepacked.make_product(weight, None, kind), inputs @ weight.t()
    for n in [*range(200), *range(200, 4200, 37)]:
        result = product(inputs[:n])
        torch.testing.assert_close(result, expected[:n], rtol=0, atol=PRODUCT_ATOL[kind])
    assert 10 < len(seen) < 70


def test_both_ways_are_taken(monkeypatch, operations):
    monkeypatch.setattr(prepacked, "MAX_PLAIN_WEIGHTS", 0)
    product = prepacked.make_product(torch.randn(4, 3), None, "float32")
    is_private = isinstance(product.linear, prepacked._PackedLinear)
    assert is_private == (operations != "public")


@pytest.mark.parametrize("error", [AttributeError, RuntimeError])
def test_private_operations_that_are_gone(monkeypatch, error):
    def gone(*args):
        raise error("no such operation")

    monkeypatch.setattr(prepacked._PackedLinear, "__init__", gone)
    monkeypatch.setattr(prepacked, "_quantize_rows", gone)
    assert not prepacked.can_prepack.__wrapped__(torch.float32)
    assert not prepacked.can_multiply_int8.__wrapped__()


def test_operations_that_are_wrong(monkeypatch):
    monkeypatch.setattr(prepacked._PackedLinear, "__call__", lambda self, x, b: torch.zeros(5, 64))
    assert not prepacked.can_prepack.__wrapped__(torch.float32)
    monkeypatch.setattr(prepacked._Int8Product, "__call__", lambda self, x: torch.zeros(3, 64))
    assert not prepacked.can_multiply_int8.__wrapped__()


def test_the_next_slower_where_one_is_missing(monkeypatch, caplog):
    precision._say_once.cache_clear()
    monkeypatch.setattr(precision, "can_multiply_int8", lambda: False)
    monkeypatch.setattr(precision, "has_bfloat16", lambda device: True)
    resolve = precision.resolve_precision
    spacy_logger = logging.getLogger("spacy")
    monkeypatch.setattr(spacy_logger, "propagate", True)
    with caplog.at_level(logging.WARNING, "spacy"):
        assert [resolve("int8", CPU) for _ in range(3)] == ["bfloat16"] * 3
        assert len(caplog.records) == 1
        assert "'int8'" in caplog.text and "'bfloat16'" in caplog.text
        assert resolve("auto", CPU) == "bfloat16"
        monkeypatch.setattr(precision, "has_bfloat16", lambda device: False)
        assert resolve("auto", CPU) == "float32"
        assert len(caplog.records) == 1  # auto is no disappointment
        assert resolve("int8", CPU) == resolve("bfloat16", CPU) == "float32"
    assert len(caplog.records) == 3
    precision._say_once.cache_clear()


def test_there_is_no_such_precision():
    bilm = tiny_bilm()
    with pytest.raises(ValueError, match="bfloat16.*'float16'"):
        bilm.precision = "float16"
    with pytest.raises(ValueError, match="'int4'"):
        module.BiLM(bilm.config, precision="int4")
    assert bilm.precision == "float32"


def test_token_vectors_of_two_precisions_are_not_mixed(monkeypatch):
    monkeypatch.setattr(precision, "has_bfloat16", lambda device: True)
    bilm, words = usual(), ["a", "bc", "naïve"]
    exact, warm = bilm.token_vectors(words), bilm.warm_state()
    bilm.precision = "bfloat16"
    other, other_warm = bilm.token_vectors(words), bilm.warm_state()
    assert not torch.equal(exact, other) and not torch.equal(warm.cell, other_warm.cell)
    bilm.precision = "float32"
    assert torch.equal(bilm.token_vectors(words), exact)
    assert torch.equal(bilm.warm_state().cell, warm.cell)


@pytest.mark.parametrize("name", ["encoder.highways.0.gate.weight", "stacks.1.1.projection"])
def test_new_weights_are_packed_anew(kind, name):
    bilm, other = usual(0), usual(1)
    bilm.precision = other.precision = kind
    bilm.embed(SENTENCES)
    bilm.load_state_dict(other.state_dict())
    torch.testing.assert_close(bilm.embed(SENTENCES)[0], other.embed(SENTENCES)[0])
    before = bilm._packed
    bilm.embed(SENTENCES)
    assert bilm._packed is before  # and kept where nothing changes
    with torch.no_grad():
        bilm.get_parameter(name).mul_(-1.0)
    bilm.embed(SENTENCES)
    assert bilm._packed is not before


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda bilm: pickle.loads(pickle.dumps(bilm))])
def test_copies_lay_out_their_own(kind, copied):
    bilm = usual()
    bilm.precision = kind
    names = list(bilm.state_dict())
    expected, _ = bilm.embed(SENTENCES, "warm")
    assert list(bilm.state_dict()) == names
    other = copied(bilm)
    assert other._packed is None and other.precision == kind
    torch.testing.assert_close(other.embed(SENTENCES, "warm")[0], expected, rtol=0, atol=0)


def test_training_does_not_come_here(monkeypatch):
    bilm = tiny_bilm().requires_grad_(True)
    bilm.precision = "bfloat16"
    monkeypatch.setattr(engine.Engine, "__init__", None)  # to call it is an error
    exact = tiny_bilm().requires_grad_(True)
    got, expected = bilm.embed(SENTENCES, "warm")[0], exact.embed(SENTENCES, "warm")[0]
    assert got[0].requires_grad
    torch.testing.assert_close(got, expected, rtol=0, atol=0)


def test_a_state_that_wants_a_gradient_gets_it():
    bilm = tiny_bilm()
    start = bilm.zero_state(1)
    start.cell.requires_grad_()
    bilm.embed([["a", "b"]], start)[0][0].sum().backward()
    assert start.cell.grad.abs().sum() > 0


def test_eight_threads_at_once(kind):
    rng = np.random.default_rng(0)
    words = [f"word{i}" for i in range(60)]
    batches = [
        [list(rng.choice(words, size=n)) for n in rng.integers(0, 12, size=5)] for _ in range(48)
    ]
    alone, bilm = usual(), usual()
    alone.precision = bilm.precision = kind
    expected = [alone.embed(batch, "warm")[0] for batch in batches]
    bilm.cache.capacity = 20  # vectors come and go
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda batch: bilm.embed(batch, "warm")[0], batches))
    for got, wanted in zip(results, expected):
        if kind == "float32":
            torch.testing.assert_close(got, wanted, rtol=0, atol=1e-5)
        elif sum(map(len, batches[0])):
            assert smallest_cosine(got, wanted) > 1 - (1 - COSINES[kind]) / 10
