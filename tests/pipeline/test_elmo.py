import copy
import gc
import pickle
import random
import shutil
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc

import spacy_elmo
from spacy_elmo.bilm.model import BiLM
from spacy_elmo.weights import read_weights

from helpers.components import concat_both, tagger
from helpers.golden import BILM_TF, BILM_TF_MODELS, read_batches, read_bilm_tf
from helpers.models import TINY_OPTIONS, weights_of
from helpers.reference import layers as reference_layers
from helpers.reference import random_datasets
from helpers.trained import trained

WEIRD = [
    "",
    "  two spaces \n\n and\tmore ",
    "emoji 😀👩‍👩‍👧 and ünïcödé 漢字",
    "x" * 1000 + " is long",
    "a",
    "The quick brown fox jumps over the lazy dog .",
]
# How far apart the vectors of one text may be, of the largest value: batches of another shape
# may round otherwise (a unit of bfloat16 is 1/256).
TOLERANCE = {"float32": 1e-5, "bfloat16": 0.02, "int8": 0.02}


def bound(tensor, precision):
    return TOLERANCE[precision] * np.abs(tensor).max(initial=1.0)


def test_layers_are_the_reference_s(make_nlp):
    """One segment from zeros: what numpy computes."""
    nlp = make_nlp(initial_state="zeros", store_layers=True, segmenter=whole())
    docs = [doc for doc in nlp.pipe(WEIRD) if len(doc)]
    datasets = random_datasets(TINY_OPTIONS, seed=1)
    wanted, _ = reference_layers(TINY_OPTIONS, datasets, [[t.text for t in doc] for doc in docs])
    for doc, layers in zip(docs, wanted):
        np.testing.assert_allclose(doc._.elmo, layers, atol=1e-5)
        np.testing.assert_allclose(doc.tensor, layers[-1], atol=1e-5)


def whole():
    return {"@segmenters": "spacy-elmo.doc.v1"}


def test_initial_states(make_nlp):
    """warm: after one empty sentence. carry: sentence to sentence within a Doc."""
    datasets = random_datasets(TINY_OPTIONS, seed=1)
    sentences = [["One", "two", "."], ["Three", "."], ["Four", "five", "six", "."]]
    doc = Doc(spacy.blank("en").vocab, [w for s in sentences for w in s])
    for i, token in enumerate(doc):
        token.is_sent_start = i in (0, 3, 5)
    for initial_state in ("zeros", "warm", "carry"):
        nlp = make_nlp(initial_state=initial_state, store_layers=True)
        state = reference_layers(TINY_OPTIONS, datasets, [[]])[1]
        state, parts = state if initial_state == "warm" else None, []
        for sentence in sentences:
            layers, after = reference_layers(TINY_OPTIONS, datasets, [sentence], state)
            parts.append(layers[0])
            state = after if initial_state == "carry" else state
        # a second Doc in the batch, with fewer sentences
        other = nlp.make_doc("Seven eight")
        got = nlp.get_pipe("elmo").predict([other, doc])[1]
        np.testing.assert_allclose(got, np.concatenate(parts, axis=1), atol=1e-5)


@pytest.mark.parametrize("name", BILM_TF_MODELS)
def test_carry_equals_tensorflow_s_streams(make_nlp, name):
    """A Doc a stream, a sentence a batch of bilm-tf's."""
    nlp = make_nlp(weights=str(BILM_TF / name), initial_state="carry", store_layers=True, mix="top")
    streams, expected = zip(*read_batches()), zip(*read_bilm_tf(name))
    docs = []
    for stream in streams:
        starts = [i == 0 for sentence in stream for i in range(len(sentence))]
        docs.append(Doc(nlp.vocab, [w for s in stream for w in s], sent_starts=starts))
    assert len(docs) == 3
    for doc, layers in zip(nlp.get_pipe("elmo").pipe(docs), expected):
        wanted = np.concatenate(layers, axis=1)
        np.testing.assert_allclose(doc._.elmo, wanted, atol=2e-6, rtol=0)
        np.testing.assert_array_equal(doc.tensor, doc._.elmo[-1])


