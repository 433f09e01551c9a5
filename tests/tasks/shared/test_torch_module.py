import pickle
import random
from functools import partial

import numpy as np
import pytest
import srsly
import torch
from safetensors.torch import save
from thinc.api import Adam, Model
from torch import nn

from spacy_elmo.tasks.coref.model import build_coref
from spacy_elmo.tasks.shared.encoders import build_birnn
from spacy_elmo.tasks.shared.highway_lstm import build_highway_lstm
from spacy_elmo.tasks.shared.recurrent import (
    BidirectionalRNN,
    VariationalDropout,
    pad,
    run_gru,
)
from spacy_elmo.tasks.shared.text_layer import by_padded
from spacy_elmo.tasks.shared.torch_module import ModuleShim, get_module_shim, run_module
from spacy_elmo.tasks.textcat import build_bcn
from spacy_elmo.tasks.texts.models import build_bidaf, build_esim

from helpers.calls import note_calls


class TwoLinear(nn.Module):
    def __init__(self, nI, nO, bias):
        super().__init__()
        self.first, self.second = nn.Linear(nI, nO, bias), nn.Linear(nI, nO, bias)


def forward(model, X, is_train):
    return run_module(model, X, is_train, compute)


def compute(module, tensors):
    return [module.first(tensors[0]), module.first(tensors[0]) * module.second(tensors[1])]


@pytest.fixture
def model():
    torch.manual_seed(0)
    model = Model("two_linear", forward, shims=[ModuleShim(partial(TwoLinear, bias=True))])
    get_module_shim(model).create(nI=3, nO=2)
    return model


@pytest.fixture
def inputs():
    rng = np.random.default_rng(0)
    return [rng.normal(size=(4, 3)).astype("float32") for _ in range(2)]


def numpy_outputs(state, inputs):
    weights = {name: value.numpy().astype("float64") for name, value in state.items()}
    first = inputs[0] @ weights["first.weight"].T + weights["first.bias"]
    second = inputs[1] @ weights["second.weight"].T + weights["second.bias"]
    return [first, first * second]


def test_outputs_and_gradients(model, inputs):
    outputs, backprop = model(inputs, is_train=True)
    state = get_module_shim(model).module.state_dict()
    for got, wanted in zip(outputs, numpy_outputs(state, inputs)):
        np.testing.assert_allclose(got, wanted, atol=1e-6)
    rng = np.random.default_rng(1)
    d_outputs = [rng.normal(size=y.shape).astype("float32") for y in outputs]
    got = backprop(d_outputs)

    def loss(wide):
        return sum((d * y).sum() for d, y in zip(d_outputs, numpy_outputs(state, wide)))

    for number, place in [(0, (1, 2)), (1, (3, 0))]:
        ends = []
        for step in (1e-5, -1e-5):
            moved = [x.astype("float64") for x in inputs]
            moved[number][place] += step
            ends.append(loss(moved))
        np.testing.assert_allclose(got[number][place], (ends[0] - ends[1]) / 2e-5, rtol=1e-4)


def test_copies_have_optimizers_states_of_their_own(model, inputs):
    """Adam knows parameters by the id of what holds them."""
    twin = model.copy()
    assert get_module_shim(twin).id != get_module_shim(model).id
    optimizer = Adam(0.1, use_averages=True)
    for one, sign in ((model, 1.0), (twin, -1.0)):
        outputs, backprop = one(inputs, is_train=True)
        backprop([sign * np.ones_like(y) for y in outputs])
        one.finish_update(optimizer)
    weights = [get_module_shim(one).module.first.weight.detach().clone() for one in (model, twin)]
    with model.use_params(optimizer.averages), twin.use_params(optimizer.averages):
        averages = [get_module_shim(one).module.first.weight for one in (model, twin)]
        assert not torch.equal(*averages)
    assert not torch.equal(*weights)


def test_bytes_and_copies_make_the_module_again(model, inputs):
    other = Model("two_linear", forward, shims=[ModuleShim(partial(TwoLinear, bias=True))])
    with pytest.raises(ValueError, match="not initialized"):
        other.predict(inputs)
    other.from_bytes(model.to_bytes())
    for copied in (other, pickle.loads(pickle.dumps(model)), model.copy()):
        for got, wanted in zip(copied.predict(inputs), model.predict(inputs)):
            np.testing.assert_array_equal(got, wanted)
    empty = Model("two_linear", forward, shims=[ModuleShim(TwoLinear)])
    assert get_module_shim(empty).from_bytes(get_module_shim(empty).to_bytes()) is not None


