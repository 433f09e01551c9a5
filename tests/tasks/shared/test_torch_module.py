"""The layers of PyTorch that the tasks share, and what is saved of them."""

import random
from functools import partial

import numpy as np
import pytest
import srsly
import torch
from safetensors.torch import save
from thinc.api import Adam, Model

from spacy_elmo.tasks.coref.model import build_coref
from spacy_elmo.tasks.shared.encoders import build_birnn
from spacy_elmo.tasks.shared.recurrent import BidirectionalRNN, VariationalDropout, pad, run_gru
from spacy_elmo.tasks.shared.text_layer import by_padded
from spacy_elmo.tasks.shared.torch_module import get_module_shim
from spacy_elmo.tasks.textcat import build_bcn
from spacy_elmo.tasks.texts.models import build_bidaf, build_esim

from helpers.calls import note_calls
from helpers.models import check_refused

NONE = Model("none", lambda model, X, is_train: (X, lambda dX: dX))


def layer(lengths=(4, 2)):
    """A biLSTM, and inputs."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 3)).astype("float32") for n in lengths]
    return build_birnn(4).initialize(X=X), X


@pytest.mark.training
def test_each_copy_has_its_own_averages():
    """Adam knows parameters by the id of the object that contains them."""
    model, X = layer()
    optimizer = Adam(0.1, use_averages=True)
    models = (model, model.copy())
    for one, other in zip(*(one.predict(X) for one in models)):
        np.testing.assert_array_equal(one, other)
    for one, sign in zip(models, (1.0, -1.0)):
        for _ in range(3):
            outputs, backprop = one(X, is_train=True)
            backprop([sign * np.ones_like(y) for y in outputs])
            one.finish_update(optimizer)
    found = []
    for one in models:
        shim, expected = get_module_shim(one), one.copy()
        weights = get_module_shim(expected).module
        for name, values in weights.named_parameters():
            values.data = torch.from_numpy(optimizer.averages[shim.id, name])
        after = one.predict(X)[0].copy()
        with one.use_params(optimizer.averages):
            averaged = one.predict(X)[0].copy()
        np.testing.assert_allclose(averaged, expected.predict(X)[0], atol=1e-6)
        np.testing.assert_array_equal(one.predict(X)[0], after)
        found += [after, averaged]
    for i, one in enumerate(found):
        assert all(np.abs(one - other).max() > 0.01 for other in found[:i])


# Every layer of the tasks that holds a PyTorch module, and the sizes that it is made of.
TEXTS = {"tok2vec": NONE, "width": 4, "max_batch_tokens": 9}
LAYERS = [
    (partial(build_birnn, 4), {"nI": 3, "nO": 4}),
    (partial(build_birnn, 4, cell="gru"), {"nI": 3, "nO": 4}),
    (partial(build_bcn, NONE, maxout_widths=[3, 2]), {"nI": 3, "nE": 2, "nO": 2}),
    (partial(build_esim, **TEXTS), {"nI": 3, "nE": 0, "nO": 2}),
    (partial(build_bidaf, **TEXTS), {"nI": 3, "nE": 1}),
    (lambda: ranker(3), {"nI": 3}),
]


def ranker(width):
    return build_coref(NONE, hidden_width=width).get_ref("head")


@pytest.mark.parametrize(("build", "sizes"), LAYERS)
def test_saved_sizes_are_compared_before_memory_is_taken(build, sizes):
    """A module with these sizes would need terabytes."""
    shim = get_module_shim(build())
    check_refused(lambda: shim.module, "not initialized")
    shim.create(**sizes)
    saved = shim.to_bytes()
    before = {name: value.clone() for name, value in shim.module.state_dict().items()}
    after = shim.from_bytes(saved).module.state_dict()
    assert list(after) == list(before)
    assert all(torch.equal(value, before[name]) for name, value in after.items())
    assert all(value.requires_grad for value in shim.module.parameters())
    message = srsly.msgpack_loads(saved)
    for name in sizes:
        for size in (10**12, 2**62, -1, 2.5, "9"):
            data = srsly.msgpack_dumps({**message, "config": {**sizes, name: size}})
            check_refused(partial(shim.from_bytes, data), "task's model", name)
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
        ({"state": save({"x": torch.full([2], torch.nan)})}, "'x' contains .* not finite"),
        ({"state": save({"x": torch.zeros(2)})}, "(?s)Ranker:.*Missing.*encoder.*Unexpected.*x"),
    ],
)
def test_saved_weights_of_another_model_are_refused(changes, named):
    shim = get_module_shim(ranker(3))
    shim.create(nI=3)
    message = srsly.msgpack_loads(shim.to_bytes())
    with pytest.raises(ValueError, match=named):
        shim.from_bytes(srsly.msgpack_dumps({**message, **changes}))
    # As where somebody changes a size in config.cfg.
    named = ("task's model", "mention.0.weight: ", "([3, ", "([1000000000, ")
    load = get_module_shim(ranker(10**9)).from_bytes
    check_refused(lambda: load(srsly.msgpack_dumps(message)), *named)


@pytest.mark.parametrize("lengths", [(2, 5, 0, 1), (4, 4), (1,), (0,), (0, 0, 30)])
def test_both_directions_of_a_gru_together_equal_pytorch(lengths):
    """Outputs and gradients are compared with PyTorch's layer."""
    rnn = BidirectionalRNN(3, 8, "gru").double()
    padded, mask = pad([torch.randn(n, 3).double() for n in lengths])
    weights = torch.randn(*mask.shape, 8).double()
    found, wanted = [], []
    ours = partial(run_gru, rnn.rnn)
    for results, function in ((found, ours), (wanted, rnn.run_of_pytorch)):
        x = padded.clone().requires_grad_()
        outputs = function(x, mask)
        results += [outputs]
        results += torch.autograd.grad((outputs * weights).sum(), [x, *rnn.parameters()])
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)
    assert torch.equal(rnn(padded, mask), found[0])
    assert found[1].any() == any(lengths)


@pytest.mark.training
def test_groups_of_sequences_give_the_same_as_each_alone(monkeypatch):
    monkeypatch.setattr("spacy_elmo.tasks.shared.recurrent.MAX_RNN_TOKENS", 12)
    rnn, X = layer((1, 9, 0, 2, 20, 2, 3))
    sizes = note_calls(monkeypatch, BidirectionalRNN, "forward", lambda _, x, mask: mask.numel())
    found = rnn.predict(X)
    assert max(sizes) == 20 and sorted(sizes)[-2] <= 12
    for x, y in zip(X, found):
        np.testing.assert_allclose(y, rnn.predict([x])[0], atol=1e-6)


@pytest.mark.training
def test_variational_dropout_has_one_mask_a_sequence():
    x = torch.ones(200, 5, 10)
    dropout = VariationalDropout(0.25)
    found = dropout.train()(x)
    assert (found == found[:, :1]).all()
    torch.testing.assert_close(found.unique(), torch.tensor([0.0, 1 / 0.75]))
    assert abs((found == 0).float().mean() - 0.25) < 0.04
    assert dropout.eval()(x) is x


@pytest.mark.parametrize("n_texts", [1, 2])
def test_padded_groups_are_as_large_as_allowed(n_texts):
    """Each item occurs once, the longest first.

    A larger group has only one item, and no group could take the next item.
    """
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
