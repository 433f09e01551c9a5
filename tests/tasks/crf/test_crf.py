"""The component `elmo_crf`: tags and groups of spans; missing and wrong annotation."""

import pytest
from spacy.tokens import Doc, Span
from spacy.training import Example
from thinc.api import Model

from spacy_elmo.tasks.crf.gold import gold_spans

from helpers.calls import note_calls
from helpers.gradients import check_component
from helpers.tasks import CRF, ENTITIES, entity_examples, make_spans, spans_of

GOLD = [spans for _, spans in ENTITIES]


@pytest.fixture
def trained(know):
    return know(CRF)


def test_the_other_scheme(make):
    nlp = make(CRF, scheme="bio")
    scores = nlp.evaluate(CRF.train(nlp))
    assert scores["ents_f"] == 1.0
    assert set(scores["ents_per_type"]) == {*nlp.get_pipe("elmo_crf").labels} == {"LOC", "PER"}
    assert CRF.all_right(nlp, CRF.found_by(nlp))


def test_a_span_group(make):
    nlp = make(CRF, spans_key="chunks")
    data = CRF.train(nlp, steps=50, data=entity_examples(nlp, spans_key="chunks"))
    scores = nlp.evaluate(data)
    assert scores["spans_chunks_f"] == 1.0
    assert set(scores["spans_chunks_per_type"]) == {"LOC", "PER"}
    doc = nlp(ENTITIES[0][0])
    assert spans_of(doc, "chunks") == GOLD[0]
    assert not doc.ents


@pytest.mark.parametrize("max_batch_tokens", [1, 8, 4096])
def test_batches_change_nothing(trained, max_batch_tokens, monkeypatch):
    """However many tokens are read at a time, which is no more than the setting says, or one
    Doc."""
    pipe = trained.get_pipe("elmo_crf")
    read = note_calls(monkeypatch, Model, "predict", lambda model, docs: docs)
    monkeypatch.setattr(pipe, "max_batch_tokens", max_batch_tokens)
    texts = ["", *(text for text, _ in ENTITIES), ""]
    assert [spans_of(doc) for doc in trained.pipe(texts)] == [[], *GOLD, []]
    assert all(sum(map(len, docs)) <= max_batch_tokens or len(docs) == 1 for docs in read)


def test_gradients(make):
    """Of all weights by finite differences, with empty Docs and missing annotation."""
    nlp = make(CRF)
    words = ["Ann", "went", "to", "Old", "Town", "."]
    partial = make_spans(
        nlp.vocab, words, [(3, 5, "LOC")], missing=[Span(Doc(nlp.vocab, words=words), 0, 2)]
    )
    unknown = Example(nlp.make_doc("Who ?"), nlp.make_doc("Who ?"))
    empty = Example(nlp.make_doc(""), nlp.make_doc(""))
    data = [*CRF.examples(nlp), unknown, empty, Example(Doc(nlp.vocab, words=words), partial)]
    nlp.initialize(lambda: data)
    check_component(nlp.get_pipe("elmo_crf"), data, scale=0.3, rel=0.03, noise=0.05)


# Annotation


def test_entities_that_stand_before_are_kept(trained):
    doc = trained.make_doc(ENTITIES[0][0])
    doc.ents = [Span(doc, 1, 3, label="SONG")]
    doc = trained(doc)
    assert (1, 3, "SONG") in spans_of(doc)
    assert (4, 6, "LOC") in spans_of(doc)


def test_blocked_tokens_are_kept(trained):
    """As by spaCy's `ner`: they are no part of an entity, and a later pipe sees that."""
    doc = trained.make_doc(ENTITIES[0][0])
    free = spans_of(trained(trained.make_doc(ENTITIES[0][0])))
    start, end, _ = free[0]
    doc.set_ents([], blocked=[doc[start:end]], default="missing")
    assert spans_of(trained(doc)) == free[1:]
    assert [(doc[i].ent_iob, doc[i].ent_type) for i in range(start, end)] == [(3, 0)] * (
        end - start
    )
    assert {token.ent_iob for token in doc[end:]} <= {1, 2, 3}


def test_missing_annotation_teaches_nothing(trained):
    """Tokens of which all is missing."""
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
    nlp = make(CRF, spans_key="chunks")
    data = entity_examples(nlp, spans_key="chunks")
    nlp.initialize(lambda: data)
    wrong = [("Tom and Maria saw Rome .", [(0, 3, "PER"), (2, 4, "LOC")])]
    named = r"PER \(0, 3\).*spans\['chunks'\].*'Tom and Maria saw Rome .' overlaps LOC \(2, 4\)"
    with pytest.raises(ValueError, match=named) as error:
        nlp.update(entity_examples(nlp, wrong, spans_key="chunks"))
    assert "\n" not in str(error.value)


def test_unknown_labels_are_named(trained):
    with pytest.raises(
        ValueError, match=r"SONG \(0, 1\) of doc.ents in the Doc 'Tom .'.*'elmo_crf'"
    ):
        trained.update(entity_examples(trained, [("Tom .", [(0, 1, "SONG")])]))
