"""The encoder of TagLM, and the recurrent layers it is made of."""

import numpy as np
import pytest

from spacy_elmo.tasks.shared.encoders import build_birnn
from spacy_elmo.tasks.shared.torch_module import get_module_shim

from helpers.components import embed, listener
from helpers.formulas import run
from helpers.tasks import CRF

pytestmark = pytest.mark.training

TEXTS = ["They sat on the bank .", "", "Maria swims ."]
TOP = {"initial": [0.0, 0.0, 1.0], "trainable": False}


def bilstm(x, layer):
    return run(get_module_shim(layer).module[1], x)


@pytest.mark.pipelines
def test_taglm_reads_the_top_layer_after_its_first_layer(make_nlp):
    """`second([first(x) ; LM])` with the language model's top layer as it is."""
    taglm = {"@architectures": "spacy-elmo.TagLMEncoder.v1", "embed": embed(6), "width": 10}
    nlp = CRF.add(make_nlp(), {**taglm, "elmo": listener(**TOP)})
    nlp.initialize(lambda: CRF.examples(nlp))
    docs = [nlp.get_pipe("elmo")(nlp.make_doc(text)) for text in TEXTS]
    encoder = nlp.get_pipe("elmo_crf").model.get_ref("tok2vec")
    joined, second = encoder.layers
    embedding, first = joined.layers[0].layers
    for doc, got, x in zip(docs, encoder.predict(docs), embedding.predict(docs)):
        top = np.asarray(doc._.elmo[-1])
        wanted = bilstm(np.concatenate([bilstm(x, first), top], axis=1, dtype="float32"), second)
        np.testing.assert_allclose(got, wanted, atol=1e-5)
    (mix,) = [node for node in encoder.walk() if node.name == "elmo_scalar_mix"]
    assert mix.attrs["place"] == "output"


def test_dropout_is_only_for_training():
    model = build_birnn(4, dropout=0.5)
    X = [np.ones((3, 4), dtype="float32")]
    model.initialize(X=X)
    assert model.predict([]) == []
    np.testing.assert_array_equal(model.predict(X)[0], model.predict(X)[0])
    found = [model(X, is_train=True)[0][0].tobytes() for _ in range(10)]
    assert len(set(found)) > 1
