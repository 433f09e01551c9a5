"""The component `elmo_crf`: it learns, with any tok2vec; what it has learned is kept; missing and
wrong annotation."""

import pickle

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, Span
from spacy.training import Example
from thinc.api import Model

from spacy_elmo.tasks.crf_gold import gold_spans

from components import concat_input, embed, listener

TEXTS = [
    ("Maria Lopez lives in New York .", [(0, 2, "PER"), (4, 6, "LOC")]),
    ("In Rome Tom saw Maria .", [(1, 2, "LOC"), (2, 3, "PER"), (4, 5, "PER")]),
    ("Nobody lives here .", []),
    ("Tom Maria Rome", [(0, 1, "PER"), (1, 2, "PER"), (2, 3, "LOC")]),
]
RNN = {"@architectures": "spacy-elmo.BiRNN.v1", "width": 16}
WITHOUT_ELMO = {"@architectures": "spacy.Tok2Vec.v2", "embed": embed(16), "encode": RNN}
WITH_ELMO = {**WITHOUT_ELMO, "embed": listener(layer_norm=True)}


def crf(tok2vec, **settings):
    """The config of a component."""
    return {"model": {"@architectures": "spacy-elmo.CRFTagger.v1", "tok2vec": tok2vec}, **settings}


def make_doc(vocab, words, spans, spans_key=None, **settings):
    doc = Doc(vocab, words=words)
    found = [Span(doc, start, end, label=label) for start, end, label in spans]
    if spans_key is None:
        doc.set_ents(found, **settings)
    else:
        doc.spans[spans_key] = found
    return doc


def examples(nlp, texts=TEXTS, spans_key=None):
    return [
        Example(nlp.make_doc(text), make_doc(nlp.vocab, text.split(), spans, spans_key))
        for text, spans in texts
    ]


def train(nlp, steps=50, spans_key=None, **settings):
    data = examples(nlp, spans_key=spans_key)
    optimizer = nlp.initialize(lambda: data)
    optimizer.learn_rate = 0.02
    for _ in range(steps):
        nlp.update(data, sgd=optimizer, **settings)
    return data


@pytest.fixture
def make(make_nlp):
    """Makes a pipeline with the component, and before it `elmo` if need be."""

    def make(tok2vec, *, elmo=False, **settings):
        nlp = make_nlp() if elmo else spacy.blank("en")
        nlp.add_pipe("elmo_crf", config=crf(tok2vec, **settings))
        return nlp

    return make


@pytest.fixture(scope="module")
def trained():
    """A pipeline without ELMo that knows its training sentences."""
    spacy.util.fix_random_seed(0)
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo_crf", config=crf(WITHOUT_ELMO))
    train(nlp)
    return nlp


def spans_of(doc, spans_key=None):
    group = doc.ents if spans_key is None else doc.spans[spans_key]
    return [(span.start, span.end, span.label_) for span in group]


def predicted(nlp):
    return [spans_of(doc) for doc in nlp.pipe(text for text, _ in TEXTS)]


GOLD = [spans for _, spans in TEXTS]


@pytest.mark.parametrize(
    ("tok2vec", "scheme"),
    [(WITH_ELMO, "biluo"), (concat_input(), "biluo"), (WITHOUT_ELMO, "bio")],
)
def test_it_learns(make, tok2vec, scheme):
    spacy.util.fix_random_seed(0)
    nlp = make(tok2vec, elmo=tok2vec is not WITHOUT_ELMO, scheme=scheme)
    scores = nlp.evaluate(train(nlp, steps=100))
    assert nlp.get_pipe("elmo_crf").labels == ("LOC", "PER")
    assert scores["ents_f"] == 1.0
    assert predicted(nlp) == GOLD
    assert set(scores["ents_per_type"]) == {"LOC", "PER"}


def test_it_learns_by_default(make_nlp):
    spacy.util.fix_random_seed(0)
    nlp = make_nlp()
    nlp.add_pipe("elmo_crf")
    assert nlp.evaluate(train(nlp, steps=100))["ents_f"] == 1.0
    assert nlp.config["training"]["score_weights"]["ents_f"] == 1.0


def test_it_listens_to_a_tok2vec():
    spacy.util.fix_random_seed(0)
    nlp = spacy.blank("en")
    nlp.add_pipe("tok2vec", config={"model": WITHOUT_ELMO})
    nlp.add_pipe(
        "elmo_crf", config=crf({"@architectures": "spacy.Tok2VecListener.v1", "width": 16})
    )
    train(nlp, steps=1)
    untrained = nlp.get_pipe("tok2vec").model.to_bytes()
    assert nlp.evaluate(train(nlp))["ents_f"] == 1.0
    assert nlp.get_pipe("tok2vec").model.to_bytes() != untrained