def architectures():
    """Every layer of the tasks that holds a PyTorch module, and the sizes that it is made of."""
    none = Model("none", forward)
    pairs = {"tok2vec": none, "width": 4, "max_batch_tokens": 9}
    return [
        (build_birnn(4), {"nI": 3, "nO": 4}),
        (build_birnn(4, cell="gru"), {"nI": 3, "nO": 4}),
        (build_bcn(none, maxout_widths=[3, 2]), {"nI": 3, "nE": 2, "nO": 2}),
        (build_esim(**pairs), {"nI": 3, "nE": 0, "nO": 2}),
        (build_bidaf(**pairs), {"nI": 3, "nE": 1}),
        (build_coref(none, hidden_width=3, encoder_width=4).get_ref("head"), {"nI": 3}),
    ]


@pytest.mark.parametrize("number", range(6))
def test_saved_sizes_are_compared_before_there_is_memory_for_them(number):
    """With these, a module of its own would need terabytes."""
    model, sizes = architectures()[number]
    shim = get_module_shim(model)
    shim.create(**sizes)
    saved = shim.to_bytes()
    before = {name: value.clone() for name, value in shim.module.state_dict().items()}
    after = shim.from_bytes(saved).module.state_dict()
    assert list(after) == list(before)
    for name, value in after.items():
        assert torch.equal(value, before[name])
    assert all(value.requires_grad for value in shim.module.parameters())
    message = srsly.msgpack_loads(saved)
    for name in sizes:
        for size in (10**12, 2**62, -1, 2.5, "9"):
            data = srsly.msgpack_dumps({**message, "config": {**sizes, name: size}})
            with pytest.raises(ValueError, match=f"task's model.*{name}"):
                shim.from_bytes(data)
    assert shim.cfg == sizes


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"config": {"nI": 3, "hidden_depth": 10**9}}, "'hidden_depth' cannot be one of its sizes"),
        ({"config": {"nI": 3, "nO": 3}}, "nO"),
        ({"config": {}}, "nI"),
        ({"config": 3}, "no sizes"),
        ({"state": 10**11}, "{'nI': 3}"),
        ({"state": b"\xff" * 64}, "{'nI': 3}"),
        ({"state": save({})}, "SpanRanker: tensor 'encoder.rnn.weight_ih_l0' is missing"),
        ({"state": save({"x": torch.zeros(2)})}, r"SpanRanker: tensor 'x' \(2,\) does not belong"),
    ],
)
def test_what_is_saved_otherwise_is_refused(changes, named):
    shim = get_module_shim(build_coref(Model("none", forward), hidden_width=3).get_ref("head"))
    shim.create(nI=3)
    message = srsly.msgpack_loads(shim.to_bytes())
    with pytest.raises(ValueError, match=named):
        shim.from_bytes(srsly.msgpack_dumps({**message, **changes}))


def test_settings_that_do_not_go_with_what_is_saved():
    """As where somebody changes a size in config.cfg."""
    shims = [
        get_module_shim(build_coref(Model("none", forward), hidden_width=width).get_ref("head"))
        for width in (3, 10**9)
    ]
    shims[0].create(nI=3)
    with pytest.raises(
        ValueError, match=r"'mention.0.weight' has shape \(3, .*According to the config"
    ):
        shims[1].from_bytes(shims[0].to_bytes())


def test_averages_of_the_optimizer_are_used_and_put_back(model, inputs):
    optimizer = Adam(0.1, use_averages=True)
    before = [y.copy() for y in model.predict(inputs)]
    for _ in range(3):
        outputs, backprop = model(inputs, is_train=True)
        backprop(outputs)
        model.finish_update(optimizer)
    after = [y.copy() for y in model.predict(inputs)]
    state = {
        name: torch.from_numpy(optimizer.averages[model.shims[0].id, name])
        for name, _ in model.shims[0].module.named_parameters()
    }
    with model.use_params(optimizer.averages):
        for got, wanted in zip(model.predict(inputs), numpy_outputs(state, inputs)):
            np.testing.assert_allclose(got, wanted, atol=1e-6)
    np.testing.assert_array_equal(model.predict(inputs)[0], after[0])
    assert np.abs(after[0] - before[0]).max() > 0.01


