"""The gradient that reaches the language model through listeners, against finite differences of
each component's own loss."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Thread

import numpy as np
import pytest
import spacy
import torch
from spacy.lang.en import English
from spacy.language import Language
from thinc.api import SGD, fix_random_seed

from spacy_elmo.pipeline.elmo import Elmo
from spacy_elmo.weights import read_weights

from helpers.components import (
    concat_both,
    concat_input,
    examples,
    listen_to_both,
    listener,
    tagger,
    textcat,
)
from helpers.gradients import softmax
from helpers.models import tiny_bilm, weights_of
from helpers.tasks import crf
from helpers.trained import trained

pytestmark = [pytest.mark.training, pytest.mark.pipelines]


def loss_of(nlp, batch, names):
    """Sum the components' cross-entropies, computed from their predictions: spaCy's tagger and
    textcat start their backward pass with the gradient of this sum."""
    total = 0.0
    docs = [nlp.make_doc(eg.reference.text) for eg in batch]
    for elmo in language_models(nlp).values():
        elmo.set_annotations(docs, elmo.predict(docs))
    for name in names:
        pipe = nlp.get_pipe(name)
        scores = pipe.model.predict(docs)
        if name.startswith("tagger"):  # scores are logits
            for eg, logits in zip(batch, scores):
                gold = [pipe.labels.index(tag) for tag in eg.get_aligned("TAG", as_string=True)]
                total -= np.log(softmax(logits.astype("float64"))[range(len(gold)), gold]).sum()
        else:  # scores are probabilities
            truth = np.array([[eg.reference.cats[label] for label in pipe.labels] for eg in batch])
            total -= (truth * np.log(np.asarray(scores, "float64"))).sum()
    return total


def language_models(nlp):
    return {name: pipe for name, pipe in nlp.pipeline if isinstance(pipe, Elmo)}


SETUPS = {
    "one listener": {"tagger": tagger(listener())},
    "layer norm": {"tagger": tagger(listener(layer_norm=True))},
    "two listeners": {"tagger": tagger(concat_both())},
    "two components": {"tagger": tagger(listener()), "tagger2": tagger(concat_input())},
    "textcat and tagger": {"textcat": textcat(listener()), "tagger": tagger(listener())},
}


def build(make_nlp, components, others=(), **config):
    fix_random_seed(0)
    nlp = make_nlp(frozen=False, **config)
    for name, weights in dict(others).items():
        nlp.add_pipe("elmo", name=name, config={"weights": str(weights), "frozen": False})
    batch, _ = trained(nlp, **components)
    rng = np.random.default_rng(0)
    for name in components:  # spaCy's output layers start at zero, where nothing flows back
        for node in nlp.get_pipe(name).model.walk():
            for param in node.param_names:
                if node.has_param(param) and node.name in ("softmax", "linear", "elmo_scalar_mix"):
                    value = node.get_param(param)
                    node.set_param(param, value + rng.normal(0, 0.5, value.shape).astype("f"))
    return nlp, batch


def gradients_by_listeners(nlp, batch, how, exclude=(), upstream="elmo"):
    gradients = {}

    def record(key, weights, gradient, **_):
        gradients[key] = gradients.get(key, 0.0) + np.array(gradient, "float64")
        return weights, gradient * 0

    if how in ("nlp.update", "annotating"):
        annotates = [*language_models(nlp)] if how == "annotating" else []
        nlp.update(batch, sgd=record, exclude=exclude, annotates=annotates, drop=0.0)
    else:  # as in spacy train: accumulate over two halves, then finish every pipe
        for half in (batch[:2], batch[2:]):
            nlp.update(half, sgd=False, exclude=exclude, drop=0.0)
        for name, pipe in nlp.pipeline:
            if name not in exclude:
                pipe.finish_update(record)
    elmo = nlp.get_pipe(upstream)
    elmo.to_bytes()  # whatever is still due is done before anybody looks at the weights
    shim = elmo.model.shims[0]
    return {key[1]: value for key, value in gradients.items() if key[0] == shim.id}


def slope(flat, place, loss, step=1e-2):
    """Compute the derivative of the loss by one weight with finite differences."""
    before, losses = flat[place].item(), []
    for change in (step, -step):
        flat[place] = before + change
        losses.append(loss())
    flat[place] = before
    return (losses[0] - losses[1]) / (2 * step)


def check(nlp, batch, how, exclude=(), upstream="elmo"):
    names = [name for name in nlp.pipe_names if name not in (*language_models(nlp), *exclude)]
    found = gradients_by_listeners(nlp, batch, how, exclude, upstream)
    bilm = nlp.get_pipe(upstream).bilm
    weights = dict(bilm.named_parameters())
    projection = f"stacks.0.{bilm.config.n_layers - 1}.projection"
    for name in (projection, "stacks.1.0.input_weight", "encoder.projection.weight"):
        gradient, flat = found[name].ravel(), weights[name].detach().view(-1)
        places = np.argsort(-np.abs(gradient))[:6]
        slopes = [slope(flat, place, lambda: loss_of(nlp, batch, names)) for place in places]
        error = np.linalg.norm(slopes - gradient[places]) / np.linalg.norm(slopes)
        assert error < 0.01, (name, slopes, gradient[places])


HOW = ["nlp.update", "annotating", "spacy train"]
CASES = [(setup, "nlp.update", []) for setup in SETUPS]
CASES += [(setup, "spacy train", []) for setup in ("two listeners", "two components")]
CASES += [("two components", how, [name]) for how in HOW for name in ("tagger", "tagger2")]


@pytest.mark.parametrize(("setup", "how", "excluded"), CASES)
def test_gradients_equal_finite_differences(make_nlp, setup, how, excluded):
    """Updates are single or accumulated, with all components or with one frozen."""
    check(*build(make_nlp, SETUPS[setup]), how, excluded)


def test_gradients_from_zeros_pass_through_an_alignment(make_nlp, tmp_path):
    np.save(tmp_path / "w.npy", np.random.default_rng(3).normal(0, 0.5, (12, 12)))
    config = {"initial_state": "zeros", "align": str(tmp_path / "w.npy")}
    check(*build(make_nlp, SETUPS["one listener"], **config), "nlp.update")


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("upstream", ["elmo", "elmo_news"])
def test_gradients_of_two_pipes_equal_finite_differences(make_nlp, narrow_weights, how, upstream):
    """One component listens to both pipes, and two listen to one each."""
    components = {
        "tagger": tagger(listen_to_both()),
        "tagger2": tagger(listener("elmo")),
        "textcat": textcat(listener("elmo_news", width=10)),
    }
    nlp, batch = build(make_nlp, components, {"elmo_news": narrow_weights})
    check(nlp, batch, how, upstream=upstream)


def linked_while_it_was_disabled(nlp):
    with nlp.select_pipes(disable=["tagger2"]):
        nlp.add_pipe("sentencizer")
    return nlp


def loaded_while_it_was_disabled(nlp):
    config = {"nlp": {"disabled": ["tagger2"]}}
    other = spacy.blank("en", config=nlp.config.merge(config)).from_bytes(nlp.to_bytes())
    other.enable_pipe("tagger2")
    return other


def sourced_by_another(nlp):
    """Add the component to a pipeline that has a pipe of the same name."""
    other = spacy.blank("en")
    other.add_pipe("elmo", config={"weights": nlp.get_pipe("elmo").weights})
    other.add_pipe("tagger2", source=nlp)
    return nlp


CONNECTED = [linked_while_it_was_disabled, loaded_while_it_was_disabled, sourced_by_another]


@pytest.mark.parametrize("change", CONNECTED)
def test_a_component_reports_its_gradient_after_other_pipes_were_connected(make_nlp, change):
    """spaCy connects only enabled components, and connects one again for each pipeline with it."""
    nlp, batch = build(make_nlp, SETUPS["two components"])
    expected = gradients_by_listeners(nlp, batch, "nlp.update")
    found = gradients_by_listeners(change(nlp), batch, "nlp.update")
    for name, gradient in expected.items():
        np.testing.assert_allclose(found[name], gradient, rtol=1e-4, atol=1e-6)


def test_grad_factor_scales_the_gradient(make_nlp):
    found = []
    for factor in (1.0, 0.25):
        nlp, batch = build(make_nlp, {"tagger": tagger(listener(grad_factor=factor))})
        found.append(gradients_by_listeners(nlp, batch, "nlp.update"))
    for name, gradient in found[0].items():
        np.testing.assert_allclose(gradient * 0.25, found[1][name], rtol=1e-4, atol=1e-7)


def bias_of(nlp):
    return nlp.get_pipe("elmo").bilm.stacks[0][0].bias.detach().clone()


class Waiting:
    """Pipeline with two listeners, whose updates are pending if one of them reports nothing.

    nlp (Language): The pipeline. It is initialized.
    batch (List[Example]): Examples without annotation for the second listener.
    """

    def __init__(self, nlp, batch):
        self.nlp, self.batch = nlp, batch
        self.shim = nlp.get_pipe("elmo").model.shims[0]
        self.start = self.shim.bilm.freeze()
        averages = weights_of(self.start).items()
        self.averages = {(self.shim.id, name): 1.5 * values for name, values in averages}

    def step(self, key, weights, gradient, lr_scale=1.0):
        """Step only the language model, as an optimizer."""
        is_ours = key[0] == self.shim.id
        return weights - 10 * lr_scale * gradient if is_ours else weights, 0 * gradient

    def update(self, **settings):
        """Update the language model from its first weights."""
        elmo = self.nlp.get_pipe("elmo")
        elmo.frozen, elmo.learn_rate_factor = False, 1.0
        elmo.set_bilm(self.start)
        self.nlp.update(self.batch, sgd=self.step, drop=0.0, **settings)
        np.testing.assert_array_equal(self.bias(), self.start.arrays()[BIAS])

    def bias(self, nlp=None):
        """Read the bias without the pipe, which would finish the update."""
        return weights_of((nlp or self.nlp).get_pipe("elmo").model.shims[0]._model)[BIAS]


BIAS = "stacks.0.0.bias"


@pytest.fixture(scope="module")
def waiting(tiny_weights):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"weights": str(tiny_weights), "frozen": False})
    batch, _ = trained(nlp, tagger=tagger(listener()), elmo_crf=crf(listener()))
    # spaCy's output layers start at zero, where nothing flows back.
    output = next(node for node in nlp.get_pipe("tagger").model.walk() if node.name == "softmax")
    output.set_param("W", np.random.default_rng(0).normal(size=(2, 12)).astype("f"))
    for example in batch:
        example.reference.set_ents([], default="missing")
    return Waiting(nlp, batch)


@pytest.fixture(scope="module")
def taken(waiting):
    """Return the bias after the step."""
    waiting.update()
    waiting.nlp.get_pipe("elmo").predict([waiting.nlp.make_doc("They sat")])
    assert np.abs(waiting.bias() - waiting.start.arrays()[BIAS]).max() > 1e-3
    return waiting.bias()


def with_averages(one, folder):
    with one.nlp.use_params(one.averages):
        assert not np.array_equal(one.bias(), one.start.arrays()[BIAS])
        one.nlp("They sat")


def with_averages_of_the_model(one, folder):
    with one.nlp.get_pipe("elmo").model.use_params(one.averages):
        one.nlp("They sat")


def with_bytes(one, folder):
    return spacy.blank("en", config=one.nlp.config).from_bytes(one.nlp.to_bytes())


def with_files(one, folder):
    one.nlp.to_disk(folder)
    return spacy.load(folder)


def with_a_copied_model(one, folder):
    other = spacy.blank("en")
    other.add_pipe("elmo")
    other.get_pipe("elmo").model = one.nlp.get_pipe("elmo").model.copy()
    return other


def with_setting(name, value):
    return lambda one, folder: setattr(one.nlp.get_pipe("elmo"), name, value)


# Everything that needs the weights. A pipeline that is returned has the step, too.
NEEDS = {
    "evaluate": lambda one, folder: one.nlp.evaluate(one.batch),
    "use_params": with_averages,
    "use_params of the model": with_averages_of_the_model,
    "to_bytes": with_bytes,
    "to_disk": with_files,
    "deepcopy": lambda one, folder: copy.deepcopy(one.nlp),
    "pickle": lambda one, folder: pickle.loads(pickle.dumps(one.nlp)),
    "copy of the model": with_a_copied_model,
    "bytes of the model": lambda one, folder: one.nlp.get_pipe("elmo").model.to_bytes(),
    "bilm": lambda one, folder: one.nlp.get_pipe("elmo").bilm,
    "frozen": with_setting("frozen", True),
    "learn_rate_factor": with_setting("learn_rate_factor", 0.1),
    "move_to": lambda one, folder: one.nlp.get_pipe("elmo").move_to("cpu"),
}


@pytest.mark.parametrize("need", NEEDS)
def test_a_pending_step_is_taken_before_the_weights_are_needed(waiting, taken, need, tmp_path):
    """The gradient is computed with the weights that computed the layers, and not with the
    averages."""
    waiting.update()
    returned = NEEDS[need](waiting, tmp_path / "pipeline")
    np.testing.assert_array_equal(waiting.bias(), taken)
    if isinstance(returned, Language):
        np.testing.assert_array_equal(waiting.bias(returned), taken)


def test_a_step_is_pending_if_a_component_is_excluded(waiting, taken):
    waiting.update(exclude=["elmo_crf"])
    with_averages(waiting, None)
    np.testing.assert_array_equal(waiting.bias(), taken)


def test_a_pending_step_does_not_change_weights_that_replace_its_own(waiting):
    waiting.update()
    other = tiny_bilm(seed=5, projection_dim=6, max_characters_per_token=20)
    waiting.nlp.get_pipe("elmo").set_bilm(other)
    waiting.nlp("They sat")
    np.testing.assert_array_equal(waiting.bias(), other.arrays()[BIAS])


def train_others(one):
    one.nlp.update(one.batch, sgd=one.step, drop=0.0, exclude=["elmo"])


def train_others_without_elmo(one):
    with one.nlp.select_pipes(disable=["elmo"]):
        one.nlp.update(one.batch, sgd=one.step, drop=0.0)


def rehearse_others(one):
    one.nlp.rehearse(one.batch, sgd=SGD(0.0))


@pytest.mark.parametrize("train", [train_others, train_others_without_elmo, rehearse_others])
def test_an_update_without_the_pipe_reads_layers_of_the_pending_step(waiting, taken, train):
    waiting.nlp.resume_training()  # Rehearsal needs it.
    waiting.update()
    train(waiting)
    np.testing.assert_array_equal(waiting.bias(), taken)


def test_a_component_that_reads_other_docs_does_not_finish_the_update(make_nlp, monkeypatch):
    """The entity linker trains on the sentences around entities."""
    nlp, batch = build(make_nlp, SETUPS["two components"])
    elmo = nlp.get_pipe("elmo")
    other = nlp.get_pipe("tagger2")
    (node,) = elmo.listener_map["tagger2"]
    alone = other.update

    def update(examples, **settings):
        with pytest.warns(UserWarning, match="'tagger2' trains on other Docs"):
            node([example.predicted.copy() for example in examples], is_train=True)
        bias = weights_of(elmo.model.shims[0]._model)[BIAS]
        np.testing.assert_array_equal(bias, before)
        return alone(examples, **settings)

    monkeypatch.setattr(other, "update", update)
    before = weights_of(elmo.bilm)[BIAS]
    nlp.update(batch, sgd=SGD(0.1), drop=0.0)
    assert not np.array_equal(weights_of(elmo.bilm)[BIAS], before)


@pytest.mark.parametrize("n_more", [0, 1])
def test_a_component_that_trains_on_other_docs_warns_once(waiting, n_more, monkeypatch):
    """An annotating component may return a copy, which the language model has not computed."""
    waiting.update(exclude=["tagger", "elmo_crf"])
    elmo = waiting.nlp.get_pipe("elmo")
    docs = elmo._batch.docs
    (node,) = elmo.listener_map["tagger"]
    monkeypatch.setattr(node, "has_warned_in_training", False)
    others = [*docs, waiting.nlp.make_doc("One more")] if n_more else [doc.copy() for doc in docs]
    with pytest.warns(UserWarning, match="'tagger' trains on other Docs") as warned:
        node(others, is_train=True)
        node(others, is_train=True)
        node(docs, is_train=True)
    assert len(warned) == 1


def test_training_on_a_removed_pipe_warns_once(make_nlp):
    nlp = make_nlp()
    _, sgd = trained(nlp)
    nlp.remove_pipe("elmo")
    with pytest.warns(UserWarning, match="'elmo' was removed") as warned:
        for _ in range(2):
            nlp.update(examples(nlp), sgd=sgd)
    assert len(warned) == 1


def test_showing_the_pipe_does_not_finish_the_update(waiting):
    """A debugger may show it while the other listener still has to report."""
    waiting.update()
    assert "frozen=False" in repr(waiting.nlp.get_pipe("elmo"))
    np.testing.assert_array_equal(waiting.bias(), waiting.start.arrays()[BIAS])


def test_a_failing_component_keeps_the_update_of_those_before_it(waiting, taken, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(waiting.nlp.get_pipe("elmo_crf"), "_gold", raise_broken)
        with pytest.raises(RuntimeError, match="broken"):
            waiting.update()
    waiting.nlp("They sat")
    np.testing.assert_array_equal(waiting.bias(), taken)


def raise_broken(*args, **kwargs):
    raise RuntimeError("broken")


def test_a_gradient_that_is_not_finite_is_dropped(waiting, taken):
    """A caller that catches the error can continue with the next batch."""
    waiting.update()
    bias = waiting.shim._model.stacks[0][0].bias
    bias.grad = torch.full_like(bias, torch.nan)
    with pytest.raises(ValueError, match="not finite"):
        waiting.nlp("They sat")
    np.testing.assert_array_equal(waiting.bias(), waiting.start.arrays()[BIAS])
    waiting.nlp.update(waiting.batch, sgd=waiting.step, drop=0.0)
    waiting.nlp("They sat")
    np.testing.assert_array_equal(waiting.bias(), taken)


def test_the_gradient_of_an_earlier_part_is_applied(make_nlp):
    """With accumulate_gradient, the last part may have no gradient of its own."""
    nlp, batch = build(make_nlp, SETUPS["one listener"])
    before = bias_of(nlp)
    nlp.update(batch, sgd=False)
    nlp.update(batch, sgd=False, exclude=["tagger"])
    nlp.get_pipe("elmo").finish_update(SGD(0.1))
    assert not torch.equal(bias_of(nlp), before)


def test_updates_without_an_optimizer_accumulate(make_nlp):
    """These parts wait for the listeners of the last part."""
    biases = []
    for last in (False, SGD(0.1)):
        nlp, batch = build(make_nlp, SETUPS["one listener"])
        nlp.update(batch[:2], sgd=False, drop=0.0)
        nlp.update(batch[2:], sgd=last, drop=0.0)
        if not last:
            nlp.get_pipe("elmo").finish_update(SGD(0.1))
        biases.append(bias_of(nlp))
    torch.testing.assert_close(*biases, rtol=1e-5, atol=1e-8)


def test_the_step_of_the_model_is_the_step_of_the_pipe(make_nlp):
    """Users of Thinc call `finish_update` of the model."""
    biases = []
    for part in ("pipe", "model"):
        nlp, batch = build(make_nlp, SETUPS["one listener"])
        nlp.update(batch[:2], sgd=False, drop=0.0)
        nlp.update(batch[2:], sgd=False, drop=0.0)
        elmo = nlp.get_pipe("elmo")
        (elmo if part == "pipe" else elmo.model).finish_update(SGD(0.1))
        nlp.update(batch, sgd=False, drop=0.0)
        biases.append(bias_of(nlp))
    assert torch.equal(*biases)


def test_a_pipe_that_annotates_accumulates_the_same(make_nlp):
    """The prediction comes between the pipe's update and the gradient of the last part."""
    biases = []
    for annotates in ([], ["elmo"]):
        nlp, batch = build(make_nlp, SETUPS["one listener"])
        nlp.update(batch[:2], sgd=False, drop=0.0, annotates=annotates)
        nlp.update(batch[2:], sgd=SGD(0.1), drop=0.0, annotates=annotates)
        biases.append(bias_of(nlp))
    torch.testing.assert_close(*biases, rtol=1e-5, atol=1e-8)


