"""`FrozenBiLM` on each kernel, against the loops in float64 and the PyTorch module."""

import pickle
import threading

import numpy as np
import pytest
import torch

from spacy_elmo.bilm.model import BiLM
from spacy_elmo.frozen.config import BiLMConfig
from spacy_elmo.frozen.kernel import available_kernels, find_kernel
from spacy_elmo.frozen.model import FrozenBiLM
from spacy_elmo.frozen.state import FrozenState
from spacy_elmo.weights import read_weights

from helpers import reference, reference_manylangs
from helpers.models import MODELS, SENTENCES, state_arrays, tiny_bilm, tiny_options

KINDS = {
    "one direction": {"bidirectional": False},
    "highways between layers": {"connections": "highway"},
    "joined directions": {
        "projection_dim": 32,
        "joined_directions": True,
        "connections": "none",
        "sentence_marks": False,
    },
    "square projection": {"projection_dim": 32, "square_projection": True},
}


@pytest.fixture(params=available_kernels())
def kernel(request):
    return find_kernel(request.param)


def freeze(bilm, kernel=None, **settings):
    """The same weights, without PyTorch."""
    weights = {name: value.numpy() for name, value in bilm.with_weights().state_dict().items()}
    alignment = weights.pop("alignment", None)
    return FrozenBiLM(
        bilm.config,
        bilm.indexer.vocabularies,
        weights,
        alignment=alignment,
        kernel=kernel,
        **settings,
    )


def check(found, expected, atol=1e-5):
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected):
        np.testing.assert_allclose(ours, np.asarray(theirs), rtol=0, atol=atol)


@pytest.mark.parametrize("name", MODELS)
def test_all_layers_over_calls(kernel, name):
    options = tiny_options(**MODELS[name])
    data = reference.random_datasets(options, seed=len(name))
    frozen = freeze(tiny_bilm(len(name), **MODELS[name]), kernel)
    state = expected_state = None
    for sentences in (SENTENCES, SENTENCES[::-1]):
        expected, expected_state = reference.layers(options, data, sentences, expected_state)
        layers, state = frozen.embed(sentences, state)
        check(layers, expected)
        check([state.hidden, state.cell], state_arrays(expected_state))


@pytest.mark.parametrize("name", KINDS)
def test_other_kinds_are_the_torch_module(kernel, name):
    torch.manual_seed(0)
    sizes = {"lstm_dim": 32, "projection_dim": 8, "char_embed_dim": 4, "filters": [[1, 8], [3, 8]]}
    bilm = BiLM(BiLMConfig.from_dict({**sizes, **KINDS[name]}))
    with torch.no_grad():
        for weight in bilm.parameters():
            weight.normal_(std=0.2)
    bilm.requires_grad_(False).eval()
    bilm.align(torch.randn(bilm.config.width, bilm.config.width) / bilm.config.width)
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


@pytest.mark.parametrize("sizes", [{}, {"word_dim": 0}, {"char_dim": 0, "n_highway": 0}])
def test_many_langs(kernel, tmp_path, sizes):
    sizes = reference_manylangs.sizes_of(**sizes)
    if not sizes["token_embedder"]["char_dim"]:
        sizes["token_embedder"]["filters"] = []
    tensors = reference_manylangs.random_tensors(sizes)
    bilm = read_weights(reference_manylangs.write_folder(tmp_path, sizes, tensors))
    expected, _ = bilm.embed(SENTENCES)
    check(freeze(bilm, kernel).embed(SENTENCES)[0], expected)


def test_words_of_bilm_tf(kernel, tmp_path):
    options = tiny_options()
    del options["char_cnn"]
    words = ["<S>", "</S>", "<UNK>", "The", "cat", "."]
    data = reference.random_datasets(options, n_words=len(words))
    expected, _ = reference.layers(options, data, SENTENCES, words=words)
    bilm = read_weights(reference.write_hdf5(tmp_path, options, data, words))
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


def test_first_layers():
    bilm = tiny_bilm(n_layers=3)
    whole = freeze(bilm)
    lower = whole.first_layers(2)
    check(lower.embed(SENTENCES)[0], [layers[:3] for layers in whole.embed(SENTENCES)[0]], 0)
    with pytest.raises(ValueError, match="n_layers must be from 1 to 3, got 4"):
        whole.first_layers(4)


def test_nothing_to_read():
    frozen = freeze(tiny_bilm())
    layers, state = frozen.embed([])
    assert layers == []
    assert len(state) == 0
    assert frozen.token_vectors([]).shape == (0, 5)


def test_threads_share_a_model():
    frozen = freeze(tiny_bilm(), cache=3)
    expected = frozen.embed(SENTENCES)[0]
    results = []

    def embed():
        results.extend(frozen.embed(SENTENCES)[0] for _ in range(20))

    threads = [threading.Thread(target=embed) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 160
    for layers in results:
        check(layers, expected, 1e-6)


def test_pickled():
    frozen = freeze(tiny_bilm())
    expected = frozen.embed(SENTENCES)[0]
    again = pickle.loads(pickle.dumps(frozen))
    check(again.embed(SENTENCES)[0], expected, 0)
