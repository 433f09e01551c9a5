"""Docs of two texts."""

import pytest
import spacy
from spacy.tokens import DocBin

from spacy_elmo.tasks.texts import QUESTION, copy_pair, make_pair, read_halves


@pytest.fixture(scope="module")
def nlp():
    return spacy.blank("en")


@pytest.mark.parametrize("first", ["A man didn't eat.", ["A", "man", "did", "n't", "eat", "."]])
def test_two_texts_of_a_pipeline(nlp, first):
    doc = make_pair(nlp, first, "A man eats.")
    assert [token.text for token in doc][:6] == ["A", "man", "did", "n't", "eat", "."]
    assert doc.spans["premise"][0].text == doc[:6].text
    assert doc.spans["hypothesis"][0].text == "A man eats."
    assert read_halves(doc, ("premise", "hypothesis")) == (slice(0, 6), slice(6, 10))
    assert [sentence.start for sentence in doc.sents] == [0, 6]
    if isinstance(first, str):
        assert doc.text == "A man didn't eat. A man eats."


def test_two_texts_of_a_vocab(nlp):
    doc = make_pair(nlp.vocab, "Who  isn't it ?", "He .", QUESTION)
    assert [token.text for token in doc] == ["Who", "isn't", "it", "?", "He", "."]
    assert doc.spans["question"][0].text == "Who isn't it ?"
    assert doc.spans["context"][0].text == "He ."


@pytest.mark.parametrize(("first", "second"), [("", "A man ."), ("A man .", ""), ("", "")])
def test_a_text_may_be_empty(nlp, first, second):
    doc = make_pair(nlp, first, second)
    (loaded,) = DocBin(docs=[doc]).from_bytes(DocBin(docs=[doc]).to_bytes()).get_docs(nlp.vocab)
    for one in (doc, loaded, copy_pair(doc, ("premise", "hypothesis"))):
        halves = read_halves(one, ("premise", "hypothesis"))
        assert [one[half].text for half in halves] == [first, second]


def test_a_copy_has_what_can_be_predicted_from(nlp):
    doc = make_pair(nlp, "A man didn't eat.", "A man eats.")
    doc.cats = {"neutral": 1.0}
    copy = copy_pair(doc, ("premise", "hypothesis"))
    assert copy.text == doc.text
    assert [token.is_sent_start for token in copy] == [token.is_sent_start for token in doc]
    assert not copy.cats


def test_docs_that_are_no_pairs(nlp):
    with pytest.raises(ValueError, match=r"'A man eats .'.*'premise'.*has 0.*make_pair"):
        read_halves(nlp("A man eats ."), ("premise", "hypothesis"))
    doc = make_pair(nlp, "A man .", "He eats .")
    doc.spans["premise"] = [doc[:2], doc[2:3]]
    with pytest.raises(ValueError, match=r"'premise'.*has 2"):
        read_halves(doc, ("premise", "hypothesis"))
    doc.spans["premise"] = [doc[:4]]
    with pytest.raises(ValueError, match=r"premise \(0, 4\) and hypothesis \(3, 6\).*overlap"):
        read_halves(doc, ("premise", "hypothesis"))
