"""The pipe `elmo`: vectors against numpy and bilm-tf, streams, weights that are read and saved."""

import gc
import random
import shutil
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc
from thinc.api import Adam

from spacy_elmo.bilm.model import BiLM
from spacy_elmo.embedding.segmenters import Segment, Windows
from spacy_elmo.weights import read_weights

from helpers import reference
from helpers.components import concat_both, tagger
from helpers.golden import BILM_TF, BILM_TF_MODELS, read_batches, read_bilm_tf
from helpers.models import TINY_OPTIONS, check_refused, weights_of
from helpers.trained import trained

pytestmark = pytest.mark.pipelines

WEIRD = [
    "",
    "  two spaces \n\n and\tmore ",
    "emoji 😀👩‍👩‍👧 and ünïcödé 漢字",
    "x" * 1000 + " is long",
]
DATASETS = reference.random_datasets(TINY_OPTIONS, seed=1)
# How far apart the vectors of one text may be, of the largest value: batches of another shape
# may round otherwise (a unit of bfloat16 is 1/256).
TOLERANCE = {"float32": 1e-5, "bfloat16": 0.02, "int8": 0.02}


def segmenter(name, **settings):
    return {"@segmenters": f"spacy-elmo.{name}.v1", **settings}


def in_order(sequences, state=None):
    """Compute the layers of sequences that are read one after another in numpy, and the final
    state."""
    layers = []
    for words in sequences:
        found, state = reference.layers(TINY_OPTIONS, DATASETS, [words], state)
        layers.append(found[0])
    return layers, state


@pytest.mark.parametrize("initial_state", ["zeros", "warm", "carry"])
def test_initial_states_equal_the_formula(make_nlp, initial_state):
    """The state "warm" comes after an empty sentence. The state "carry" goes from sentence to
    sentence within a Doc, and from window to window at the last kept token."""
    sentences = [["One", "two", "."], ["Three", "."], ["Four", "five", "six", "."]]
    nlp = make_nlp(initial_state=initial_state, segmenter=segmenter("sentences"))
    words = [word for sentence in sentences for word in sentence]
    doc = Doc(nlp.vocab, words, sent_starts=[i in (0, 3, 5) for i in range(9)])
    wanted, _ = in_order(sentences)
    if initial_state != "carry":
        state = in_order([[]])[1] if initial_state == "warm" else None
        wanted = [in_order([sentence], state)[0][0] for sentence in sentences]
    # a second Doc in the batch, with fewer sentences
    _, got = nlp.get_pipe("elmo").predict([nlp.make_doc("Seven eight"), doc])
    np.testing.assert_allclose(got, np.concatenate(wanted, axis=1), atol=1e-5)
    if initial_state == "carry":
        nlp.get_pipe("elmo").segmenter = Windows(4, 2)
        (got,) = nlp.get_pipe("elmo").predict([Doc(nlp.vocab, list("abcdefgh"))])
        wanted, _ = in_order([["a", "b", "c"], ["d", "e"], ["f", "g", "h"]])
        np.testing.assert_allclose(got, np.concatenate(wanted, axis=1), atol=1e-5)


@pytest.mark.parametrize("name", BILM_TF_MODELS)
def test_carry_equals_the_streams_of_bilm_tf(make_nlp, name):
    """A Doc is a stream of bilm-tf, and a sentence is a batch."""
    nlp = make_nlp(weights=str(BILM_TF / name), initial_state="carry", store_layers=True, mix="top")
    streams, expected = zip(*read_batches()), zip(*read_bilm_tf(name))
    docs = []
    for stream in streams:
        starts = [i == 0 for sentence in stream for i in range(len(sentence))]
        docs.append(Doc(nlp.vocab, [w for s in stream for w in s], sent_starts=starts))
    assert len(docs) == 3
    for doc, layers in zip(nlp.get_pipe("elmo").pipe(docs), expected):
        np.testing.assert_allclose(doc._.elmo, np.concatenate(layers, axis=1), atol=2e-6, rtol=0)
        np.testing.assert_array_equal(doc.tensor, doc._.elmo[-1])