@pytest.mark.parametrize("lengths", [(2, 5, 0, 1), (4, 4), (1,), (0,), (0, 0, 30)])
def test_both_directions_of_a_gru_together_equal_pytorch(lengths):
    """Outputs and gradients of both directions by batched products, and of PyTorch's layer."""
    torch.manual_seed(0)
    layer = BidirectionalRNN(3, 8, "gru").double()
    padded, mask = pad([torch.randn(n, 3).double() for n in lengths])
    weights = torch.randn(*mask.shape, 8).double()
    found, wanted = [], []
    ours = partial(run_gru, layer.rnn)
    for results, function in ((found, ours), (wanted, layer.run_of_pytorch)):
        x = padded.clone().requires_grad_()
        outputs = function(x, mask)
        gradients = torch.autograd.grad((outputs * weights).sum(), [x, *layer.parameters()])
        results += [outputs, *gradients]
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)
    assert torch.equal(layer(padded, mask), found[0])
    assert found[1].any() == any(lengths)


def test_few_tokens_at_a_time(monkeypatch):
    """Sequences of very different lengths are read in groups, each as if it were alone."""
    monkeypatch.setattr("spacy_elmo.tasks.shared.recurrent.MAX_RNN_TOKENS", 12)
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 3)).astype("float32") for n in (1, 9, 0, 2, 20, 2, 3)]
    layer = build_birnn(4)
    layer.initialize(X=X)
    sizes = note_calls(monkeypatch, BidirectionalRNN, "forward", lambda _, x, mask: mask.numel())
    found, backprop = layer(X, is_train=True)
    assert max(sizes) == 20 and sorted(sizes)[-2] <= 12
    d_X = backprop([np.ones_like(y) for y in found])
    for x, y, d_x in zip(X, found, d_X):
        alone, backprop_alone = layer([x], is_train=True)
        np.testing.assert_allclose(y, alone[0], atol=1e-6)
        np.testing.assert_allclose(d_x, backprop_alone([np.ones_like(y)])[0], atol=1e-6)


def test_only_empty_sequences():
    padded, mask = pad([torch.randn(0, 3)])
    assert padded.shape == (1, 1, 3) and not mask.any()
    assert not BidirectionalRNN(3, 2)(padded, mask).any()


def test_variational_dropout_has_one_mask_a_sequence():
    torch.manual_seed(0)
    x = torch.ones(200, 5, 10)
    layer = VariationalDropout(0.25)
    found = layer.train()(x)
    assert (found == found[:, :1]).all()
    torch.testing.assert_close(found.unique(), torch.tensor([0.0, 1 / 0.75]))
    assert abs((found == 0).float().mean() - 0.25) < 0.04
    assert layer.eval()(x) is x


@pytest.mark.parametrize(
    ("build", "settings", "named"),
    [
        (build_birnn, {"width": 5}, "width .*5"),
        (build_birnn, {"width": 4, "depth": 0}, "depth .*0"),
        (build_birnn, {"width": 4, "cell": "rnn"}, "'rnn'"),
        (build_birnn, {"width": 4, "dropout": 1.0}, "got 1.0"),
        (build_highway_lstm, {"width": 6, "directions": "both"}, "directions.*'both'"),
        (build_highway_lstm, {"width": 6, "depth": 0}, "depth .*0"),
        (build_highway_lstm, {"width": 5, "directions": "bidirectional"}, "width .*5"),
        (build_highway_lstm, {"width": 6, "dropout": 1.0}, r"1\.0"),
        (build_bcn, {"tok2vec": Model("none", forward), "hidden_width": 0}, "hidden_width.*got 0"),
        (build_bcn, {"tok2vec": Model("none", forward), "maxout_widths": [3, 0]}, "0"),
        (build_bcn, {"tok2vec": Model("none", forward), "dropout": 1}, "got 1"),
    ],
)
def test_impossible_settings(build, settings, named):
    with pytest.raises(ValueError, match=named):
        build(**settings)


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
