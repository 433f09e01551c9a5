"""Docs of two texts: made, saved, and refused if a text is missing."""

import pytest
import spacy
from spacy.tokens import DocBin

from spacy_elmo.tasks.texts import ENTAILMENT, QUESTION, copy_pair, make_pair, read_halves

from helpers.models import check_refused

NLP = spacy.blank("en")


def test_a_pair_has_two_texts_of_one_vocab():
    doc = make_pair(NLP.vocab, "Who  isn't it ?", "He .", QUESTION)
    assert [token.text for token in doc] == ["Who", "isn't", "it", "?", "He", "."]
    assert doc.spans["question"][0].text == "Who isn't it ?"
    assert doc.spans["context"][0].text == "He ."


@pytest.mark.parametrize(("first", "second"), [("", "A man ."), ("A man .", ""), ("", "")])
def test_a_text_may_be_empty(first, second):
    doc = make_pair(NLP, first, second)
    (loaded,) = DocBin(docs=[doc]).from_bytes(DocBin(docs=[doc]).to_bytes()).get_docs(NLP.vocab)
    for one in (doc, loaded, copy_pair(doc, ENTAILMENT)):
        halves = read_halves(one, ENTAILMENT)
        assert [one[half].text for half in halves] == [first, second]


def test_docs_that_are_no_pairs_are_refused():
    named = ("'A man eats .'", "'premise'", "has 0", "make_pair")
    check_refused(lambda: read_halves(NLP("A man eats ."), ENTAILMENT), *named)
    doc = make_pair(NLP, "A man .", "He eats .")
    doc.spans["premise"] = [doc[:2], doc[2:3]]
    check_refused(lambda: read_halves(doc, ENTAILMENT), "'premise'", "has 2")
    doc.spans["premise"] = [doc[:4]]
    named = ("premise (0, 4) and hypothesis (3, 6)", "overlap")
    check_refused(lambda: read_halves(doc, ENTAILMENT), *named)
