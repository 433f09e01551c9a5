"""Models of the three published sizes, against `reference`, which computes step by step in float64.

Their weights are random. Large products take ways that those of small models never do: threads that
share the tokens, oneDNN's layouts, memory that is returned.
"""

import gc
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import spacy
import torch
from spacy.tokens import Doc

import spacy_elmo
from spacy_elmo.weights import read_weights

from helpers import reference
from helpers.models import check_layers, check_state, tiny_options

pytestmark = pytest.mark.large
FILTERS = [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]]
# The name under which AllenNLP published a model: dim, projection_dim, n_highway, and the number
# of parameters as they counted them, with a row for masked characters.
SIZES = {
    "2x1024_128_2048cnn_1xhighway": (1024, 128, 1, 13_593_312),
    "2x2048_256_2048cnn_1xhighway": (2048, 256, 1, 28_027_744),
    "2x4096_512_2048cnn_2xhighway": (4096, 512, 2, 93_600_864),
}
# Each batch has words that no batch before it has: one, one, two, and an odd number of them.
BATCHES = [
    *([["Elmo"]], [["naïve"]], [["two", "words"]], [["The", "cat", "sat", "."]]),
    [["Elmo"], [], ["The", "otter", "sat", "日本語"], ["one", "Elmo"]],
]
ATOL = 2e-5
# The cosine of every token in every layer with its float64 vector is above this.
COSINES = {"bfloat16": 0.999, "int8": 0.99, "auto": 0.999}


@pytest.fixture(scope="module", params=list(SIZES))
def model(request, tmp_path_factory):
    """A model on disk, and the expected layers of each batch; `again` are those of the last batch
    if the state of that batch is carried."""
    folder = tmp_path_factory.mktemp("published")
    dim, projection_dim, n_highway, n_weights = SIZES[request.param]
    sizes = {"dim": dim, "projection_dim": projection_dim, "n_highway": n_highway}
    characters = {"filters": FILTERS, "embedding": {"dim": 16}, "max_characters_per_token": 50}
    options = tiny_options(**sizes, **characters)
    data = reference.random_datasets(options, seed=1)
    assert sum(values.size for values in data.values()) + 16 == n_weights  # 16: masked characters
    path = reference.write_hdf5(folder, options, data)
    data = {name: data.pop(name).astype("float64") for name in list(data)}
    found = [reference.layers(options, data, sentences) for sentences in BATCHES]
    again = reference.layers(options, data, BATCHES[-1], found[-1][1])
    del data  # 750 MB, which would stay as long as this model
    yield SimpleNamespace(path=path, layers=[layers for layers, _ in found], again=again)
    shutil.rmtree(folder)  # pytest would keep 1.5 GB


@pytest.fixture(scope="module")
def bilm(model):
    return read_weights(model.path)


@pytest.fixture
def as_before():
    n_threads = torch.get_num_threads()
    yield
    torch.set_num_threads(n_threads)


def check_pipeline(nlp, model):
    for sentences, expected in zip(BATCHES, model.layers):
        docs = [Doc(nlp.vocab, words=words) for words in sentences]
        for doc, layers in zip(nlp.pipe(docs), expected):
            np.testing.assert_allclose(doc.tensor, layers.mean(axis=0), rtol=0, atol=ATOL)


# First what needs memory for two copies of the weights, before `bilm` holds another one.


@pytest.mark.pipelines
def test_a_saved_pipeline_gives_the_same(model):
    config = {"mix": "average", "initial_state": "zeros"}
    nlp, folder = spacy.blank("en"), model.path.with_name("nlp")
    nlp.add_pipe("elmo", config={**spacy_elmo.pretrained(model.path), **config})
    check_pipeline(nlp, model)
    nlp.to_disk(folder)
    del nlp
    gc.collect()
    check_pipeline(spacy.load(folder), model)
    gc.collect()  # a pipeline refers to itself, and with it to its weights


@pytest.mark.parametrize("n_threads", [1, 2])
def test_new_words_batches_and_carried_state(model, bilm, n_threads, as_before):
    torch.set_num_threads(n_threads)
    bilm = bilm.replace()
    for sentences, expected in zip(BATCHES, model.layers):
        check_layers(bilm.embed(sentences)[0], expected, ATOL)
    layers, after = bilm.embed(BATCHES[-1], bilm.embed(BATCHES[-1])[1])
    check_layers(layers, model.again[0], ATOL)
    check_state(after, model.again[1], ATOL)


@pytest.mark.parametrize("kind", list(COSINES))
def test_precisions_stay_near_float32(model, bilm, kind, as_before, monkeypatch):
    # They are right everywhere, if not fast.
    monkeypatch.setattr(bilm.kernel, "fast_types", ("bfloat16", "int8"))
    rounded = bilm.replace(precision=kind)
    for n_threads in (1, 2):
        torch.set_num_threads(n_threads)
        rounded.cache.clear()
        for sentences, expected in zip(BATCHES, model.layers):
            for got, wanted in zip(rounded.embed(sentences)[0], expected):
                pair = torch.from_numpy(got).double(), torch.from_numpy(wanted)
                assert (torch.cosine_similarity(*pair, dim=2) > COSINES[kind]).all()
