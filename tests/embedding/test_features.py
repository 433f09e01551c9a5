"""Frozen features: what a frozen language model gives in training, computed once."""

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

from spacy_elmo.embedding.features import cut_doc
from spacy_elmo.embedding.segmenters import Segment
from spacy_elmo.frozen.kernel import find_kernel

from helpers.components import examples, listener, tagger
from helpers.kept_features import components, disk, fresh, train
from helpers.models import scaled

MEMORY = {"@feature_caches": "spacy-elmo.memory.v1"}


@pytest.fixture(params=["memory", "disk"])
def features(request, tmp_path):
    return MEMORY if request.param == "memory" else disk(tmp_path / "a" / "f.sqlite")


def test_every_doc_is_computed_once(make_nlp, computed, features):
    """Over all epochs, components and evaluations."""
    nlp = make_nlp(features=features)
    components(nlp)
    batch = examples(nlp)
    sgd = nlp.initialize(lambda: batch)
    computed.clear()
    for _ in range(4):
        for example in fresh(batch):
            nlp.update([example], sgd=sgd)
        nlp.evaluate(fresh(batch))
    assert sorted(computed) == sorted(tuple(t.text for t in eg.x) for eg in batch)


def predicted(nlp, n):
    """Texts that are read once, and not trained on."""
    return list(nlp.pipe(f"Text number {i} is read once ." for i in range(n)))


def test_predictions_are_not_kept(make_nlp, computed, features):
    """Only what comes again: examples that are trained on, and what is scored."""
    nlp = make_nlp(features=features)
    batch = train(nlp, n_epochs=1)

    def n_kept():
        if features is MEMORY:
            return len(nlp.get_pipe("elmo").features)
        with sqlite3.connect(features["path"]) as connection:
            return connection.execute("SELECT count(*) FROM features").fetchone()[0]

    docs = predicted(nlp, 30)
    assert n_kept() == len(batch)
    dev = [Example(nlp.make_doc(doc.text), doc) for doc in docs[:5]]
    nlp.evaluate(dev)
    assert n_kept() == len(batch) + 5
    computed.clear()
    nlp.evaluate([Example(nlp.make_doc(doc.text), doc) for doc in docs[:5]])
    assert computed == []
    assert n_kept() == len(batch) + 5


def test_what_is_scored_is_kept_as_it_was_cut(make_nlp):
    """A component after `elmo` that sets sentences does not change what its layers are of."""
    nlp = make_nlp()
    train(nlp, n_epochs=1)
    nlp.add_pipe("sentencizer")
    nlp.select_pipes(enable=["elmo", "sentencizer"])
    text = "One ; two . Three"
    nlp.get_pipe("sentencizer").punct_chars = {";"}
    nlp.evaluate([Example(nlp.make_doc(text), nlp.make_doc(text))])
    pipe, doc = nlp.get_pipe("elmo"), nlp.make_doc(text)
    cut = nlp.get_pipe("sentencizer")(nlp.make_doc(text))
    got = pipe.predict([doc, cut])
    pipe._shim.in_training = False
    for layers, wanted in zip(got, pipe.predict([doc, cut])):
        np.testing.assert_allclose(layers, wanted, atol=1e-6)
    assert not np.allclose(got[0], got[1])


def test_it_is_off_where_it_is_null_and_where_nothing_is_trained(make_nlp, computed):
    nlp = make_nlp(features=None)
    batch = train(nlp)
    assert len(computed) > len(batch)
    nlp = make_nlp()
    for _ in range(3):
        nlp("A text that comes again .")
    assert computed[-3:] == [("A", "text", "that", "comes", "again", ".")] * 3
    assert len(nlp.get_pipe("elmo").features) == 0


def test_training_is_that_without_it(make_nlp):
    """The same batch in every epoch: the same weights, bit for bit."""
    weights = []
    for features in (MEMORY, None):
        spacy.util.fix_random_seed(0)
        nlp = make_nlp(features=features)
        train(nlp)
        weights.append(nlp.get_pipe("ner").model.to_bytes())
    assert weights[0] == weights[1]