def test_a_span_group(make):
    spacy.util.fix_random_seed(0)
    nlp = make(WITHOUT_ELMO, spans_key="chunks")
    data = train(nlp, spans_key="chunks")
    scores = nlp.evaluate(data)
    assert scores["spans_chunks_f"] == 1.0
    assert set(scores["spans_chunks_per_type"]) == {"LOC", "PER"}
    doc = nlp(TEXTS[0][0])
    assert spans_of(doc, "chunks") == GOLD[0]
    assert not doc.ents


@pytest.mark.parametrize("max_batch_tokens", [1, 8, 4096])
def test_batches_change_nothing(trained, max_batch_tokens, monkeypatch):
    """However many tokens are read at a time, which is no more than the setting says, or one
    Doc."""
    pipe = trained.get_pipe("elmo_crf")
    sizes = []
    read = Model.predict

    def count(model, docs):
        sizes.append((sum(map(len, docs)), len(docs)))
        return read(model, docs)

    monkeypatch.setattr(Model, "predict", count)
    monkeypatch.setattr(pipe, "max_batch_tokens", max_batch_tokens)
    texts = ["", *(text for text, _ in TEXTS), ""]
    assert [spans_of(doc) for doc in trained.pipe(texts)] == [[], *GOLD, []]
    assert all(n_tokens <= max_batch_tokens or n == 1 for n_tokens, n in sizes)


def test_gradients(make):
    """Of all weights by finite differences, with empty Docs and missing annotation."""
    spacy.util.fix_random_seed(0)
    nlp = make(WITHOUT_ELMO)
    words = ["Ann", "went", "to", "Old", "Town", "."]
    partial = make_doc(
        nlp.vocab, words, [(3, 5, "LOC")], missing=[Span(Doc(nlp.vocab, words=words), 0, 2)]
    )
    unknown = Example(nlp.make_doc("Who ?"), nlp.make_doc("Who ?"))
    empty = Example(nlp.make_doc(""), nlp.make_doc(""))
    data = [*examples(nlp), unknown, empty, Example(Doc(nlp.vocab, words=words), partial)]
    nlp.initialize(lambda: data)
    pipe = nlp.get_pipe("elmo_crf")
    rng = np.random.default_rng(0)
    for node in pipe.model.walk():
        for name in node.param_names:
            values = node.get_param(name)
            node.set_param(name, rng.normal(scale=0.3, size=values.shape).astype("float32"))
    pipe.update(data)
    shims = [shim.module for node in pipe.model.walk() for shim in node.shims]
    places = [(p.detach().numpy(), p.grad.numpy()) for m in shims for p in m.parameters()]
    assert places
    for node in pipe.model.walk():
        places += [(node.get_param(name), node.get_grad(name)) for name in node.param_names]
    for values, gradient in [(values, gradient.copy()) for values, gradient in places]:
        direction = rng.normal(size=values.shape).astype("float32")
        before, around = values.copy(), []
        for step in (1e-3, -1e-3):
            values[...] = before + np.float32(step) * direction
            around.append(pipe.update(data, losses={})["elmo_crf"])
        values[...] = before
        expected = (around[0] - around[1]) / 2e-3
        assert float((gradient * direction).sum()) == pytest.approx(expected, rel=0.03, abs=0.05)


# What is kept


def test_disk_bytes_and_pickle(trained, tmp_path):
    trained.to_disk(tmp_path / "pipeline")
    copy = spacy.blank("en")
    copy.add_pipe("elmo_crf", config=crf(WITHOUT_ELMO))
    for loaded in (
        spacy.load(tmp_path / "pipeline"),
        copy.from_bytes(trained.to_bytes()),
        pickle.loads(pickle.dumps(trained)),
    ):
        assert loaded.get_pipe("elmo_crf").labels == ("LOC", "PER")
        assert predicted(loaded) == GOLD
        assert loaded.evaluate(examples(loaded))["ents_f"] == 1.0


def test_processes(trained):
    texts = [text for text, _ in TEXTS]
    found = [spans_of(doc) for doc in trained.pipe(texts, n_process=2, batch_size=2)]
    assert found == GOLD