def test_an_evaluation_after_a_last_part_without_listeners_uses_the_saved_weights(make_nlp):
    nlp, batch = build(make_nlp, SETUPS["one listener"])
    nlp.update(batch, sgd=False)
    nlp.update(batch, sgd=False, exclude=["tagger"])
    nlp.get_pipe("elmo").finish_update(SGD(0.1))
    evaluated = nlp("They sat").tensor
    nlp.to_bytes()
    np.testing.assert_array_equal(nlp("They sat").tensor, evaluated)


@pytest.mark.parametrize("need", ["bilm", "next update"])
def test_a_last_part_without_listeners_applies_the_gradients(make_nlp, need):
    """The optimizer of the last part applies the gradients of the first one."""
    nlp, batch = build(make_nlp, SETUPS["one listener"])
    before = bias_of(nlp)
    nlp.update(batch, sgd=False)
    nlp.update(batch, sgd=SGD(0.1), exclude=["tagger"])
    if need == "next update":
        nlp.update(batch, sgd=False, exclude=["tagger"])
    assert not torch.equal(bias_of(nlp), before)


def test_a_gradient_after_the_weights_were_read_is_an_error(make_nlp):
    """The gradient cannot be computed any more, and must not be lost silently."""
    nlp, batch = build(make_nlp, SETUPS["one listener"])
    elmo = nlp.get_pipe("elmo")
    nlp.update(batch, sgd=False)
    elmo.update(batch, sgd=SGD(0.1))
    vectors, backprop = elmo.listeners[0]([example.predicted for example in batch], True)
    elmo.to_bytes()
    with pytest.raises(RuntimeError, match="before the weights are read"):
        backprop([np.ones_like(values) for values in vectors])