def test_float16(make_nlp):
    """Half the memory, and layers within float16's rounding, 11 bits."""
    sizes, layers = [], []
    for dtype in ("float32", "float16"):
        nlp = make_nlp(features={**MEMORY, "dtype": dtype})
        train(nlp, n_epochs=1)
        again = fresh(examples(nlp))
        nlp.get_pipe("elmo").update(again)
        layers.append(np.concatenate([eg.x._.elmo for eg in again], axis=1))
        sizes.append(nlp.get_pipe("elmo").features.n_bytes)
    assert layers[1].dtype == "float32"
    assert sizes[1] * 2 == sizes[0] == layers[0].nbytes
    np.testing.assert_allclose(layers[1], layers[0], rtol=2**-11, atol=1e-7)
    assert (layers[1] != layers[0]).any()


def test_full_memory(make_nlp, caplog, computed):
    """What there is stays; the rest is computed each time; the log says so once."""
    n_layers, width = 3, 12
    room = (9 + 9) * n_layers * width * 4 / 1024**2  # the first two of the four texts
    nlp = make_nlp(features={**MEMORY, "size": room})
    components(nlp)
    batch = examples(nlp)
    sgd = nlp.initialize(lambda: batch)
    with caplog.at_level(logging.WARNING, logger="spacy"):
        for _ in range(3):
            computed.clear()
            nlp.update(fresh(batch), sgd=sgd)
    assert len(computed) == 2
    assert len(nlp.get_pipe("elmo").features) == 2
    assert sum("are full of ELMo layers" in record.message for record in caplog.records) == 1


def test_a_changed_doc_is_another(make_nlp, computed):
    """An augmented Doc misses, and gets its own layers."""
    nlp = make_nlp()
    train(nlp, n_epochs=1)
    pipe = nlp.get_pipe("elmo")
    lower = Doc(nlp.vocab, words=[t.lower_ for t in nlp.make_doc("Maria swims .")])
    whole = Doc(nlp.vocab, words=["Maria", "swims", "."])
    cut = Doc(nlp.vocab, words=["Maria", "swims", "."], sent_starts=[True, True, False])
    computed.clear()
    got = pipe.predict([whole, lower, cut])
    assert computed == [("maria", "swims", "."), ("swims", "."), ("Maria",)]
    pipe.model.shims[0].in_training = False
    for layers, wanted in zip(got, pipe.predict([whole, lower, cut])):
        np.testing.assert_allclose(layers, wanted, atol=1e-6)


def test_keys():
    """All that layers depend on, and nothing else: of a sequence its own tokens, wherever it
    stands; where the state is carried, all of the Doc."""
    vocab, whole = spacy.blank("en").vocab, [Segment(0, 3, 0, 3)]
    halves = [Segment(0, 1, 0, 1), Segment(1, 3, 1, 3)]

    def keys(words, segments, model="model", carry=False, lang=None):
        doc = Doc(lang.vocab if lang else vocab, words=words, spaces=[False] * len(words))
        return [piece.key for piece in cut_doc(doc, segments, model, carry=carry)]

    found = [
        keys(["a", "b", "c"], whole),
        keys(["a", "b", "c"], whole, model="model 2"),
        keys(["a", "b", "C"], whole),
        keys(["b", "a", "c"], whole),
        keys(["a", "b", "c"], halves),
        keys(["a", "b", "c"], [Segment(0, 3, 0, 2), Segment(1, 3, 2, 3)]),
        keys(["a", "b", "c"], halves, carry=True),
        keys(["a", "b", "c"], [Segment(0, 2, 0, 2), Segment(2, 3, 2, 3)], carry=True),
    ]
    assert [len(of_doc) for of_doc in found] == [1, 1, 1, 1, 2, 2, 1, 1]
    assert len({key for of_doc in found for key in of_doc}) == 10
    assert keys(["a", "b", "c"], whole, lang=spacy.blank("de")) == found[0]
    assert keys(["a", "b", "c"], whole, carry=True) == found[0]
    assert (
        keys(["x", "b", "c"], halves)[1]
        == found[4][1]
        == keys(["b", "c"], [Segment(0, 2, 0, 2)])[0]
    )
    assert keys([], []) == []