def test_carry_with_overlapping_windows(make_nlp):
    """What a window keeps, after the state that the one before has left."""
    windows = {"@segmenters": "spacy-elmo.windows.v1", "size": 4, "overlap": 2}
    words, kept = list("abcdefgh"), [(0, 3), (3, 5), (5, 8)]
    nlp = make_nlp(initial_state="carry", segmenter=windows, store_layers=True)
    got = nlp.get_pipe("elmo").predict([Doc(nlp.vocab, words)])[0]
    datasets, state, wanted = random_datasets(TINY_OPTIONS, seed=1), None, []
    for start, end in kept:
        layers, state = reference_layers(TINY_OPTIONS, datasets, [words[start:end]], state)
        wanted.append(layers[0])
    np.testing.assert_allclose(got, np.concatenate(wanted, axis=1), atol=1e-5)


def test_windows_are_the_reference_s_run_apart(make_nlp):
    words = random.Random(0).choices(["bank", "river", "money", "the", "of"], k=25)
    windows = {"@segmenters": "spacy-elmo.windows.v1", "size": 10, "overlap": 4}
    nlp = make_nlp(segmenter=windows, initial_state="zeros")
    got = nlp.get_pipe("elmo").predict([Doc(nlp.vocab, words)])[0]
    cut = [words[0:10], words[6:16], words[12:22], words[18:25]]
    datasets = random_datasets(TINY_OPTIONS, seed=1)
    apart, _ = reference_layers(TINY_OPTIONS, datasets, cut)
    wanted = np.concatenate(
        [apart[0][:, :8], apart[1][:, 2:8], apart[2][:, 2:8], apart[3][:, 2:]], axis=1
    )
    np.testing.assert_allclose(got, wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("precision", "max_batch_tokens", "batch_size"),
    [("float32", 1, 1), ("float32", 7, 64), ("float32", 4096, 64)]
    + [(precision, 7, 64) for precision in TOLERANCE if precision != "float32"],
)
def test_same_text_same_vector(make_nlp, precision, max_batch_tokens, batch_size):
    """Where the processor lacks a precision, in its next slower one."""
    texts = WEIRD + ["They sat on the bank . " * n for n in range(1, 12)]
    alone = make_nlp(cache=0, precision=precision)
    wanted = [alone(text).tensor for text in texts]
    order = random.Random(1).sample(range(len(texts)), len(texts))
    nlp = make_nlp(max_batch_tokens=max_batch_tokens, precision=precision)
    docs = nlp.pipe([texts[i] for i in order], batch_size=batch_size)
    for i, doc in zip(order, docs):
        assert doc.text == texts[i]
        atol = bound(wanted[i], precision)
        np.testing.assert_allclose(doc.tensor, wanted[i], rtol=0, atol=atol)


def test_long_doc_without_sentences(make_nlp):
    vocabulary = ["the", "bank", "of", "a", "river", "lends", "money", "."]
    words = random.Random(0).choices(vocabulary, k=10_000)
    nlp = make_nlp()
    doc = nlp.get_pipe("elmo")(Doc(nlp.vocab, words))
    assert doc.tensor.shape == (10_000, 12)
    # a window far from both ends knows what is near: exact, not cut
    part = nlp.get_pipe("elmo")(Doc(nlp.vocab, words[4000:5000]))
    np.testing.assert_allclose(doc.tensor[4400:4600], part.tensor[400:600], atol=1e-5)


def test_a_stream_is_held_in_part_and_errors_go_to_their_handler(make_nlp, monkeypatch):
    """Layers of 8 batches at a time; a batch that fails is given to spaCy's error handler."""
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
    with pytest.raises(ValueError, match="no such bank"):
        list(nlp.pipe(["no such bank"]))
    nlp.set_error_handler(lambda *given: failed.append(given))
    texts = [*texts[:9], "no such bank", *texts[9:]]
    docs = list(nlp.pipe(texts, batch_size=1000))
    ((name, component, batch, error),) = failed
    assert (name, component, str(error)) == ("elmo", pipe, "no such bank")
    assert [doc.text for doc in batch] == texts[8:16]
    assert [doc.text for doc in docs] == [*texts[:8], *texts[16:]]
    assert all(len(doc.tensor) == 3 for doc in docs)


