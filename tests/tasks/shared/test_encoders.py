"""The encoder of TagLM, and the recurrent layers it is made of."""

import numpy as np
import pytest
import spacy

from spacy_elmo.tasks.shared.encoders import build_birnn
from spacy_elmo.tasks.shared.torch_module import get_module_shim

from helpers.components import embed, listener

TEXTS = ["They sat on the bank .", "", "Maria swims ."]
TOP = {"initial": [0.0, 0.0, 1.0], "trainable": False}


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def lstm(x, weights, suffix):
    """One direction, by the formula, in float64; gates i, f, g, o."""
    W, U, b, c = (
        weights[f"{name}_l0{suffix}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    h = cell = np.zeros(U.shape[1])
    found = []
    for vector in x:
        i, f, g, o = np.split(W @ vector + b + U @ h + c, 4)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(cell)
        found.append(h)
    return np.array(found).reshape(len(x), U.shape[1])


def bilstm(x, layer):
    state = get_module_shim(layer).module[1].rnn.state_dict()
    weights = {name: values.numpy().astype("float64") for name, values in state.items()}
    backwards = lstm(x[::-1], weights, "_reverse")[::-1]
    return np.concatenate([lstm(x, weights, ""), backwards], axis=1)


def test_top_layer_after_the_first(make_nlp):
    """`second([first(x) ; LM])` with the language model's top layer as it is."""
    spacy.util.fix_random_seed(0)
    nlp = make_nlp()
    taglm = {"@architectures": "spacy-elmo.TagLMEncoder.v1", "embed": embed(6), "width": 10}
    crf = {
        "@architectures": "spacy-elmo.CRFTagger.v1",
        "tok2vec": {**taglm, "elmo": listener(**TOP)},
    }
    pipe = nlp.add_pipe("elmo_crf", config={"model": crf})
    pipe.add_label("X")
    example = spacy.training.Example(nlp.make_doc("Tom ."), nlp.make_doc("Tom ."))
    nlp.initialize(lambda: [example])
    docs = [nlp.get_pipe("elmo")(nlp.make_doc(text)) for text in TEXTS]
    encoder = pipe.model.get_ref("tok2vec")
    joined, second = encoder.layers
    embedding, first = joined.layers[0].layers
    for doc, got, x in zip(docs, encoder.predict(docs), embedding.predict(docs)):
        top = np.asarray(doc._.elmo[-1], dtype="float64")
        wanted = bilstm(np.concatenate([bilstm(x.astype("float64"), first), top], axis=1), second)
        np.testing.assert_allclose(got, wanted, atol=1e-5)
    (mix,) = [node for node in encoder.walk() if node.name == "elmo_scalar_mix"]
    assert mix.attrs["place"] == "output"


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_gradient_of_the_input(cell):
    spacy.util.fix_random_seed(0)
    model = build_birnn(6, depth=2, cell=cell)
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 4)).astype("float32") for n in (3, 0, 5)]
    model.initialize(X=X)
    outputs, backprop = model(X, is_train=True)
    d_outputs = [rng.normal(size=y.shape).astype("float32") for y in outputs]
    d_inputs = backprop(d_outputs)
    assert [d.shape for d in d_inputs] == [x.shape for x in X]
    for number in (0, 2):
        direction = rng.normal(size=X[number].shape).astype("float32")
        ends = []
        for step in (1e-2, -1e-2):
            moved = list(X)
            moved[number] = X[number] + np.float32(step) * direction
            ends.append(sum(float((d * y).sum()) for d, y in zip(d_outputs, model.predict(moved))))
        found = float((d_inputs[number] * direction).sum())
        assert found == pytest.approx((ends[0] - ends[1]) / 2e-2, rel=0.01, abs=1e-3)


def test_only_training_drops():
    spacy.util.fix_random_seed(0)
    model = build_birnn(4, dropout=0.5)
    X = [np.ones((3, 4), dtype="float32")]
    model.initialize(X=X)
    assert model.predict([]) == []
    np.testing.assert_array_equal(model.predict(X)[0], model.predict(X)[0])
    found = [model(X, is_train=True)[0][0].tobytes() for _ in range(10)]
    assert len(set(found)) > 1