def test_windows_equal_separate_runs_of_the_reference(make_nlp):
    words = random.Random(0).choices(["bank", "river", "money", "the", "of"], k=25)
    nlp = make_nlp(segmenter=segmenter("windows", size=10, overlap=4), initial_state="zeros")
    got = nlp.get_pipe("elmo").predict([Doc(nlp.vocab, words)])[0]
    read, kept = [(0, 10), (6, 16), (12, 22), (18, 25)], [(0, 8), (2, 8), (2, 8), (2, 7)]
    apart = [in_order([words[start:end]])[0][0] for start, end in read]
    wanted = [layers[:, start:end] for layers, (start, end) in zip(apart, kept)]
    np.testing.assert_allclose(got, np.concatenate(wanted, axis=1), atol=1e-5)


def test_a_segmenter_that_loses_tokens_is_refused(nlp):
    nlp.get_pipe("elmo").segmenter = lambda doc: [Segment(0, 1, 0, 1)]
    with pytest.raises(ValueError, match="segments that keep only 1 of 2 tokens"):
        nlp("river bank")


@pytest.mark.parametrize("precision", TOLERANCE)
def test_a_text_has_the_same_vectors_in_any_batch(make_nlp, precision):
    """A processor without a precision computes in the next slower one."""
    texts = WEIRD + ["They sat on the bank . " * n for n in range(1, 12)]
    alone = make_nlp(cache=0, precision=precision)
    wanted = [alone(text).tensor for text in texts]
    order = random.Random(1).sample(range(len(texts)), len(texts))
    nlp = make_nlp(max_batch_tokens=7, precision=precision)
    for i, doc in zip(order, nlp.pipe([texts[i] for i in order], batch_size=8)):
        assert doc.text == texts[i]
        atol = TOLERANCE[precision] * np.abs(wanted[i]).max(initial=1.0)
        np.testing.assert_allclose(doc.tensor, wanted[i], rtol=0, atol=atol)


def test_a_stream_is_read_in_parts_and_errors_go_to_the_handler(make_nlp, monkeypatch):
    """Layers of at most 8 batches are in memory. spaCy's error handler gets a batch that fails."""
    nlp = make_nlp(max_batch_tokens=3)
    pipe, sizes, failed = nlp.get_pipe("elmo"), [], []
    predict = pipe.predict

    def predict_and_note(docs):
        sizes.append(sum(map(len, docs)))
        if any(doc.text == "no such bank" for doc in docs):
            raise ValueError("no such bank")
        return predict(docs)

    monkeypatch.setattr(pipe, "predict", predict_and_note)
    texts = ["a river bank"] * 20
    assert len(list(nlp.pipe(texts, batch_size=1000))) == 20
    assert sizes == [24, 24, 12]
    check_refused(lambda: list(nlp.pipe(["no such bank"])), "no such bank")
    nlp.set_error_handler(lambda *given: failed.append(given))
    texts.insert(9, "no such bank")
    docs = list(nlp.pipe(texts, batch_size=1000))
    ((name, component, batch, error),) = failed
    assert (name, component, str(error)) == ("elmo", pipe, "no such bank")
    assert [doc.text for doc in batch] == texts[8:16]
    assert [(doc.text, len(doc.tensor)) for doc in docs] == [("a river bank", 3)] * 13


@pytest.mark.threads
def test_threads_share_one_pipeline(make_nlp):
    nlp, alone = make_nlp(), make_nlp()
    texts = [f"They sat on bank {i} of the river ." for i in range(20)]
    wanted = np.concatenate([alone(text).tensor for text in texts])
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(lambda _: [nlp(text).tensor for text in texts], range(8)):
            np.testing.assert_allclose(np.concatenate(found), wanted, rtol=0, atol=1e-5)


BLOCK = {"@architectures": "spacy-elmo.BiLM.v1", "lstm_dim": 999}


@pytest.mark.training
@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"weights": None}, "spacy_elmo.pretrained(PATH)"),
        ({"weights": "nowhere/model.safetensors"}, "nowhere/model.safetensors"),
        ({"model": BLOCK}, "lstm_dim is 12 there and 999 in the config"),
    ],
)
def test_weights_that_cannot_be_used_are_refused(make_nlp, config, message):
    nlp = make_nlp(**config)
    for use in (lambda: nlp("a"), nlp.initialize):
        check_refused(use, message)


@pytest.mark.training
def test_initialize_reads_other_weights(make_nlp, tiny_weights):
    """A second call without weights keeps those of the first."""
    nlp = make_nlp(weights=None)
    for components in ({"elmo": {"weights": str(tiny_weights)}}, {}):
        nlp.config["initialize"]["components"] = components
        nlp.initialize()
        assert nlp("a").tensor.shape == (1, 12)