INTERRUPTIONS = {
    "save": lambda nlp: nlp.get_pipe("elmo").to_bytes(),
    "prediction": lambda nlp: nlp.get_pipe("elmo").predict([nlp.make_doc("They sat")]),
}


@pytest.mark.parametrize("interruption", INTERRUPTIONS)
def test_an_interrupted_update_loses_no_gradient(make_nlp, monkeypatch, interruption):
    """A component between two that listen can need the weights."""
    nlp, batch = build(make_nlp, SETUPS["two components"])
    expected = gradients_by_listeners(nlp, batch, "nlp.update")
    alone = nlp.get_pipe("tagger2").update

    def update(examples, **settings):
        INTERRUPTIONS[interruption](nlp)
        return alone(examples, **settings)

    monkeypatch.setattr(nlp.get_pipe("tagger2"), "update", update)
    found = gradients_by_listeners(nlp, batch, "nlp.update")
    for name, gradient in expected.items():
        np.testing.assert_allclose(found[name], gradient, rtol=1e-4, atol=1e-6)


def test_a_component_can_predict_before_its_backward_pass(make_nlp, monkeypatch):
    """The first component has reported its gradient then."""
    nlp, batch = build(make_nlp, SETUPS["two components"])
    expected = gradients_by_listeners(nlp, batch, "nlp.update")
    component = nlp.get_pipe("tagger2")
    alone = component.get_loss

    def get_loss(*args):
        nlp("They sat")
        return alone(*args)

    monkeypatch.setattr(component, "get_loss", get_loss)
    found = gradients_by_listeners(nlp, batch, "nlp.update")
    for name, gradient in expected.items():
        np.testing.assert_allclose(found[name], gradient, rtol=1e-4, atol=1e-6)


