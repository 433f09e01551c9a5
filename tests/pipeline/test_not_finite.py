"""NaN and infinity: a training that meets them stops as spaCy's tagger does, and no weight learns
from them; a model that gives or holds them says so."""

import numpy as np
import pytest
import spacy
import torch
from spacy.tokens import Doc
from spacy.training import Example
from thinc.api import Adam

from spacy_elmo.layers.bilm import get_shim
from spacy_elmo.layers.finite import check_loss
from spacy_elmo.tasks.shared.torch_module import ModuleShim
from spacy_elmo.weights import read_weights
from spacy_elmo.weights.safetensors_file import write

from helpers.components import embed, listener, tagger, textcat
from helpers.models import tiny_bilm, tiny_module, weights_of, write_allennlp
from helpers.tasks import TASKS, without_elmo
from helpers.trained import OWN, bcn, trained

CNN = TASKS[3].tok2vec["encode"]
# None of them looks at its loss; spaCy's taggers do.
LOSSES = ["ner", "parser", "textcat", "spancat"]


def spoil(model):
    """Make all weights of a component NaN, but those of its mixes."""
    for node in model.walk():
        for name in node.param_names:
            if node.name != "elmo_scalar_mix" and node.has_param(name):
                node.set_param(name, np.full_like(node.get_param(name), np.nan))
        for shim in node.shims:
            if isinstance(shim, ModuleShim):
                for weight in shim.module.parameters():
                    weight.data.fill_(np.nan)


def annotated(nlp):
    """Examples for all of them."""
    words, n = ["Maria", "swims", "in", "Rome", "."], 5
    ents = ["B-PER", "O", "O", "B-LOC", "O"]
    doc = Doc(nlp.vocab, words, heads=[0] * n, deps=["ROOT", *["dep"] * 4], tags=words, ents=ents)
    doc.spans["sc"] = list(doc.ents)
    doc.cats = {"NATURE": 1.0, "MONEY": 0.0}
    return [Example(nlp.make_doc(doc.text), doc)]


def check_stops(nlp, name, data):
    """By E910, with the component's name."""
    optimizer = nlp.initialize(lambda: data)
    nlp.update(data, sgd=optimizer)
    spoil(nlp.get_pipe(name).model)
    with pytest.raises(ValueError, match=rf"\[E910\].*'{name}'"):
        nlp.update(data, sgd=optimizer)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.factory)
def test_a_task_whose_loss_is_no_number(task):
    nlp = task.add(spacy.blank("en"))
    check_stops(nlp, task.factory, task.examples(nlp))


def test_spacy_does_the_same():
    """Our message begins as that of its tagger."""
    nlp = spacy.blank("en")
    data, _ = trained(nlp, tagger=tagger(embed()))
    pipe = nlp.get_pipe("tagger")
    scores = [np.full((len(one.reference), 2), np.nan, "float32") for one in data]
    with pytest.raises(ValueError, match="E910") as error:
        pipe.get_loss(data, scores)
    with pytest.raises(ValueError, match="E910") as ours:
        check_loss(np.nan, "tagger")
    assert str(ours.value).startswith(str(error.value))


def test_bcn():
    nlp = spacy.blank("en")
    data, _ = trained(nlp, textcat=bcn(without_elmo(CNN)))
    pipe = nlp.get_pipe("textcat")
    spoil(pipe.model)
    with pytest.raises(ValueError, match=r"\[E910\].*'elmo_bcn'"):
        pipe.update(data, sgd=Adam())


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("name", LOSSES)
def test_spacys_own_components(make_nlp, name, frozen):
    """Before the language model learns from it."""
    nlp = make_nlp(frozen=frozen)
    nlp.add_pipe(name, config=OWN[name](listener()))
    check_stops(nlp, name, annotated(nlp))
    assert all(np.isfinite(w).all() for w in weights_of(nlp.get_pipe("elmo").bilm).values())


def test_a_gradient_within_the_language_model(make_nlp):
    """No weight learns from it, those whose own gradient is finite neither."""
    nlp = make_nlp(frozen=False)
    _, optimizer = trained(nlp)
    bilm = nlp.get_pipe("elmo").bilm
    before = [weight.detach().clone() for weight in bilm.parameters()]
    for weight in bilm.parameters():
        weight.grad = torch.ones_like(weight)
    weight.grad[0] = np.inf
    with pytest.raises(ValueError, match="the gradient of .* is not finite. Lower"):
        get_shim(nlp.get_pipe("elmo").model).finish_update(optimizer)
    for weight, kept in zip(bilm.parameters(), before):
        assert torch.equal(weight, kept)


def test_a_rate_far_too_high(make_nlp):
    """The language model ends with a message, not with vectors of NaN."""
    nlp = make_nlp(frozen=False, learn_rate_factor=1e38)
    data, optimizer = trained(nlp, textcat=textcat(listener()))

    def train():
        for _ in range(5):
            nlp.update(data, sgd=optimizer)

    with pytest.raises(ValueError, match=r"not finite.* [Ll]ower .*learn_rate"):
        train()


@pytest.fixture
def too_large(tmp_path):
    """Weights that can be read, and whose products cannot be computed."""
    module = tiny_module()
    with torch.no_grad():
        for weight in module.encoder.parameters():
            weight.copy_(weight.sign() * 1e38)
    return write_allennlp(module.freeze(), tmp_path)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_weights_too_large(make_nlp, too_large, precision):
    bilm = read_weights(too_large).replace(precision=precision)
    with pytest.raises(ValueError, match=r"'weights.hdf5' gives vectors that are not finite"):
        bilm.embed([["a", "bc"], []])
    with pytest.raises(ValueError, match=r"the language model gives vectors that are not finite"):
        bilm.replace(provenance={}).embed([["a"]])
    nlp = make_nlp(weights=str(too_large), precision=precision)
    with pytest.raises(ValueError, match="vectors that are not finite"):
        nlp("a bc")
    assert len(nlp("")) == 0


def test_large_vectors_are_vectors():
    """Whose sum is too large for a float32, and which are not."""
    bilm = tiny_bilm()
    matrix = np.full([bilm.config.width] * 2, 1e36, dtype="float32")
    bilm = bilm.replace(alignment=matrix)
    layers = bilm.embed([["a"] * 500])[0][0]
    assert np.isfinite(layers).all()
    with np.errstate(over="ignore"):
        assert not np.isfinite(layers.sum())


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_no_such_model_is_written(make_nlp, tmp_path, value):
    """Nor does it replace one."""
    nlp = make_nlp(frozen=False)
    nlp.to_disk(tmp_path)
    file = tmp_path / "elmo" / "model.safetensors"
    kept = file.read_bytes()
    bilm = nlp.get_pipe("elmo").bilm
    bilm.stacks[0][0].bias.data[0] = value
    attempts = [lambda: nlp.to_disk(tmp_path), nlp.to_bytes]
    attempts += [lambda: write(bilm.freeze(), file), lambda: write(bilm.freeze(), file, "float16")]
    for attempt in attempts:
        with pytest.raises(ValueError, match=r"'stacks.0.0.bias' contains NaN or infinity"):
            attempt()
    assert file.read_bytes() == kept
