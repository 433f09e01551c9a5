"""`FrozenBiLM` on each kernel, against the loops in float64 and the PyTorch module."""

import hashlib
import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest
import torch

from spacy_elmo.bilm.model import BiLM
from spacy_elmo.frozen import encoder, recurrence
from spacy_elmo.frozen.config import BiLMConfig
from spacy_elmo.frozen.kernel import available_kernels, find_kernel
from spacy_elmo.frozen.memory import Weights
from spacy_elmo.frozen.model import FrozenBiLM
from spacy_elmo.frozen.packing import windows
from spacy_elmo.frozen.recurrence import FrozenState
from spacy_elmo.weights import read_weights

from helpers import reference, reference_manylangs
from helpers.models import MODELS, SENTENCES, check_state, tiny_bilm, tiny_options
from helpers.models import check_layers as check

KINDS = {
    "one direction": {"bidirectional": False},
    "highways between layers": {"connections": "highway"},
    "joined directions": {
        "projection_dim": 32,
        "joined_directions": True,
        "connections": "none",
        "sentence_marks": False,
    },
    "joined directions, sentence marks, square projection": {
        "projection_dim": 32,
        "joined_directions": True,
        "connections": "none",
        "square_projection": True,
    },
    "square projection": {"projection_dim": 32, "square_projection": True},
}


@pytest.fixture(params=available_kernels())
def kernel(request):
    return find_kernel(request.param)


def freeze(bilm, kernel=None, **settings):
    """The same weights on a kernel."""
    frozen = bilm if isinstance(bilm, FrozenBiLM) else bilm.freeze()
    return frozen.replace(kernel=kernel or find_kernel(), **settings)


TWO_CALLS = (SENTENCES, SENTENCES[::-1])


@cache  # The kernels share it.
def expected_over_calls(name):
    options = tiny_options(**MODELS[name])
    data = reference.random_datasets(options, seed=len(name))
    found, state = [], None
    for sentences in TWO_CALLS:
        layers, state = reference.layers(options, data, sentences, state)
        found.append((layers, state))
    return found


@pytest.mark.parametrize("name", MODELS)
def test_all_layers_over_calls(kernel, name):
    frozen = freeze(tiny_bilm(len(name), **MODELS[name]), kernel)
    state = None
    for sentences, expected in zip(TWO_CALLS, expected_over_calls(name), strict=True):
        layers, state = frozen.embed(sentences, state)
        check(layers, expected[0])
        check_state(state, expected[1])


@pytest.mark.parametrize("name", KINDS)
def test_other_kinds_are_the_torch_module(kernel, name):
    torch.manual_seed(0)
    sizes = {"lstm_dim": 32, "projection_dim": 8, "char_embed_dim": 4, "filters": [[1, 8], [3, 8]]}
    bilm = BiLM(BiLMConfig.from_dict({**sizes, **KINDS[name]}))
    with torch.no_grad():
        for weight in bilm.parameters():
            weight.normal_(std=0.2)
    bilm.requires_grad_(False).eval()
    bilm.alignment = torch.randn(bilm.config.width, bilm.config.width) / bilm.config.width
    frozen = freeze(bilm, kernel)
    for state in (None, "warm"):
        for keep_marks in (False, True):
            expected, after = bilm.embed(SENTENCES, state, keep_marks=keep_marks)
            layers, ours = frozen.embed(SENTENCES, state, keep_marks=keep_marks)
            check(layers, expected)
            check([ours.hidden, ours.cell], [after.hidden, after.cell])
    again, ours = frozen.embed(SENTENCES, ours)
    expected, _ = bilm.embed(SENTENCES, after)
    check(again, expected)


@pytest.mark.parametrize("sizes", [{}, {"word_dim": 0}, {"char_dim": 0}])
def test_many_langs(kernel, tmp_path, sizes):
    bilm = read_weights(reference_manylangs.write_random(tmp_path, **sizes))
    expected, _ = bilm.embed(SENTENCES)
    check(freeze(bilm, kernel).embed(SENTENCES)[0], expected)