def test_a_component_can_read_a_batch_twice(make_nlp, monkeypatch):
    """The first backward pass finishes the update, as it is of the only listener."""
    nlp, batch = build(make_nlp, SETUPS["one listener"])
    once = gradients_by_listeners(nlp, batch, "nlp.update")
    alone = nlp.get_pipe("tagger").update

    def update(examples, **settings):
        alone(examples, **{**settings, "sgd": None})
        return alone(examples, **settings)

    monkeypatch.setattr(nlp.get_pipe("tagger"), "update", update)
    twice = gradients_by_listeners(nlp, batch, "nlp.update")
    for name, gradient in once.items():
        np.testing.assert_allclose(twice[name], 2 * gradient, rtol=1e-4, atol=1e-6)


def test_a_component_can_read_a_batch_in_parts(make_nlp, monkeypatch):
    """The backward pass waits for the last part, so no gradient is lost."""
    biases = []
    for in_parts in (False, True):
        nlp, batch = build(make_nlp, SETUPS["one listener"])
        component = nlp.get_pipe("tagger")
        if in_parts:
            whole = component.update

            def update(examples, *, whole=whole, **settings):
                for example in examples:
                    whole([example], **settings)

            monkeypatch.setattr(component, "update", update)
        nlp.update(batch, sgd=SGD(0.1), drop=0.0)
        biases.append(bias_of(nlp))
    torch.testing.assert_close(*biases, rtol=1e-4, atol=1e-6)