@pytest.mark.parametrize("precision", TOLERANCE)
def test_threads_share_one_pipeline(make_nlp, precision):
    nlp, alone = (make_nlp(precision=precision) for _ in range(2))
    texts = [f"They sat on bank {i} of the river ." for i in range(20)]
    wanted = [alone(text).tensor for text in texts]

    def work(_):
        return [nlp(text).tensor for text in texts]

    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(work, range(8)):
            for tensor, expected in zip(found, wanted):
                atol = bound(expected, precision)
                np.testing.assert_allclose(tensor, expected, rtol=0, atol=atol)


BLOCK = {"@architectures": "spacy-elmo.BiLM.v1", "lstm_dim": 999}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"weights": None}, r"spacy_elmo.pretrained\(PATH\)"),
        ({"weights": "nowhere/model.safetensors"}, "nowhere/model.safetensors"),
        ({"model": BLOCK}, "lstm_dim is 12 there and 999 in the config"),
    ],
)
def test_weights_that_cannot_be_used(make_nlp, config, message):
    nlp = make_nlp(**config)
    for use in (lambda: nlp("a"), nlp.initialize):
        with pytest.raises(ValueError, match=message):
            use()


def test_pretrained_and_a_reader_as_weights(make_nlp, tiny_weights):
    config = spacy_elmo.pretrained(tiny_weights)
    assert config["model"]["lstm_dim"] == 12
    block = {"@weights_readers": "spacy-elmo.allennlp.v1", "path": str(tiny_weights)}
    for given in (config, {"weights": block}):
        assert make_nlp(**given)("a").tensor.shape == (1, 12)


def test_initialize_reads_other_weights(make_nlp, tiny_weights):
    nlp = make_nlp(weights=None)
    nlp.config["initialize"]["components"]["elmo"] = {"weights": str(tiny_weights)}
    nlp.initialize()
    assert nlp("a").tensor.shape == (1, 12)
    # initialised again without: what there is stays
    nlp.config["initialize"]["components"] = {}
    nlp.initialize()
    assert nlp("a").tensor.shape == (1, 12)


def test_saved_pipeline_needs_no_weights_path(make_nlp, tiny_weights, tmp_path):
    moved = shutil.copytree(tiny_weights.parent, tmp_path / "weights")
    nlp = make_nlp(weights=str(moved))
    wanted = nlp("The bank").tensor
    data = nlp.to_bytes()
    nlp.to_disk(tmp_path / "pipeline")
    shutil.rmtree(moved)
    assert (tmp_path / "pipeline" / "elmo" / "model.safetensors").is_file()
    np.testing.assert_array_equal(spacy.load(tmp_path / "pipeline")("The bank").tensor, wanted)
    other = make_nlp(weights=None).from_bytes(data)
    np.testing.assert_array_equal(other("The bank").tensor, wanted)
    # a pipeline is weights, too
    assert read_weights(tmp_path / "pipeline").config.lstm_dim == 12


def test_unused_pipeline_is_saved_with_its_weights(make_nlp, tmp_path):
    make_nlp().to_disk(tmp_path / "a")
    assert spacy.load(tmp_path / "a")("x").tensor.shape == (1, 12)
    make_nlp(weights=None).to_disk(tmp_path / "b")
    with pytest.raises(ValueError, match="spacy_elmo.pretrained"):
        spacy.load(tmp_path / "b")("x")


def test_saved_segmenter_stays(make_nlp, tmp_path):
    """New pipelines cut at punctuation; one that was saved with another segmenter keeps it."""
    text = "They sat . A bank lends ."
    old = make_nlp(segmenter={"@segmenters": "spacy-elmo.sentences.v1"})
    new = make_nlp()
    assert not np.allclose(old(text).tensor, new(text).tensor)
    for nlp, name in ((old, "spacy-elmo.sentences.v1"), (new, "spacy-elmo.sentences.v2")):
        nlp.to_disk(tmp_path / name)
        loaded = spacy.load(tmp_path / name)
        assert loaded.get_pipe_config("elmo")["segmenter"]["@segmenters"] == name
        np.testing.assert_array_equal(loaded(text).tensor, nlp(text).tensor)


def test_exclude_model(make_nlp, tmp_path):
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