def test_what_stands_beside_a_sentence_is_no_matter():
    """Bit by bit, in batches of any size and order."""
    frozen = freeze(tiny_bilm())
    if frozen.kernel.name == "numpy":
        pytest.skip("BLAS sums in another order for another number of rows")
    alone = [frozen.embed([sentence])[0][0] for sentence in SENTENCES]
    for sentences in (SENTENCES, SENTENCES * 5):
        for layers, expected in zip(frozen.embed(sentences)[0], alone):
            assert layers.tobytes() == expected.tobytes()


def test_wrong_states():
    frozen = freeze(tiny_bilm())
    with pytest.raises(ValueError, match="must be None, 'warm' or a FrozenState, got 'cold'"):
        frozen.embed(SENTENCES, "cold")
    with pytest.raises(ValueError, match=r"hidden state has shape .*, but 5 sentences"):
        frozen.embed(SENTENCES, frozen.zero_state(4))
    joined = FrozenState.concatenate([frozen.zero_state(2), frozen.warm_state()])
    assert len(joined) == 3
    assert joined.rows([2]).cell.any()


def test_nothing_to_read():
    frozen = freeze(tiny_bilm())
    layers, state = frozen.embed([])
    assert layers == []
    assert len(state) == 0
    assert frozen.token_vectors([]).shape == (0, 5)


def test_threads_share_a_model():
    frozen = freeze(tiny_bilm(), cache=3)
    expected = frozen.embed(SENTENCES)[0]
    with ThreadPoolExecutor(8) as pool:
        for layers, _ in pool.map(frozen.embed, [SENTENCES] * 160):
            check(layers, expected, 1e-6)


@cache
def expected_of_the_second_call():
    options = tiny_options()
    data = reference.random_datasets(options)
    _, start = reference.layers(options, data, SENTENCES)
    return reference.layers(options, data, SENTENCES, start)


@pytest.mark.parametrize("size", [1, 3, 7])
def test_windows_change_nothing(kernel, monkeypatch, size):
    expected, after = expected_of_the_second_call()
    for module, name in (
        (recurrence, "TOKEN_TYPES"),
        (recurrence, "LAYER_ITEMS"),
        (encoder, "ENCODER_TOKENS"),
    ):
        monkeypatch.setattr(module, name, size)
    calls = []
    monkeypatch.setattr(
        recurrence,
        "windows",
        lambda *args: (calls.append(window) or window for window in windows(*args)),
    )
    frozen = freeze(tiny_bilm(), kernel)
    _, state = frozen.embed(SENTENCES)
    layers, state = frozen.embed(SENTENCES, state)
    check(layers, expected)
    check_state(state, after)
    assert len(calls) > 8  # one for each direction, layer and call is without windows


def test_the_first_marks_run_once(monkeypatch):
    """From zeros or warm, every sentence is in the same state after its first mark."""
    frozen, sizes = freeze(tiny_bilm()), []
    original = recurrence.FrozenStacks.run
    monkeypatch.setattr(
        recurrence.FrozenStacks, "run", lambda *args: sizes.append(args[3]) or original(*args)
    )
    for state in (None, "warm"):
        for _ in range(3):
            frozen.embed([["a", "b"], []], state)
    # Zeros: a mark, then without it; warm: an empty sentence, a mark, then without it.
    assert sizes == [[1], *[[2, 1, 1]] * 3, [1], [1], *[[2, 1, 1]] * 3]
    check(frozen.embed([["a"]], frozen.zero_state(1))[0], frozen.embed([["a"]])[0], 1e-6)


def test_no_result_depends_on_its_companions(kernel):
    rng = np.random.default_rng(0)
    words = [token for sentence in SENTENCES for token in sentence]
    sentences = [list(rng.choice(words, size=n)) for n in (3, 25, 1, 0, 8, 8, 14)]
    frozen = freeze(tiny_bilm(), kernel)
    _, state = frozen.embed([["x"] * n for n in range(7)])
    together, after = frozen.embed(sentences, state)
    for i, sentence in enumerate(sentences):
        alone, alone_after = frozen.embed([sentence], state.rows([i]))
        check(alone, [together[i]])
        check([alone_after.cell], [after.rows([i]).cell])


