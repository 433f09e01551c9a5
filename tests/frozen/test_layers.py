"""Layers and states of `FrozenBiLM` on each kernel, and of the PyTorch module, against loops in
float64."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from itertools import product

import numpy as np
import pytest
import torch

from spacy_elmo.bilm import model as torch_model
from spacy_elmo.bilm import token_encoder
from spacy_elmo.bilm.lstm import BiLMState
from spacy_elmo.bilm.model import BiLM
from spacy_elmo.frozen import encoder, recurrence
from spacy_elmo.frozen.kernel import available_kernels, find_kernel
from spacy_elmo.frozen.model import FrozenBiLM
from spacy_elmo.frozen.recurrence import FrozenState
from spacy_elmo.model.config import BiLMConfig
from spacy_elmo.model.indexers import CODE_POINT_SPECIAL
from spacy_elmo.model.memory import Weights
from spacy_elmo.model.packing import windows
from spacy_elmo.model.vocabulary import InputVocabulary, Vocabularies

from helpers import reference
from helpers.models import MODELS, SENTENCES, check_state, tiny_bilm, tiny_module, tiny_options
from helpers.models import check_layers as check
from helpers.rounding import ROUNDING

KERNELS = available_kernels()
# Other kinds of models; without a reference, the module is compared with the kernels.
JOINED = {"projection_dim": 32, "joined_directions": True, "connections": "none"}
KINDS = {
    "one direction": {"bidirectional": False},
    "highways between layers": {"connections": "highway"},
    "joined directions": {**JOINED, "sentence_marks": False},
    "joined directions, sentence marks, square projection": {**JOINED, "square_projection": True},
    "square projection": {"projection_dim": 32, "square_projection": True},
}
TWO_CALLS = (SENTENCES, SENTENCES[::-1])


def on_engine(bilm, engine):
    """Return a model with the same weights that a kernel or PyTorch computes."""
    if engine in KERNELS:
        return bilm.replace(kernel=find_kernel(engine))
    return BiLM.from_frozen(bilm).requires_grad_(engine == "gradients")


@pytest.fixture(params=[*KERNELS, "torch"])
def engine(request):
    return partial(on_engine, engine=request.param)


@cache  # The engines share it.
def expected_over_calls(name, start):
    options = tiny_options(**MODELS[name])
    data = reference.random_datasets(options, seed=len(name))
    state = reference.layers(options, data, [[]])[1] * len(SENTENCES) if start else None
    found = []
    for sentences in TWO_CALLS:
        layers, state = reference.layers(options, data, sentences, state)
        found.append((layers, state))
    return found


def check_over_calls(engine, name, state=None):
    model = engine(tiny_bilm(len(name), **MODELS[name]))
    for sentences, (layers, after) in zip(TWO_CALLS, expected_over_calls(name, state)):
        found, state = model.embed(sentences, state)
        if isinstance(model, BiLM):
            found, state = [values.detach() for values in found], state.detach()
        check(found, layers)
        check_state(state, after)


@pytest.mark.parametrize(("name", "start"), [*((name, None) for name in MODELS), ("usual", "warm")])
def test_layers_and_states_equal_the_loop_over_calls(engine, name, start):
    check_over_calls(engine, name, start)


def test_layers_with_gradients_equal_the_loop():
    """All sentences are in one window."""
    check_over_calls(partial(on_engine, engine="gradients"), "narrow clips")


@pytest.mark.parametrize("size", [1, 3, 7])
def test_windows_do_not_change_layers(engine, monkeypatch, size):
    for module, names in {
        recurrence: "TOKEN_TYPES LAYER_ITEMS",
        encoder: "ENCODER_TOKENS",
        torch_model: "WINDOW_ITEMS ENCODER_TOKENS",
        token_encoder: "CONVOLVED_TOKENS",
    }.items():
        for name in names.split():
            monkeypatch.setattr(module, name, size)
    calls = []
    for module in (recurrence, torch_model):
        count = lambda *args: (calls.append(each) or each for each in windows(*args))  # noqa: E731
        monkeypatch.setattr(module, "windows", count)
    check_over_calls(engine, "usual")
    # One for each direction and call, of a kernel also for each layer, is without windows.
    assert len(calls) > 8


@pytest.mark.parametrize("name", KINDS)
def test_other_kinds_of_models_equal_the_torch_module(name):
    torch.manual_seed(0)
    sizes = {"lstm_dim": 32, "projection_dim": 8, "char_embed_dim": 4, "filters": [[1, 8], [3, 8]]}
    bilm = BiLM(BiLMConfig.from_dict({**sizes, **KINDS[name]}))
    with torch.no_grad():
        for weight in bilm.parameters():
            weight.normal_(std=0.2)
    bilm.requires_grad_(False).eval()
    bilm.alignment = torch.randn(bilm.config.width, bilm.config.width) / bilm.config.width
    frozen = [bilm.freeze().replace(kernel=find_kernel(kernel)) for kernel in KERNELS]
    for how in product((None, "warm"), (False, True)):
        expected, after = bilm.embed(SENTENCES, how[0], keep_marks=how[1])
        again, _ = bilm.embed(SENTENCES, after)
        for model in frozen:
            layers, ours = model.embed(SENTENCES, how[0], keep_marks=how[1])
            check(layers, expected)
            check([ours.hidden, ours.cell], [after.hidden, after.cell])
            check(model.embed(SENTENCES, ours)[0], again)


@pytest.mark.parametrize("n_layers", [1, 3])
def test_highways_equal_the_formula_in_float64(n_layers):
    options = tiny_options(n_layers=n_layers)
    plain = tiny_module(3, n_layers=n_layers)
    torch.manual_seed(0)
    bilm = BiLM(replace(plain.config, connections="highway"))
    bilm.load_state_dict({**bilm.state_dict(), **plain.state_dict()})
    bilm.requires_grad_(False)
    gates = [[(h.gate.weight, h.gate.bias.uniform_(-2.0, 2.0)) for h in s] for s in bilm.highways]
    assert [len(stack) for stack in gates] == [n_layers - 1] * 2
    gates = [[tuple(weight.double().numpy() for weight in one) for one in s] for s in gates]
    data = reference.random_datasets(options, seed=3)
    layers, state = bilm.embed(SENTENCES)
    expected, after = reference.layers(options, data, SENTENCES, gates=gates)
    check(layers, expected)
    check_state(state, after)


def test_the_first_marks_run_once(monkeypatch):
    """After its first mark every sentence is in the same state, from zeros or warm."""
    frozen, sizes = tiny_bilm(), []
    original = recurrence.FrozenStacks.run
    monkeypatch.setattr(
        recurrence.FrozenStacks, "run", lambda *args: sizes.append(args[3]) or original(*args)
    )
    for state in (None, "warm"):
        for _ in range(3):
            frozen.embed([["a", "b"], []], state)
    # Zeros: a mark, then without it; warm: an empty sentence, a mark, then without it.
    assert sizes == [[1], *[[2, 1, 1]] * 3, [1], [1], *[[2, 1, 1]] * 3]
    check(frozen.embed([["a"]], frozen.zero_state(1))[0], frozen.embed([["a"]])[0])


@pytest.mark.parametrize(
    ("kernel", "precision"),
    [("numpy", "float32"), *product(KERNELS[1:], ["float32", "bfloat16", "int8"])],
)
def test_no_sentence_depends_on_the_others(kernel, precision):
    """The results are equal bit for bit, except for BLAS, which sums in another order for another
    number of rows."""
    atol = ROUNDING if kernel == "numpy" else 0
    model = tiny_bilm().replace(kernel=find_kernel(kernel), precision=precision, cache=0)
    _, state = model.embed([["x"] * (n % 7) for n in range(25)])
    together, after = model.embed(SENTENCES * 5, state)
    for i, sentence in enumerate(SENTENCES * 5):
        alone, alone_after = model.embed([sentence], state.rows([i]))
        check(alone, [together[i]], atol)
        check([alone_after.cell], [after.rows([i]).cell], atol)


@pytest.fixture(scope="module")
def many_characters():
    """Return a model with more characters than have tables computed once."""
    sizes = {"token_encoder": "manylangs", "n_characters": 700, "char_embed_dim": 50}
    sizes |= {"filters": [[1, 8], [3, 20]], "lstm_dim": 24, "projection_dim": 12}
    known = [*CODE_POINT_SPECIAL, *map(chr, range(0x4E00, 0x50B6))]
    bilm = BiLM(BiLMConfig.from_dict(sizes), Vocabularies(InputVocabulary(known), None))
    with torch.no_grad():
        for weight in bilm.parameters():
            weight.normal_(std=0.3)
    return bilm.freeze()


@pytest.mark.parametrize("kernel", KERNELS[1:])
@pytest.mark.parametrize("is_aligned", [False, True])
def test_many_characters_and_alignment_do_not_depend_on_the_batch(
    many_characters, kernel, is_aligned
):
    """The results are equal bit for bit, in any order of the cache."""
    rng = np.random.default_rng(0)
    width = many_characters.config.width
    matrix = rng.normal(0, 1, (width, width)).astype("float32") if is_aligned else None
    changes = {"kernel": find_kernel(kernel), "alignment": matrix}
    words = ["".join(map(chr, rng.integers(0x4E00, 0x50B6, n))) for n in [1, 2, 3, 5] * 80]
    sentences = [words[i : i + 1 + i % 5] for i in range(0, 320, 5)]
    together, _ = many_characters.replace(cache=500, **changes).embed(sentences)
    other = many_characters.replace(cache=499, **changes)
    for i in rng.permutation(len(sentences)):
        check(other.embed([sentences[i]])[0], [together[i]], 0)


def test_rows_of_states_can_be_selected_and_joined(engine):
    with torch.no_grad():
        _, state = engine(tiny_bilm()).embed(SENTENCES, "warm")
    joined = type(state).concatenate([state.rows([1, 2]), state.rows(np.array([0]))])
    assert len(joined) == 3
    both = ([each.hidden, each.cell] for each in (joined, state))
    for ours, whole in zip(*both):
        np.testing.assert_array_equal(ours, whole[:, :, [1, 2, 0]])


@pytest.mark.parametrize("dtype", ["int64", "float64", "float16"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_states_of_other_types_are_accepted(kernel, dtype):
    """They do not change, and results are not rounded to their type."""
    model = tiny_bilm().replace(kernel=find_kernel(kernel))
    zeros = model.zero_state(len(SENTENCES))
    ones = FrozenState(zeros.hidden + 1, zeros.cell + 2)
    given = FrozenState(ones.hidden.astype(dtype), ones.cell.astype(dtype))
    expected, wanted = model.embed(SENTENCES, ones)
    layers, after = model.embed(SENTENCES, given)
    check(layers, expected, 0)
    for name in ("hidden", "cell"):
        np.testing.assert_array_equal(getattr(given, name), getattr(ones, name))
        np.testing.assert_array_equal(getattr(after, name), getattr(wanted, name))


@pytest.mark.parametrize("name", ["stacks.1.0.state_weight", "stacks.0.1.projection", "hidden"])
def test_nan_in_weights_or_states_is_named(engine, name):
    """Gates and clips do not hide it, in every kernel and in PyTorch."""
    bilm, state = tiny_bilm(), None
    arrays = {key: np.array(values) for key, values in bilm.arrays().items()}
    if name == "hidden":
        state = bilm.zero_state(len(SENTENCES))
        state.hidden[0, 1, 0, 2] = np.nan
    else:
        arrays[name][3, 2] = np.nan
    model = engine(FrozenBiLM(bilm.config, bilm.vocabularies, Weights(arrays)))
    if isinstance(model, BiLM) and state is not None:
        state = BiLMState(torch.from_numpy(state.hidden), torch.from_numpy(state.cell))
    with pytest.raises(ValueError, match="vectors that are not finite"):
        model.embed(SENTENCES, state)


def test_wrong_states_are_named(engine):
    model = engine(tiny_bilm())
    with pytest.raises(ValueError, match=r"must be None, 'warm' or a \w+State, got 'cold'"):
        model.embed(SENTENCES, "cold")
    with pytest.raises(ValueError, match=r"hidden .*\(2, 2, 3, 5\).* 2 sentences .*\(2, 2, 2, 5\)"):
        model.embed([["a"], ["b"]], model.zero_state(3))
    good = model.zero_state(1)
    with pytest.raises(ValueError, match=r"cell .*\(2, 2, 1, 5\).*\(2, 2, 1, 12\)"):
        model.embed([["a"]], replace(good, cell=good.hidden))


def test_empty_input_gives_empty_layers(engine):
    model = engine(tiny_bilm())
    layers, state = model.embed([])
    assert (layers, len(state)) == ([], 0)
    assert tuple(model.token_vectors([]).shape) == (0, 5)
    layers, _ = model.embed([[], []], "warm")
    assert [tuple(layer.shape) for layer in layers] == [(3, 0, 10)] * 2


@pytest.mark.threads
def test_threads_share_a_model():
    frozen = tiny_bilm().replace(cache=3)
    expected = frozen.embed(SENTENCES)[0]
    with ThreadPoolExecutor(8) as pool:
        for layers, _ in pool.map(frozen.embed, [SENTENCES] * 160):
            check(layers, expected)