def test_a_text_of_many_docs_is_computed_once(make_nlp, computed, features):
    """As the context of several questions, and a sentence of several Docs."""
    nlp = make_nlp(features=features)
    train(nlp, n_epochs=1)
    pipe = nlp.get_pipe("elmo")

    def two(first):
        words = [*first, "It", "stands", "in", "all", "."]
        return Doc(
            nlp.vocab, words=words, sent_starts=[i in (0, len(first)) for i in range(len(words))]
        )

    docs = [two(["Who", "?"]), two(["What", "?"]), two(["What", "?"]), two([])]
    computed.clear()
    pipe.update([Example(doc, doc.copy()) for doc in docs])
    assert sorted(computed) == [("It", "stands", "in", "all", "."), ("What", "?"), ("Who", "?")]
    got = [doc._.elmo.copy() for doc in docs]
    docs[1]._.elmo[:] = 0.0
    again = [two(["Who", "?"]), two(["It", "stands", "in", "all", "."])]
    computed.clear()
    pipe.update([Example(doc, doc.copy()) for doc in again])
    assert computed == []
    np.testing.assert_array_equal(docs[2]._.elmo, got[2])
    pipe._shim.in_training = False
    plain = pipe.predict([*docs, *again])
    for layers, wanted in zip([*got, *(doc._.elmo for doc in again)], plain):
        np.testing.assert_allclose(layers, wanted, atol=1e-6)


def test_carried_state(make_nlp, computed):
    """A sentence behind another one is not that sentence alone."""
    nlp = make_nlp(initial_state="carry")
    train(nlp, n_epochs=1)
    pipe, words = nlp.get_pipe("elmo"), ["Maria", "swims", ".", "It", "rains", "."]
    both = Doc(nlp.vocab, words=words, sent_starts=[i in (0, 3) for i in range(6)])
    second = Doc(nlp.vocab, words=words[3:])
    got = [trained_on(pipe, doc).copy() for doc in (both, second, both.copy())]
    np.testing.assert_array_equal(got[2], got[0])
    assert not np.allclose(got[0][:, 3:], got[1])
    pipe._shim.in_training = False
    for layers, wanted in zip(got, pipe.predict([both, second])):
        np.testing.assert_allclose(layers, wanted, atol=1e-6)


def trained_on(pipe, doc):
    """The layers of a Doc in an update."""
    pipe.update([Example(doc, doc.copy())])
    return doc._.elmo


@pytest.fixture
def bfloat16(monkeypatch):
    """A processor with bfloat16, whatever this one has."""
    monkeypatch.setattr(find_kernel(), "fast_types", ("bfloat16", "int8"))


@pytest.mark.parametrize("change", ["set_bilm", "precision", "initial_state"])
def test_other_weights_other_layers(make_nlp, bfloat16, change):
    """Nothing outlives what it was computed with, nor takes its room."""
    nlp = make_nlp()
    train(nlp, n_epochs=1)
    pipe = nlp.get_pipe("elmo")
    doc = nlp.make_doc("Maria swims .")
    before = trained_on(pipe, doc)
    if change == "set_bilm":
        pipe.set_bilm(scaled(pipe.bilm))
    elif change == "precision":
        pipe.settings = replace(pipe.settings, precision="bfloat16")
    else:
        pipe.settings = replace(pipe.settings, initial_state="zeros")
    after = trained_on(pipe, doc)
    assert not np.array_equal(after[1:], before[1:])
    np.testing.assert_array_equal(trained_on(pipe, doc), after)
    assert len(pipe.features) == 1
    pipe._shim.in_training = False
    np.testing.assert_allclose(pipe.predict([doc])[0], after, atol=1e-6)