@pytest.mark.threads
def test_a_prediction_in_another_thread_does_not_change_an_update(make_nlp, monkeypatch):
    """The second component still has to report to the update."""
    biases = []
    for is_disturbed in (False, True):
        nlp, batch = build(make_nlp, SETUPS["two components"])
        component = nlp.get_pipe("tagger2")
        if is_disturbed:
            alone = component.update

            def update(*args, nlp=nlp, alone=alone, **settings):
                with ThreadPoolExecutor(1) as other:
                    other.submit(nlp, "They sat").result()
                return alone(*args, **settings)

            monkeypatch.setattr(component, "update", update)
        nlp.update(batch, sgd=SGD(0.1), drop=0.0)
        biases.append(bias_of(nlp))
    torch.testing.assert_close(*biases, rtol=1e-5, atol=1e-8)


def test_an_update_of_a_thread_that_has_ended_is_finished(waiting, taken):
    """The next prediction finishes it, in any thread."""
    thread = Thread(target=waiting.update)
    thread.start()
    thread.join()
    waiting.nlp("They sat")
    np.testing.assert_array_equal(waiting.bias(), taken)


class OtherLanguage(English):
    """Subclass, as of a user, that calls the method of its base class."""

    lang = "en"

    def update(self, *args, **kwargs):
        return super().update(*args, **kwargs)