def test_store_layers(make_nlp):
    doc = make_nlp()("a b")
    with pytest.warns(UserWarning, match='Add it with config={"store_layers": True}') as found:
        assert doc._.elmo is None
    assert found[0].filename == __file__
    doc._.elmo = None  # freed: the user knows
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert doc._.elmo is None
    assert make_nlp(store_layers=True)("a b")._.elmo.shape == (3, 2, 12)
    nlp = make_nlp()
    trained(nlp)
    assert nlp("a b")._.elmo.shape == (3, 2, 12)
    assert nlp("a b")._.elmo.dtype == np.float32


def test_precision_reaches_the_model_and_is_saved(make_nlp, tmp_path):
    nlp = make_nlp(precision="bfloat16")
    assert make_nlp().get_pipe("elmo").bilm.precision == "float32"
    nlp("a b")
    assert nlp.get_pipe("elmo").bilm.precision == "bfloat16"
    nlp.to_disk(tmp_path)
    for loaded in (spacy.load(tmp_path), pickle.loads(pickle.dumps(nlp)), copy.deepcopy(nlp)):
        assert loaded.get_pipe_config("elmo")["precision"] == "bfloat16"
        assert loaded.get_pipe("elmo").bilm.precision == "bfloat16"
        np.testing.assert_array_equal(loaded("a b").tensor, nlp("a b").tensor)


def test_set_vectors_off(make_nlp):
    doc = make_nlp(set_vectors=False, store_layers=True)("a b")
    assert doc.tensor.size == 0
    assert not doc.has_vector
    assert doc._.elmo.shape == (3, 2, 12)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"initial_state": "cold"}, "initial_state"),
        ({"max_batch_tokens": 0}, "max_batch_tokens"),
        ({"cache": -1}, "cache"),
        ({"store_layers": "never"}, "store_layers"),
        ({"precision": "float16"}, "precision must be one of float32, bfloat16.*'float16'"),
        ({"learn_rate_factor": 0.0}, "learn_rate_factor: .*greater than 0"),
    ],
)
def test_impossible_settings(make_nlp, config, named):
    with pytest.raises(ValueError, match=named):
        make_nlp(**config)


def test_what_is_no_example_is_refused_as_by_spacy(make_nlp):
    nlp = make_nlp()
    with pytest.raises(TypeError, match="E978.*Elmo.update"):
        nlp.get_pipe("elmo").update([nlp.make_doc("a b")])
    for get_examples in (None, list):
        with pytest.raises(TypeError, match="E930.*Elmo.initialize"):
            nlp.get_pipe("elmo").initialize(get_examples)


def test_averages_of_pytorch_weights(make_nlp):
    """Design, fact 7: `use_averages` swaps the biLM's weights too, and back."""
    from thinc.api import Adam

    nlp = make_nlp(frozen=False)
    batch, _ = trained(nlp)
    sgd = Adam(0.05, use_averages=True)
    for _ in range(4):
        nlp.update(batch, sgd=sgd)
    pipe, current = nlp.get_pipe("elmo"), nlp("The bank").tensor
    average = sgd.averages[(pipe._shim.id, "stacks.0.0.bias")]
    with nlp.use_params(sgd.averages):
        np.testing.assert_array_equal(weights_of(pipe.bilm)["stacks.0.0.bias"], average)
        averaged = nlp("The bank").tensor
    assert not np.allclose(weights_of(pipe.bilm)["stacks.0.0.bias"], average)
    assert not np.allclose(averaged, current)
    np.testing.assert_array_equal(nlp("The bank").tensor, current)


def test_no_docs_are_kept(make_nlp):
    nlp = make_nlp(frozen=False)
    batch, sgd = trained(nlp, tagger=tagger(concat_both()))
    doc = nlp("A bank")
    seen = weakref.ref(doc)
    nlp.update(batch, sgd=sgd)
    del doc
    gc.collect()
    assert seen() is None
    assert nlp.get_pipe("elmo")._batch is None


def test_state_lives_outside_the_module(make_nlp):
    """Design, fact 12: nothing of another batch size can break loading."""
    pipe = make_nlp(frozen=False).get_pipe("elmo")
    before = set(pipe.bilm.state_dict())
    pipe.predict([Doc(pipe.vocab, ["a"] * n) for n in range(1, 6)])
    assert set(pipe.bilm.state_dict()) == before
    assert not list(pipe.bilm.buffers())