@pytest.mark.parametrize("first", ["float32", "bfloat16"])
def test_precisions_in_one_file(make_nlp, bfloat16, tmp_path, first):
    """Layers of one precision are served to no run of another."""
    second = {"float32": "bfloat16", "bfloat16": "float32"}[first]
    layers = {}
    for precision in (first, second):
        nlp = make_nlp(features=disk(tmp_path / "features.sqlite"))
        nlp.get_pipe("elmo").precision = precision
        train(nlp, n_epochs=1)
        again = fresh(examples(nlp))
        nlp.get_pipe("elmo").update(again)
        layers[precision] = again[0].x._.elmo
    plain = make_nlp(precision="float32").get_pipe("elmo").predict([again[0].x])[0]
    np.testing.assert_allclose(layers["float32"], plain, atol=1e-6)
    assert np.abs(layers["bfloat16"] - plain).max() > 1e-4


def test_copies_keep_the_precision(make_nlp):
    pipe = make_nlp(precision="int8").get_pipe("elmo")
    assert pipe.bilm.precision == pipe.settings.precision == "int8"
    with pytest.raises(AttributeError, match=r"Use pipe.precision = 'bfloat16'"):
        pipe.bilm.precision = "bfloat16"
    pipe.precision, pipe.cache = "bfloat16", 7
    for copied in (pipe, pickle.loads(pickle.dumps(pipe)), copy.deepcopy(pipe)):
        assert copied.bilm.precision == copied.settings.precision == "bfloat16"
        assert copied.bilm.cache.capacity == copied.settings.cache == 7


def test_layers_belong_to_the_doc(make_nlp):
    """Who writes into them changes no other Doc's."""
    nlp = make_nlp()
    batch = train(nlp, n_epochs=1)
    found = []
    for _ in range(3):
        (example,) = fresh(batch[:1])
        nlp.get_pipe("elmo").update([example])
        found.append(example.x._.elmo.copy())
        example.x._.elmo[:] = 0.0
    np.testing.assert_array_equal(found[1:], [found[0]] * 2)


def test_fine_tuning_keeps_nothing(make_nlp):
    nlp = make_nlp(frozen=False)
    train(nlp)
    assert len(nlp.get_pipe("elmo").features) == 0


def test_frozen_and_annotating_component(make_nlp, computed):
    """The other way to freeze: spaCy then runs the pipe before each update."""
    nlp = make_nlp()
    batch = train(nlp, n_epochs=1)
    sgd = nlp.resume_training()
    nlp.get_pipe("elmo").features.clear()
    nlp.get_pipe("elmo").model.shims[0].in_training = False
    for _ in range(2):
        computed.clear()
        nlp.update(fresh(batch), sgd=sgd, exclude=["elmo"], annotates=["elmo"])
    computed.clear()
    nlp.update(fresh(batch), sgd=sgd, exclude=["elmo"], annotates=["elmo"])
    assert computed == []


def test_copies_are_empty(make_nlp):
    """Nothing of it travels to other processes or into saved pipelines."""
    nlp = make_nlp()
    train(nlp, n_epochs=1)
    pipe = nlp.get_pipe("elmo")
    assert len(pipe.features) == 4
    for copied in (pickle.loads(pickle.dumps(pipe)), copy.deepcopy(pipe)):
        assert len(copied.features) == 0
        assert not copied.model.shims[0].in_training
        assert copied.features.config() == pipe.features.config()
    assert nlp.config["components"]["elmo"]["features"]["size"] == 1024.0


def test_after_replace_listeners(make_nlp, tmp_path, computed):
    """The component's own language model keeps features, too, when trained on."""
    nlp = make_nlp(features=disk(tmp_path / "features.sqlite", dtype="float16"))
    nlp.add_pipe("tagger", config=tagger(listener()))
    batch = examples(nlp)
    nlp.initialize(lambda: batch)
    nlp.replace_listeners("elmo", "tagger", ["model.tok2vec"])
    nlp.remove_pipe("elmo")
    nlp.to_disk(tmp_path / "pipeline")
    nlp = spacy.load(tmp_path / "pipeline")
    block = nlp.get_pipe_config("tagger")["model"]["tok2vec"]["features"]
    assert block == disk(tmp_path / "features.sqlite", dtype="float16", size=10240.0)
    sgd = nlp.resume_training()
    nlp.update(fresh(batch), sgd=sgd)
    computed.clear()
    nlp.update(fresh(batch), sgd=sgd)
    assert computed == []
