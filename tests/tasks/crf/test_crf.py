"""The component `elmo_crf`: its schemes and span groups, and missing and wrong annotation."""

import pytest
from spacy.tokens import Span
from spacy.training import Example

from spacy_elmo.tasks.crf.gold import gold_spans

from helpers.models import check_refused
from helpers.tasks import CRF, ENTITIES, entity_examples, spans_of

pytestmark = pytest.mark.training

TASK = CRF


@pytest.mark.pipelines
def test_bio_tags_and_a_span_group(make):
    nlp = make(CRF, scheme="bio", spans_key="chunks")
    data = CRF.train(nlp, steps=30, data=entity_examples(nlp, spans_key="chunks"))
    scores, labels = nlp.evaluate(data), {*nlp.get_pipe("elmo_crf").labels}
    assert scores["spans_chunks_f"] == 1.0
    assert {*scores["spans_chunks_per_type"]} == labels == {"LOC", "PER"}
    doc = nlp(ENTITIES[0][0])
    assert spans_of(doc, "chunks") == ENTITIES[0][1]
    assert not doc.ents
    wrong = [("Tom and Maria saw Rome .", [(0, 3, "PER"), (2, 4, "LOC")])]
    data = entity_examples(nlp, wrong, spans_key="chunks")
    named = ("PER (0, 3)", "spans['chunks']", "'Tom and Maria saw Rome .' overlaps LOC (2, 4)")
    assert "\n" not in check_refused(lambda: nlp.update(data), *named)


# Annotation


def test_earlier_entities_and_blocked_tokens_are_kept(trained):
    """Blocked tokens are in no entity, and a later pipe sees that, as with spaCy's `ner`."""
    doc = trained.make_doc(ENTITIES[0][0])
    doc.ents = [Span(doc, 1, 3, label="SONG")]
    assert {(1, 3, "SONG"), (4, 6, "LOC")} <= {*spans_of(trained(doc))}
    doc = trained.make_doc(ENTITIES[0][0])
    (start, end, _), *others = spans_of(trained(doc.copy()))
    doc.set_ents([], blocked=[doc[start:end]], default="missing")
    assert spans_of(trained(doc)) == others
    assert {(token.ent_iob, token.ent_type) for token in doc[start:end]} == {(3, 0)}
    assert {token.ent_iob for token in doc[end:]} <= {1, 2, 3}


def test_tokens_without_annotation_cost_nothing(trained):
    biluo = ["U-PER", "-", "-", "-"]
    doc = trained.make_doc("Tom saw Rome .")
    example = Example.from_dict(doc, {"entities": biluo})
    assert gold_spans(example, None)[1].tolist() == [False, True, True, True]
    loss = trained.update([example])["elmo_crf"]
    full = Example.from_dict(trained.make_doc("Tom saw Rome ."), {"entities": [*biluo[:1], *"OOO"]})
    assert 0.0 <= loss < trained.update([full])["elmo_crf"]


def test_unknown_labels_are_named(trained):
    data = entity_examples(trained, [("Tom .", [(0, 1, "SONG")])])
    named = ("SONG (0, 1) of doc.ents in the Doc 'Tom .'", "'elmo_crf'")
    check_refused(lambda: trained.update(data), *named)
