"""The gradient that reaches the language model through listeners, against
finite differences of each component's own loss."""

import numpy as np
import pytest
import torch
from thinc.api import SGD, fix_random_seed

from spacy_elmo.pipeline.elmo import Elmo

from helpers.components import concat_both, concat_input, listen_to_both, listener, tagger, textcat
from helpers.gradients import softmax
from helpers.trained import trained


def loss_of(nlp, batch, names):
    """The sum of the components' cross-entropies, computed from what they predict:
    its gradient is what spaCy's tagger and textcat start their backward pass with."""
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
    """Of the loss by one weight, by finite differences."""
    before, losses = flat[place].item(), []
    for change in (step, -step, 0.0):
        flat[place] = before + change
        losses.append(loss())
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
def test_update(make_nlp, setup, how, excluded):
    """By `nlp.update`, and accumulated; with each component, or with one frozen."""
    check(*build(make_nlp, SETUPS[setup]), how, excluded)


def test_from_zeros_through_an_alignment(make_nlp, tmp_path):
    np.save(tmp_path / "w.npy", np.random.default_rng(3).normal(0, 0.5, (12, 12)))
    config = {"initial_state": "zeros", "align": str(tmp_path / "w.npy")}
    check(*build(make_nlp, SETUPS["one listener"], **config), "nlp.update")


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("upstream", ["elmo", "elmo_news"])
def test_two_pipes(make_nlp, narrow_weights, how, upstream):
    """One component listens to both, another one to either."""
    components = {
        "tagger": tagger(listen_to_both()),
        "tagger2": tagger(listener("elmo")),
        "textcat": textcat(listener("elmo_news", width=10)),
    }
    nlp, batch = build(make_nlp, components, {"elmo_news": narrow_weights})
    check(nlp, batch, how, upstream=upstream)


def test_grad_factor_scales(make_nlp):
    found = []
    for factor in (1.0, 0.25):
        nlp, batch = build(make_nlp, {"tagger": tagger(listener(grad_factor=factor))})
        found.append(gradients_by_listeners(nlp, batch, "nlp.update"))
    for name, gradient in found[0].items():
        np.testing.assert_allclose(gradient * 0.25, found[1][name], rtol=1e-4, atol=1e-7)


def bias_of(nlp):
    return nlp.get_pipe("elmo").bilm.stacks[0][0].bias.detach().clone()


@pytest.mark.parametrize("how", ["predict", "to_bytes", "to_disk"])
def test_a_step_that_waits_for_a_frozen_component_is_taken_before(make_nlp, how, tmp_path):
    """One of two listeners never reports: the step is due before the weights are used."""
    nlp, batch = build(make_nlp, SETUPS["two components"])
    nlp.update(batch, sgd=SGD(0.1), exclude=["tagger2"])
    before = bias_of(nlp)
    given = {"predict": [[nlp.make_doc("They sat")]], "to_disk": [tmp_path / "elmo"]}
    getattr(nlp.get_pipe("elmo"), how)(*given.get(how, []))
    assert not torch.equal(bias_of(nlp), before)


def test_gradient_of_an_earlier_part_is_applied(make_nlp):
    """accumulate_gradient: the last part may bring no gradient of its own."""
    nlp, batch = build(make_nlp, SETUPS["one listener"])
    before = bias_of(nlp)
    nlp.update(batch, sgd=False)
    nlp.update(batch, sgd=False, exclude=["tagger"])
    nlp.get_pipe("elmo").finish_update(SGD(0.1))
    assert not torch.equal(bias_of(nlp), before)


def test_learn_rate_factor(make_nlp):
    """A factor of a tenth is a tenth of the rate, for the language model alone. `Language.update`
    calls finish_update before the listeners run: the step is taken when they have."""
    steps = []
    for rate, factor in ((0.01, 1.0), (0.1, 0.1)):
        nlp, batch = build(make_nlp, SETUPS["two components"], learn_rate_factor=factor)
        before = bias_of(nlp)
        nlp.update(batch, sgd=SGD(rate), drop=0.0)
        steps.append(bias_of(nlp) - before)
    assert steps[0].abs().max() > 0
    torch.testing.assert_close(steps[1], steps[0], rtol=1e-3, atol=1e-8)
