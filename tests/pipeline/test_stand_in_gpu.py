"""Pipelines on a GPU: a stand-in for cupy, whose arrays refuse NumPy's, finds arrays on the wrong
device."""

from functools import partial

import numpy as np
import pytest
import spacy
from thinc.api import NumpyOps, get_current_ops, set_current_ops

from spacy_elmo.bilm.model import BiLM
from spacy_elmo.layers.scalar_mix import ScalarMix

from helpers.components import listener
from helpers.models import weights_of
from helpers.stand_in_gpu import CUPY, GPUArray, use_stand_in
from helpers.tasks import CRF, TASKS


@pytest.fixture
def on_gpu(monkeypatch):
    before = get_current_ops()
    use_stand_in(monkeypatch)
    yield
    set_current_ops(before)


def on_cpu_and_gpu(run, monkeypatch):
    """Return the results of a function on the CPU and with the stand-in."""
    expected = run()
    before = get_current_ops()
    try:
        use_stand_in(monkeypatch)
        return expected, run()
    finally:
        set_current_ops(before)


def test_the_stand_in_refuses_what_cupy_refuses(on_gpu):
    ours, theirs = CUPY.asarray([1.0, 2.0]), np.ones(2)
    for mix in (lambda: ours * theirs, lambda: theirs * ours, lambda: CUPY.dot(ours, theirs)):
        with pytest.raises(TypeError):
            mix()
    with pytest.raises(TypeError, match="Implicit conversion"):
        np.asarray(ours)
    assert float((ours * ours).sum()) == 5.0


def test_a_mix_on_the_gpu_reads_arrays_of_numpy(on_gpu):
    """A language model returns such arrays."""
    mix = ScalarMix(3, layer_norm=True)
    X = [np.ones((3, 2, 4), "f")]
    Y, backprop = mix(X, is_train=True)
    assert isinstance(Y[0], GPUArray)
    assert isinstance(backprop(Y)[0], GPUArray)


def weights_after_updates(tiny_weights, task, frozen, replaced):
    """Return the losses, and a weight of the language model."""
    spacy.util.fix_random_seed(0)
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"weights": str(tiny_weights), "frozen": frozen})
    task.add(nlp, listener())
    data = task.examples(nlp)
    optimizer = nlp.initialize(lambda: data)
    if replaced:
        nlp.replace_listeners("elmo", task.factory, ["model.tok2vec"])
    losses = [nlp.update(data, sgd=optimizer, drop=0.0)[task.factory] for _ in range(3)]
    nlp.evaluate(data)
    elmo = nlp.get_pipe("elmo")
    assert isinstance(elmo.bilm, BiLM) or isinstance(get_current_ops(), NumpyOps)
    return losses, weights_of(elmo.bilm)["stacks.0.0.bias"]


CASES = [(task, False, False) for task in TASKS]
CASES += [(CRF, True, False), (CRF, True, True), (CRF, False, True)]


@pytest.mark.training
@pytest.mark.pipelines
@pytest.mark.parametrize(
    ("task", "frozen", "replaced"), CASES, ids=lambda value: getattr(value, "factory", None)
)
def test_tasks_train_the_same_on_the_gpu(tiny_weights, task, frozen, replaced, monkeypatch):
    run = partial(weights_after_updates, tiny_weights, task, frozen, replaced)
    (expected, weights), (losses, ours) = on_cpu_and_gpu(run, monkeypatch)
    np.testing.assert_allclose(losses, expected, rtol=1e-3)
    np.testing.assert_allclose(ours, weights, atol=1e-4)


@pytest.mark.pipelines
def test_layers_are_outdated_after_a_training_on_the_gpu(make_nlp, on_gpu):
    nlp = make_nlp(store_layers=True)
    elmo, text = nlp.get_pipe("elmo"), "They sat"
    doc = nlp(text)
    before = doc._.elmo
    elmo.frozen = False
    with_gradient = elmo.bilm.stacks[0][0].bias
    with_gradient.data += 1.0
    elmo.frozen = True
    assert elmo.model.shims[0].identity == elmo.bilm.freeze().checksum()
    (layers,) = elmo.annotate([doc])
    np.testing.assert_array_equal(layers, elmo.predict([nlp.make_doc(text)])[0])
    assert np.abs(layers - before).max() > 1e-3
