"""Frozen features: the layers that a frozen language model computes for training, each only
once."""

import copy
import logging
import pickle
import sqlite3
from dataclasses import replace

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc
from spacy.training import Example

from helpers.components import concat_both, concat_input, listener, ner, tagger, textcat
from helpers.models import scaled
from helpers.rounding import check_close
from helpers.trained import trained as add_trained

pytestmark = pytest.mark.pipelines

MEMORY = {"@feature_caches": "spacy-elmo.memory.v1"}


def disk(path, **settings):
    return {"@feature_caches": "spacy-elmo.disk.v1", "path": str(path), **settings}


@pytest.fixture(params=["memory", "disk"])
def features(request, tmp_path):
    return MEMORY if request.param == "memory" else disk(tmp_path / "a" / "f.sqlite")


def fresh(batch):
    """Return new Docs with the same text, as a corpus reader does in every epoch."""
    return [Example(Doc(eg.x.vocab, words=[t.text for t in eg.x]), eg.y.copy()) for eg in batch]


@pytest.fixture
def trained(make_nlp):
    """Return a function that makes a pipeline, trains it for an epoch, and returns it with its
    examples."""

    def make(**config):
        nlp = make_nlp(**config)
        batch, sgd = add_trained(nlp)
        nlp.update(fresh(batch), sgd=sgd)
        return nlp, batch

    return make


def trained_on(pipe, *docs):
    """Return the layers of Docs in an update."""
    pipe.update([Example(doc, doc.copy()) for doc in docs])
    return [doc._.elmo.copy() for doc in docs]


def assert_as_computed(pipe, docs, got):
    pipe._shim.in_training = False
    for layers, wanted in zip(got, pipe.predict(docs), strict=True):
        check_close(layers, wanted)


@pytest.mark.training
def test_every_doc_is_computed_once(make_nlp, computed, features):
    """A Doc is computed once for all epochs, components and evaluations, and with a file for all
    runs."""
    for run in range(2):
        nlp, listening = make_nlp(features=features), tagger(listener())
        more = {"ner": ner(concat_both()), "textcat": textcat(concat_input())}
        batch, sgd = add_trained(nlp, tagger=listening, **more)
        computed.clear()
        for _ in range(2):
            for example in fresh(batch):
                nlp.update([example], sgd=sgd)
            nlp.evaluate(fresh(batch))
        expected = sorted(tuple(t.text for t in eg.x) for eg in batch)
        assert sorted(computed) == (expected if run == 0 or features is MEMORY else [])


@pytest.mark.training
def test_predictions_are_not_kept(trained, computed, features):
    """Only Docs that come again are kept: training examples, and Docs that are scored."""
    nlp, batch = trained(features=features)

    def n_kept():
        if features is MEMORY:
            return len(nlp.get_pipe("elmo").features)
        with sqlite3.connect(features["path"]) as connection:
            return connection.execute("SELECT count(*) FROM features").fetchone()[0]

    docs = list(nlp.pipe(f"Text number {i} is read once ." for i in range(30)))
    assert n_kept() == len(batch)
    for n_computed in (5, 0):
        computed.clear()
        nlp.evaluate([Example(nlp.make_doc(doc.text), doc) for doc in docs[:5]])
        assert (len(computed), n_kept()) == (n_computed, len(batch) + 5)


@pytest.mark.training
def test_scored_docs_are_kept_with_the_sequences_they_had(trained):
    """A later component that sets sentences does not change the sequences of the layers."""
    nlp, _ = trained()
    nlp.add_pipe("sentencizer", config={"punct_chars": [";"]})
    nlp.select_pipes(enable=["elmo", "sentencizer"])
    text = "One ; two . Three"
    nlp.evaluate([Example(nlp.make_doc(text), nlp.make_doc(text))])
    docs = [nlp.make_doc(text), nlp.get_pipe("sentencizer")(nlp.make_doc(text))]
    pipe = nlp.get_pipe("elmo")
    got = pipe.predict(docs)
    assert_as_computed(pipe, docs, got)
    assert not np.allclose(got[0], got[1])