def test_thawed_and_frozen_again():
    """Bit for bit; each has its own copy of the weights."""
    aligned = np.eye(10, dtype="float32")[::-1].copy()
    frozen = freeze(tiny_bilm(), alignment=aligned, provenance={"tokens": 3})
    module = frozen.thaw()
    assert not module.training
    assert all(weight.requires_grad for weight in module.parameters())
    again = module.freeze()
    for model in (again, again.thaw().freeze()):
        assert model.checksum() == frozen.checksum() == module.checksum()
        assert model.provenance == {"tokens": 3}
        assert model.config == frozen.config
        found = model.replace(kernel=frozen.kernel).embed(SENTENCES)[0]
        check(found, frozen.embed(SENTENCES)[0], 0)
    check([x.detach() for x in module.embed(SENTENCES)[0]], frozen.embed(SENTENCES)[0])
    with torch.no_grad():
        for weight in module.parameters():
            weight.zero_()
    for model in (frozen, again):
        assert all(values.any() for values in model.arrays().values())
    assert module.freeze().checksum() != frozen.checksum()


def test_first_layers_and_pickled():
    whole = freeze(tiny_bilm(n_layers=3))
    expected = whole.embed(SENTENCES)[0]
    check(whole.first_layers(2).embed(SENTENCES)[0], [layers[:3] for layers in expected], 0)
    check(pickle.loads(pickle.dumps(whole)).embed(SENTENCES)[0], expected, 0)
    for n_layers in (0, 4):
        with pytest.raises(ValueError, match=f"n_layers must be from 1 to 3, got {n_layers}"):
            whole.first_layers(n_layers)


def test_checksum_by_its_definition(tmp_path):
    folder = reference_manylangs.write_random(tmp_path)
    for model in (tiny_bilm(), halved(tiny_bilm()), read_weights(folder)):
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


def halved(bilm):
    """The weights rounded to float16, and stored so."""
    arrays = {name: values.astype("float16") for name, values in bilm.arrays().items()}
    return FrozenBiLM(bilm.config, bilm.vocabularies, Weights(arrays))


@pytest.mark.parametrize("changes", [{}, {"n_highway": 2, "activation": "tanh"}])
def test_float16_is_float32_bit_for_bit(kernel, changes):
    short = halved(tiny_bilm(**changes))
    arrays = {name: values.astype("float32") for name, values in short.arrays().items()}
    wide = FrozenBiLM(short.config, short.vocabularies, Weights(arrays), kernel=kernel)
    short = short.replace(kernel=kernel)
    assert short.checksum() == wide.checksum()
    for state in (None, "warm"):
        check(short.embed(SENTENCES, state)[0], wide.embed(SENTENCES, state)[0], 0)
        check(short.embed(SENTENCES * 9, state)[0], wide.embed(SENTENCES * 9, state)[0], 0)


def test_replaced_settings():
    frozen = freeze(tiny_bilm(), cache=7)
    before = frozen.embed(SENTENCES)[0]
    same = frozen.replace(provenance={"tokens": 3})
    assert same.cache is frozen.cache  # known vectors stay known
    assert (same.provenance, frozen.provenance["source"]) == ({"tokens": 3}, "weights.hdf5")
    check(same.embed(SENTENCES)[0], before, 0)
    small = frozen.replace(cache=2)
    small.embed(SENTENCES)
    assert len(small.cache) == 2 and len(frozen.cache) == 7
    matrix = np.random.default_rng(0).standard_normal((10, 10)).astype("float32")
    aligned = frozen.replace(alignment=matrix)
    check(aligned.embed(SENTENCES)[0], [layers @ matrix.T for layers in before])
    assert aligned.checksum() != frozen.checksum()
    check(aligned.replace(alignment=None).embed(SENTENCES)[0], before, 0)
    assert aligned.replace(alignment=None).checksum() == frozen.checksum()
    numpy = frozen.replace(kernel=find_kernel("numpy"))
    check(numpy.embed(SENTENCES)[0], before)
    with pytest.raises(ValueError, match="precision"):
        frozen.replace(precision="float8")
    with pytest.raises(TypeError, match="n_layers"):
        frozen.replace(n_layers=1)
    check(frozen.embed(SENTENCES)[0], before, 0)


def test_what_modules_have_is_explained():
    frozen = freeze(tiny_bilm())
    for name in ("parameters", "state_dict", "requires_grad_", "to", "train"):
        with pytest.raises(AttributeError, match=rf"no attribute '{name}'.*thaw.*set_bilm"):
            getattr(frozen, name)
    with pytest.raises(AttributeError, match="no attribute 'parts'"):
        _ = frozen.parts