def test_a_saved_pipeline_needs_no_path_of_weights(make_nlp, tiny_weights, tmp_path):
    """The pipeline may be unused when it is saved. One that was saved without weights is loaded
    without weights."""
    moved = shutil.copytree(tiny_weights.parent, tmp_path / "weights")
    nlp, unused = (make_nlp(weights=str(moved)) for _ in range(2))
    wanted = nlp("The bank").tensor
    data = nlp.to_bytes()
    for one, name in ((nlp, "used"), (unused, "unused"), (make_nlp(weights=None), "none")):
        one.to_disk(tmp_path / name)
    shutil.rmtree(moved)
    loaded = make_nlp(weights=None).from_bytes(data)
    for one in (spacy.load(tmp_path / "used"), spacy.load(tmp_path / "unused"), loaded):
        np.testing.assert_array_equal(one("The bank").tensor, wanted)
    # a pipeline is weights, too
    assert read_weights(tmp_path / "used").config.lstm_dim == 12
    check_refused(lambda: spacy.load(tmp_path / "none")("x"), "spacy_elmo.pretrained")


def test_an_excluded_model_is_not_saved_or_loaded(make_nlp, tmp_path):
    pipe, other = (make_nlp().get_pipe("elmo") for _ in range(2))
    other.set_bilm(BiLM(pipe.bilm.config))
    own = other.bilm.checksum()
    pipe.to_disk(tmp_path / "elmo", exclude=["model"])
    assert not (tmp_path / "elmo" / "model.safetensors").exists()
    pipe.to_disk(tmp_path / "elmo")
    data = pipe.to_bytes()
    assert len(pipe.to_bytes(exclude=["model"])) < 100 < len(data)
    other.from_disk(tmp_path / "elmo", exclude=["model"])
    assert other.from_bytes(data, exclude=["model"]).bilm.checksum() == own
    assert other.from_bytes(data).bilm.checksum() == pipe.bilm.checksum() != own


def test_layers_that_are_not_stored_give_a_warning(make_nlp):
    doc = make_nlp()("a b")
    with pytest.warns(UserWarning, match='Add it with config={"store_layers": True}') as found:
        assert doc._.elmo is None
    assert found[0].filename == __file__
    doc._.elmo = None  # freed: the user knows
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert doc._.elmo is None
    layers = make_nlp(store_layers=True)("a b")._.elmo
    assert (layers.shape, layers.dtype) == ((3, 2, 12), np.float32)


@pytest.mark.training
def test_wrong_examples_are_refused_as_by_spacy(nlp):
    with pytest.raises(TypeError, match="E978.*Elmo.update"):
        nlp.get_pipe("elmo").update([nlp.make_doc("a b")])
    for get_examples in (None, list):
        with pytest.raises(TypeError, match="E930.*Elmo.initialize"):
            nlp.get_pipe("elmo").initialize(get_examples)


@pytest.mark.training
def test_averages_of_the_weights_are_swapped_in_and_back(make_nlp):
    """Design, fact 7: `use_averages` swaps the biLM's weights, too."""
    nlp = make_nlp(frozen=False)
    batch, _ = trained(nlp)
    sgd = Adam(0.05, use_averages=True)
    for _ in range(4):
        nlp.update(batch, sgd=sgd)
    pipe, current = nlp.get_pipe("elmo"), nlp("The bank").tensor
    average = sgd.averages[(pipe._shim.id, "stacks.0.0.bias")]
    with nlp.use_params(sgd.averages):
        np.testing.assert_array_equal(weights_of(pipe.bilm)["stacks.0.0.bias"], average)
        assert not np.allclose(nlp("The bank").tensor, current)
    np.testing.assert_array_equal(nlp("The bank").tensor, current)


@pytest.mark.training
def test_no_docs_stay_in_memory(make_nlp):
    nlp = make_nlp(frozen=False)
    batch, sgd = trained(nlp, tagger=tagger(concat_both()))
    seen = weakref.ref(nlp("A bank"))
    nlp.update(batch, sgd=sgd)
    gc.collect()
    assert seen() is None
    assert nlp.get_pipe("elmo")._batch is None