@pytest.mark.training
@pytest.mark.parametrize("config", [{"features": None}, {"frozen": False}])
def test_features_are_off_without_a_cache_or_without_freezing(trained, computed, config):
    nlp, batch = trained(**config)
    computed.clear()
    nlp.update(fresh(batch))
    assert len(computed) == len(batch)
    assert not nlp.get_pipe("elmo").features


def test_features_are_off_if_nothing_is_trained(make_nlp, computed, features, tmp_path):
    nlp = make_nlp(features=features)
    for _ in range(3):
        nlp("A text that comes again .")
    assert computed == [("A", "text", "that", "comes", "again", ".")] * 3
    assert not (tmp_path / "a").exists()


@pytest.mark.training
def test_training_with_features_gives_the_same_weights(trained):
    """The batch is the same in every epoch, and the weights are equal bit for bit."""
    weights = []
    for features in (MEMORY, None):
        spacy.util.fix_random_seed(0)
        nlp, batch = trained(features=features)
        for _ in range(3):
            nlp.update(fresh(batch), sgd=nlp.resume_training())
        weights.append(nlp.get_pipe("tagger").model.to_bytes())
    assert weights[0] == weights[1]


@pytest.mark.training
def test_float16_takes_half_the_memory(trained):
    """The layers differ by float16's rounding, 11 bits."""
    sizes, layers = [], []
    for dtype in ("float32", "float16"):
        nlp, batch = trained(features={**MEMORY, "dtype": dtype})
        pipe = nlp.get_pipe("elmo")
        found = trained_on(pipe, *(example.x for example in fresh(batch)))
        layers.append(np.concatenate(found, axis=1))
        sizes.append(pipe.features.n_bytes)
    assert layers[1].dtype == "float32"
    assert sizes[1] * 2 == sizes[0] == layers[0].nbytes
    np.testing.assert_allclose(layers[1], layers[0], rtol=2**-11, atol=1e-7)
    assert (layers[1] != layers[0]).any()


@pytest.mark.training
def test_full_memory_keeps_the_first_docs_and_warns_once(trained, caplog, computed):
    """The others are computed each time."""
    # three layers of the first two of the four texts
    with caplog.at_level(logging.WARNING, logger="spacy"):
        nlp, batch = trained(features={**MEMORY, "size": (9 + 9) * 3 * 12 * 4 / 1024**2})
        for _ in range(2):
            computed.clear()
            nlp.update(fresh(batch))
    assert len(computed) == 2
    assert len(nlp.get_pipe("elmo").features) == 2
    assert sum("are full of ELMo layers" in record.message for record in caplog.records) == 1


CARRY = {"initial_state": "carry"}
WINDOWS = {"segmenter": {"@segmenters": "spacy-elmo.windows.v1", "size": 4, "overlap": 2}}
TEXTS = [
    # "Maria swims ." was trained on. An augmented Doc, and one that is cut, are others.
    ({}, "Maria swims .|maria swims .|Maria;swims .", "Maria|maria swims .|swims ."),
    # The context of several questions, and a sentence of several Docs.
    ({}, "Who ?;It is .|What ?;It is .|What ?;It is .|It is .", "It is .|What ?|Who ?"),
    # Behind another sentence, a sentence is not that sentence alone.
    (CARRY, "A .;It is .|It is .|A .;It is .", "A .|It is .|It is ."),
    # Two windows of the same words, which keep others of them.
    (WINDOWS, "a a a a a a", "a a a a|a a a a"),
]


@pytest.mark.training
@pytest.mark.parametrize(("config", "texts", "expected"), TEXTS)
def test_equal_sequences_are_computed_once(trained, computed, config, texts, expected):
    """Each Doc gets its own layers in its own memory. `|` separates Docs or sequences, and `;`
    separates the sentences of a Doc."""
    nlp, _ = trained(**config)
    pipe = nlp.get_pipe("elmo")

    def docs():
        for text in texts.split("|"):
            words = [sentence.split() for sentence in text.split(";")]
            starts = [i == 0 for sentence in words for i in range(len(sentence))]
            yield Doc(nlp.vocab, words=text.replace(";", " ").split(), sent_starts=starts)

    first, again = list(docs()), list(docs())
    computed.clear()
    got = trained_on(pipe, *first)
    assert "|".join(sorted(map(" ".join, computed))) == expected
    first[-1]._.elmo[:] = 0.0
    computed.clear()
    for one, two in zip(got, trained_on(pipe, *again), strict=True):
        np.testing.assert_array_equal(one, two)
    assert computed == []
    assert_as_computed(pipe, first, got)


