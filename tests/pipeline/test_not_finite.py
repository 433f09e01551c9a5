"""NaN and infinity: no weight of a language model learns from them, and a model with them says so.
`test_awkward_docs.py` tests components."""

import numpy as np
import pytest
import torch

from spacy_elmo.layers.bilm import get_shim
from spacy_elmo.weights import read_weights
from spacy_elmo.weights.safetensors_file import write

from helpers.components import listener, textcat
from helpers.models import check_refused, tiny_bilm, tiny_module, write_allennlp
from helpers.trained import trained


@pytest.mark.training
@pytest.mark.pipelines
def test_a_gradient_that_is_not_finite_changes_no_weight(make_nlp):
    """Weights whose own gradient is finite do not change either."""
    nlp = make_nlp(frozen=False)
    _, optimizer = trained(nlp)
    bilm = nlp.get_pipe("elmo").bilm
    before = [weight.detach().clone() for weight in bilm.parameters()]
    for weight in bilm.parameters():
        weight.grad = torch.ones_like(weight)
    weight.grad[0] = np.inf
    shim = get_shim(nlp.get_pipe("elmo").model)
    named = ("the gradient of ", " is not finite. Lower")
    check_refused(lambda: shim.finish_update(optimizer), *named)
    for weight, kept in zip(bilm.parameters(), before):
        assert torch.equal(weight, kept)


@pytest.mark.training
@pytest.mark.pipelines
def test_a_rate_far_too_high_is_an_error(make_nlp):
    """Otherwise the vectors would be NaN."""
    nlp = make_nlp(frozen=False, learn_rate_factor=1e38)
    with pytest.raises(ValueError, match=r"not finite.* [Ll]ower .*learn_rate"):
        trained(nlp, 5, textcat=textcat(listener()))


@pytest.mark.pipelines
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_weights_whose_products_overflow_are_an_error(make_nlp, tmp_path, precision):
    """These weights can be read."""
    module = tiny_module()
    with torch.no_grad():
        for weight in module.encoder.parameters():
            weight.copy_(weight.sign() * 1e38)
    too_large = write_allennlp(module.freeze(), tmp_path)
    bilm = read_weights(too_large).replace(precision=precision)
    named, other = "gives vectors that are not finite", bilm.replace(provenance={})
    check_refused(lambda: bilm.embed([["a", "bc"], []]), f"'weights.hdf5' {named}")
    check_refused(lambda: other.embed([["a"]]), f"the language model {named}")
    nlp = make_nlp(weights=str(too_large), precision=precision)
    check_refused(lambda: nlp("a bc"), named)
    assert len(nlp("")) == 0


def test_large_finite_vectors_are_accepted():
    """Only their sum is too large for a float32."""
    bilm = tiny_bilm()
    matrix = np.full([bilm.config.width] * 2, 1e36, dtype="float32")
    layers = bilm.replace(alignment=matrix).embed([["a"] * 500])[0][0]
    assert np.isfinite(layers).all()
    with np.errstate(over="ignore"):
        assert not np.isfinite(layers.sum())


@pytest.mark.pipelines
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_model_that_is_not_finite_is_not_written(make_nlp, tmp_path, value):
    """The older model stays."""
    nlp = make_nlp(frozen=False)
    nlp.to_disk(tmp_path)
    file = tmp_path / "elmo" / "model.safetensors"
    kept = file.read_bytes()
    bilm = nlp.get_pipe("elmo").bilm
    bilm.stacks[0][0].bias.data[0] = value
    attempts = [lambda: nlp.to_disk(tmp_path), nlp.to_bytes]
    attempts += [lambda: write(bilm.freeze(), file), lambda: write(bilm.freeze(), file, "float16")]
    for attempt in attempts:
        check_refused(attempt, "'stacks.0.0.bias' contains NaN or infinity")
    assert file.read_bytes() == kept