@pytest.mark.parametrize(
    ("tok2vec", "place"),
    [
        (listener(), "model.tok2vec"),
        (WITH_ELMO, "model.tok2vec.embed"),
        (concat_input(), "model.tok2vec.embed.elmo"),
    ],
)
def test_replaced_listeners(make, tmp_path, tok2vec, place):
    spacy.util.fix_random_seed(0)
    nlp = make(tok2vec, elmo=True)
    train(nlp, steps=20)
    expected = predicted(nlp)
    nlp.replace_listeners("elmo", "elmo_crf", [place])
    nlp.to_disk(tmp_path / "pipeline")
    assert predicted(spacy.load(tmp_path / "pipeline", exclude=["elmo"])) == expected


# Annotation


def test_entities_that_stand_before_are_kept(trained):
    doc = trained.make_doc(TEXTS[0][0])
    doc.ents = [Span(doc, 1, 3, label="SONG")]
    doc = trained(doc)
    assert (1, 3, "SONG") in spans_of(doc)
    assert (4, 6, "LOC") in spans_of(doc)


def test_missing_annotation_teaches_nothing(trained):
    """Neither a Doc without entities' tags, nor tokens of which all are missing."""
    plain = Example(trained.make_doc("Tom ran ."), trained.make_doc("Tom ran ."))
    assert trained.update([plain])["elmo_crf"] == 0.0
    assert trained.evaluate([plain])["ents_f"] is None
    biluo = ["U-PER", "-", "-", "-"]
    doc = trained.make_doc("Tom saw Rome .")
    example = Example.from_dict(doc, {"entities": biluo})
    assert gold_spans(example, None).missing.tolist() == [False, True, True, True]
    loss = trained.update([example])["elmo_crf"]
    full = Example.from_dict(trained.make_doc("Tom saw Rome ."), {"entities": [*biluo[:1], *"OOO"]})
    assert 0.0 <= loss < trained.update([full])["elmo_crf"]


def test_other_tokens_than_the_reference(trained):
    """Spans go to the predicted Doc's tokens; those that fit none are missing, not wrong."""
    words, spaces = ["He", "can", "not", "see", "York"], [1, 0, 1, 1, 0]
    spans = [(2, 3, "NEG"), (4, 5, "LOC")]
    for key in (None, "chunks"):
        reference = Doc(trained.vocab, words=words, spaces=spaces)
        found = [Span(reference, *span) for span in spans]
        reference.spans["chunks"] = found
        reference.ents = found
        predicted = Doc(trained.vocab, words=["He", "cannot", "see", "York"])
        gold = gold_spans(Example(predicted, reference), key)
        assert gold.spans == [(3, 4, "LOC")]
        assert gold.missing.tolist() == [False, True, False, False]


def test_overlapping_spans_are_named(make):
    nlp = make(WITHOUT_ELMO, spans_key="chunks")
    data = examples(nlp, spans_key="chunks")
    nlp.initialize(lambda: data)
    wrong = [("Tom and Maria saw Rome .", [(0, 3, "PER"), (2, 4, "LOC")])]
    named = r"PER \(0, 3\) and LOC \(2, 4\).*spans\['chunks'\].*'Tom and Maria saw Rome .'"
    with pytest.raises(ValueError, match=named) as error:
        nlp.update(examples(nlp, wrong, spans_key="chunks"))
    assert "\n" not in str(error.value)


def test_unknown_labels_are_named(trained):
    with pytest.raises(ValueError, match=r"SONG \(0, 1\) of the Doc 'Tom .'.*'elmo_crf'"):
        trained.update(examples(trained, [("Tom .", [(0, 1, "SONG")])]))


# Settings


def test_labels(make):
    nlp = make(WITHOUT_ELMO)
    pipe = nlp.get_pipe("elmo_crf")
    with pytest.raises(ValueError, match="Labels for component"):
        nlp("Tom ran .")
    assert pipe.add_label("ORG") == 1
    assert pipe.add_label("ORG") == 0
    pipe.initialize(lambda: examples(nlp), labels=["PER", "ORG"])
    assert pipe.label_data == ["ORG", "PER"]
    with pytest.raises(ValueError, match="LOC"):
        pipe.add_label("LOC")
    with pytest.raises(ValueError, match="finds no spans in doc.ents"):
        make(WITHOUT_ELMO).initialize(lambda: examples(nlp, TEXTS[2:3]))


@pytest.mark.parametrize(
    ("setting", "named"), [({"scheme": "iob"}, "iob"), ({"max_batch_tokens": 0}, "got 0")]
)
def test_impossible_settings(make, setting, named):
    with pytest.raises(ValueError, match=named):
        make(WITHOUT_ELMO, **setting)