def wrapped(nlp, monkeypatch):
    original = Language.update

    def timed(*args, **kwargs):
        return original(*args, **kwargs)

    monkeypatch.setattr(Language, "update", timed)
    return nlp.update


CALLS = {
    "method": lambda nlp, monkeypatch: nlp.update,
    "wrapper": wrapped,
    "partial": lambda nlp, monkeypatch: partial(nlp.update, drop=0.0),
    "subclass": lambda nlp, monkeypatch: nlp.update,
}


def test_any_caller_of_update_trains_the_same_weights(tiny_weights, monkeypatch):
    """The callers are a profiler's wrapper, a subclass and a partial object."""
    biases = []
    for call, prepare in CALLS.items():
        nlp = OtherLanguage() if call == "subclass" else spacy.blank("en")
        nlp.add_pipe("elmo", config={"weights": str(tiny_weights), "frozen": False})
        fix_random_seed(0)
        batch, _ = trained(nlp)
        update = prepare(nlp, monkeypatch)
        for _ in range(2):  # spaCy's output layer starts at zero, where nothing flows back.
            update(batch, sgd=SGD(0.1), drop=0.0)
        biases.append(bias_of(nlp))
        monkeypatch.undo()
    assert not torch.equal(biases[0], bias_of_weights(tiny_weights))
    for bias in biases[1:]:
        assert torch.equal(bias, biases[0])


def bias_of_weights(weights):
    return torch.tensor(read_weights(weights).arrays()[BIAS])


def test_learn_rate_factor_scales_the_rate_of_the_language_model(make_nlp):
    """A tenth of the factor is a tenth of the rate, only for the language model. `Language.update`
    calls finish_update before the listeners run, so the step is taken after them."""
    steps = []
    for rate, factor in ((0.01, 1.0), (0.1, 0.1)):
        nlp, batch = build(make_nlp, SETUPS["two components"], learn_rate_factor=factor)
        before = bias_of(nlp)
        nlp.update(batch, sgd=SGD(rate), drop=0.0)
        steps.append(bias_of(nlp) - before)
    assert steps[0].abs().max() > 0
    torch.testing.assert_close(steps[1], steps[0], rtol=1e-3, atol=1e-8)
