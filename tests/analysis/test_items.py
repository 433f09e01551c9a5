import pytest
import spacy
from spacy.tokens import Doc, Span

from spacy_elmo.analysis.sample import LabeledItem, parse_task

VOCAB = spacy.blank("en").vocab


def make_doc():
    doc = Doc(
        VOCAB,
        words=["New", "York", "sleeps", "."],
        tags=["NNP", "NNP", "VBZ", ""],
        pos=["PROPN", "PROPN", "VERB", "PUNCT"],
        heads=[1, 2, 2, 2],
        deps=["compound", "nsubj", "ROOT", "punct"],
        ents=["B-GPE", "I-GPE", "O", ""],
    )
    doc.spans["places"] = [Span(doc, 0, 2, "CITY"), Span(doc, 2, 3)]
    doc.cats = {"a": 0.2, "b": 1.0}
    return doc


@pytest.mark.parametrize(
    ("task", "labels"),
    [
        ("tag", ["NNP", "NNP", "VBZ"]),
        ("pos", ["PROPN", "PROPN", "VERB", "PUNCT"]),
        ("dep", ["compound", "nsubj", "ROOT", "punct"]),
        ("ent", ["B-GPE", "I-GPE", "O"]),
    ],
)
def test_labels_of_tokens(task, labels):
    """What is not annotated is left out."""
    words = ["New", "York", "sleeps", "."]
    expected = [LabeledItem(i, i + 1, label, words[i]) for i, label in enumerate(labels)]
    assert parse_task(task).items(make_doc()) == expected


def test_labels_of_spans_and_docs():
    doc = make_doc()
    assert parse_task("spans:places").items(doc) == [LabeledItem(0, 2, "CITY", "New York")]
    assert parse_task("senses:places").items(doc) == [LabeledItem(0, 2, "CITY", "new york")]
    assert parse_task("spans:other").items(doc) == []
    assert parse_task("cats").items(doc) == [LabeledItem(0, 4, "b", "")]
    assert [parse_task(name).is_senses for name in ("spans:x", "senses:x")] == [False, True]


def test_nothing_is_labelled():
    blank = Doc(VOCAB, words=["a", "b"])
    for task in ("tag", "pos", "dep", "ent", "cats", "spans:x"):
        assert parse_task(task).items(blank) == []
    empty = Doc(VOCAB)
    empty.cats = {"a": 1.0}
    assert parse_task("cats").items(empty) == []


@pytest.mark.parametrize("cats", [{"a": 1.0, "b": 1.0}, {"a": 0.0, "b": 0.0}])
def test_several_categories_or_none(cats):
    doc = make_doc()
    doc.cats = cats
    with pytest.raises(ValueError, match="exactly one"):
        parse_task("cats").items(doc)


@pytest.mark.parametrize("name", ["", "lemma", "tag:x", "cats:x", "spans", "spans:", "senses"])
def test_unknown_tasks(name):
    with pytest.raises(ValueError, match=f"no task '{name}'. Give tag, pos"):
        parse_task(name)