@pytest.mark.training
@pytest.mark.usefixtures("all_precisions")
@pytest.mark.parametrize("change", ["set_bilm", "precision", "initial_state"])
def test_features_of_other_weights_or_settings_are_not_used(trained, features, change):
    """Old features are removed from memory, too."""
    nlp, _ = trained(features=features)
    pipe, doc = nlp.get_pipe("elmo"), nlp.make_doc("Maria swims .")
    (before,) = trained_on(pipe, doc)
    if change == "set_bilm":
        pipe.set_bilm(scaled(pipe.bilm))
    else:
        other = {"precision": "bfloat16", "initial_state": "zeros"}
        pipe.settings = replace(pipe.settings, **{change: other[change]})
    (after,) = trained_on(pipe, doc)
    assert np.abs(after[1:] - before[1:]).max() > 1e-4
    np.testing.assert_array_equal(trained_on(pipe, doc), [after])
    assert features is not MEMORY or len(pipe.features) == 1
    assert_as_computed(pipe, [doc], [after])


def test_copies_keep_the_precision(make_nlp):
    pipe = make_nlp(precision="int8").get_pipe("elmo")
    assert pipe.bilm.precision == pipe.settings.precision == "int8"
    with pytest.raises(AttributeError, match=r"Use pipe.precision = 'bfloat16'"):
        pipe.bilm.precision = "bfloat16"
    pipe.precision, pipe.cache = "bfloat16", 7
    for copied in (pipe, pickle.loads(pickle.dumps(pipe)), copy.deepcopy(pipe)):
        assert copied.bilm.precision == copied.settings.precision == "bfloat16"
        assert copied.bilm.cache.capacity == copied.settings.cache == 7


@pytest.mark.training
def test_a_frozen_component_that_annotates_computes_each_doc_once(trained, computed):
    """This is spaCy's other way to freeze: it runs the pipe before each update."""
    nlp, batch = trained()
    sgd = nlp.resume_training()
    nlp.get_pipe("elmo").features.clear()
    nlp.get_pipe("elmo").model.shims[0].in_training = False
    for _ in range(3):
        computed.clear()
        nlp.update(fresh(batch), sgd=sgd, exclude=["elmo"], annotates=["elmo"])
    assert computed == []


@pytest.mark.training
def test_copies_have_no_features(trained):
    """Features are not sent to other processes or saved with pipelines."""
    nlp, batch = trained()
    pipe = nlp.get_pipe("elmo")
    assert len(pipe.features) == len(batch)
    for copied in (pickle.loads(pickle.dumps(pipe)), copy.deepcopy(pipe)):
        assert len(copied.features) == 0
        assert not copied.model.shims[0].in_training
        assert copied.features.config() == pipe.features.config()
    assert nlp.config["components"]["elmo"]["features"]["size"] == 1024.0


@pytest.mark.training
def test_features_work_after_replace_listeners(trained, tmp_path, computed):
    """The component's own language model keeps features, too, if it is trained."""
    settings = disk(tmp_path / "features.sqlite", dtype="float16")
    nlp, batch = trained(features=settings)
    nlp.replace_listeners("elmo", "tagger", ["model.tok2vec"])
    nlp.remove_pipe("elmo")
    nlp.to_disk(tmp_path / "pipeline")
    (tmp_path / "features.sqlite").unlink()
    nlp = spacy.load(tmp_path / "pipeline")
    block = nlp.get_pipe_config("tagger")["model"]["tok2vec"]["features"]
    assert block == {**settings, "size": 10240.0}
    sgd = nlp.resume_training()
    for n_computed in (len(batch), 0):
        computed.clear()
        nlp.update(fresh(batch), sgd=sgd)
        assert len(computed) == n_computed
